-- The shop in MariaDB: four small tables with the types people really have. The user variables @customers, @orders, @lines, and
-- @audit have the sizes. One statement ends with each semicolon at the end of a line.

CREATE DATABASE IF NOT EXISTS shop;
USE shop;

CREATE TABLE customers (
    id          bigint NOT NULL PRIMARY KEY,
    external_id char(36) NOT NULL,
    name        varchar(200) NOT NULL,
    email       varchar(200),
    status      enum('new', 'active', 'sleeping', 'closed') NOT NULL,
    active      boolean NOT NULL,
    visits      int unsigned NOT NULL,
    credit      decimal(12, 2) NOT NULL,
    rating      double,
    born        date,
    wakes_at    time(6),
    tags        set('loyal', 'fresh', 'a b', 'é'),
    profile     json,
    photo       varbinary(200),
    biography   mediumtext,
    created_at  datetime(6) NOT NULL,
    updated_at  timestamp(6) NOT NULL DEFAULT current_timestamp(6)
) CHARACTER SET utf8mb4;

CREATE TABLE orders (
    id          bigint NOT NULL PRIMARY KEY,
    customer_id bigint NOT NULL,
    status      varchar(20) NOT NULL,
    total       decimal(12, 2) NOT NULL,
    discount    double,
    paid        boolean NOT NULL,
    ordered_on  date NOT NULL,
    ordered_at  timestamp(6) NOT NULL DEFAULT current_timestamp(6),
    note        text
) CHARACTER SET utf8mb4;

CREATE TABLE order_lines (
    order_id bigint NOT NULL,
    line     int NOT NULL,
    sku      varchar(40) NOT NULL,
    quantity int NOT NULL,
    price    decimal(12, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
) CHARACTER SET utf8mb4;

-- No primary key: every insert is an event of its own, which an append table keeps once.
CREATE TABLE audit (
    at       timestamp(6) NOT NULL DEFAULT current_timestamp(6),
    actor    varchar(40) NOT NULL,
    action   varchar(40) NOT NULL,
    detail   json
) CHARACTER SET utf8mb4;

INSERT INTO customers
SELECT seq,
       md5(concat('customer ', seq)),
       concat('Customer ', seq, CASE seq % 7 WHEN 0 THEN ' Müller' WHEN 1 THEN ' O''Neil' WHEN 2 THEN ' "Näme"\t水' ELSE '' END),
       CASE WHEN seq % 11 = 0 THEN NULL ELSE concat('user', seq, '@example.com') END,
       1 + seq % 4,
       seq % 3 <> 0,
       seq * 4294967 % 4294967295,
       ((seq * 7919) % 10000000) / 100 - 5000,
       CASE WHEN seq % 13 = 0 THEN NULL ELSE (seq % 1000) / 7e0 END,
       DATE '1950-01-01' + INTERVAL (seq * 31 % 20000) DAY,
       sec_to_time(seq % 86400) + INTERVAL (seq % 1000) MICROSECOND,
       CASE WHEN seq % 5 = 0 THEN NULL ELSE seq % 16 END,
       json_object('visits', seq % 100, 'city', concat('City ', seq % 50), 'opt_in', seq % 2 = 0),
       CASE WHEN seq % 10 = 0 THEN unhex(md5(concat('photo ', seq))) END,
       CASE WHEN seq % 100 = 0 THEN repeat(md5(concat('biography ', seq)), 150) ELSE concat('Short life ', seq) END,
       TIMESTAMP '2020-01-01 00:00:00' + INTERVAL seq * 61000001 MICROSECOND,
       TIMESTAMP '2026-01-01 00:00:00' + INTERVAL seq * 7000013 MICROSECOND
FROM seq_1_to_1000000000 WHERE seq <= @customers;

INSERT INTO orders
SELECT seq,
       1 + (seq * 7919) % @customers,
       elt(1 + seq % 4, 'open', 'packed', 'sent', 'done'),
       ((seq * 104729) % 2000000) / 100,
       CASE WHEN seq % 4 = 0 THEN (seq % 40) / 100e0 END,
       seq % 4 > 0,
       DATE '2025-01-01' + INTERVAL (seq % 600) DAY,
       TIMESTAMP '2025-01-01 00:00:00' + INTERVAL seq * 97000007 MICROSECOND,
       CASE WHEN seq % 20 = 0 THEN concat('Leave at the door ', seq) END
FROM seq_1_to_1000000000 WHERE seq <= @orders;

INSERT INTO order_lines
SELECT 1 + (seq - 1) DIV 2, 1 + (seq - 1) % 2, concat('SKU-', (seq * 31) % 5000), 1 + seq % 9, ((seq * 37) % 30000) / 100
FROM seq_1_to_1000000000 WHERE seq <= @lines;

INSERT INTO audit
SELECT TIMESTAMP '2026-06-01 00:00:00' + INTERVAL seq * 1000001 MICROSECOND, 'loader', 'load', json_object('n', seq)
FROM seq_1_to_1000000000 WHERE seq <= @audit;

ANALYZE TABLE customers, orders, order_lines, audit;
