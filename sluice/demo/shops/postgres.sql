-- The shop: four small tables with the types people really have. Loaded by the demo and by docker-compose.
-- Sizes come in as settings, so that tests can have a smaller shop: shop.customers, shop.orders, shop.lines, shop.audit.

CREATE SCHEMA IF NOT EXISTS shop;
SET search_path = shop;

CREATE TYPE customer_status AS ENUM ('new', 'active', 'sleeping', 'closed');

CREATE TABLE customers (
    id          bigint PRIMARY KEY,
    external_id uuid NOT NULL,
    name        text NOT NULL,
    email       text,
    status      customer_status NOT NULL,
    active      boolean NOT NULL,
    credit      numeric(12, 2) NOT NULL,
    rating      double precision,
    born        date,
    wakes_at    time,
    tags        text[],
    profile     jsonb,
    photo       bytea,
    biography   text,
    created_at  timestamp NOT NULL,
    updated_at  timestamptz NOT NULL
);
-- Kept out of line and uncompressed, so that an update of another column really leaves it unchanged in the log (TOAST).
ALTER TABLE customers ALTER COLUMN biography SET STORAGE EXTERNAL;

CREATE TABLE orders (
    id          bigint PRIMARY KEY,
    customer_id bigint NOT NULL,
    status      text NOT NULL,
    total       numeric(12, 2) NOT NULL,
    discount    double precision,
    paid        boolean NOT NULL,
    ordered_on  date NOT NULL,
    ordered_at  timestamptz NOT NULL,
    note        text
);

CREATE TABLE order_lines (
    order_id bigint NOT NULL,
    line     integer NOT NULL,
    sku      text NOT NULL,
    quantity integer NOT NULL,
    price    numeric(12, 2) NOT NULL,
    PRIMARY KEY (order_id, line)
);

-- No primary key: every insert is an event of its own, which an append table keeps once.
CREATE TABLE audit (
    at       timestamptz NOT NULL,
    actor    text NOT NULL,
    action   text NOT NULL,
    detail   jsonb
);

INSERT INTO customers
SELECT i,
       md5('customer ' || i)::uuid,
       'Customer ' || i || CASE i % 7 WHEN 0 THEN ' Müller' WHEN 1 THEN ' O''Neil' WHEN 2 THEN E' "Näme"\t水' ELSE '' END,
       CASE WHEN i % 11 = 0 THEN NULL ELSE 'user' || i || '@example.com' END,
       (ARRAY['new', 'active', 'sleeping', 'closed'])[1 + i % 4]::customer_status,
       i % 3 <> 0,
       ((i * 7919) % 10000000)::numeric / 100 - 5000,
       CASE WHEN i % 13 = 0 THEN NULL ELSE (i % 1000) / 7.0::double precision END,
       DATE '1950-01-01' + (i * 31 % 20000)::integer,
       TIME '00:00' + (i % 86400) * INTERVAL '1 second' + (i % 1000) * INTERVAL '1 microsecond',
       CASE WHEN i % 5 = 0 THEN NULL ELSE ARRAY['tag' || i % 10, 'a,b "' || i % 3] END,
       jsonb_build_object('visits', i % 100, 'city', 'City ' || i % 50, 'opt_in', i % 2 = 0),
       CASE WHEN i % 10 = 0 THEN decode(md5('photo ' || i), 'hex') END,
       CASE WHEN i % 100 = 0 THEN repeat(md5('biography ' || i), 150) ELSE 'Short life ' || i END,
       TIMESTAMP '2020-01-01' + i * INTERVAL '61.000001 seconds',
       TIMESTAMPTZ '2026-01-01 00:00:00+00' + i * INTERVAL '7.000013 seconds'
FROM generate_series(1, current_setting('shop.customers')::bigint) AS i;

INSERT INTO orders
SELECT i,
       1 + (i * 7919) % current_setting('shop.customers')::bigint,
       (ARRAY['open', 'packed', 'sent', 'done'])[1 + i % 4],
       ((i * 104729) % 2000000)::numeric / 100,
       CASE WHEN i % 4 = 0 THEN (i % 40) / 100.0::double precision END,
       i % 4 > 0,
       DATE '2025-01-01' + (i % 600)::integer,
       TIMESTAMPTZ '2025-01-01 00:00:00+00' + i * INTERVAL '97.000007 seconds',
       CASE WHEN i % 20 = 0 THEN 'Leave at the door ' || i END
FROM generate_series(1, current_setting('shop.orders')::bigint) AS i;

INSERT INTO order_lines
SELECT 1 + (i - 1) / 2, 1 + ((i - 1) % 2)::integer, 'SKU-' || (i * 31) % 5000, 1 + (i % 9)::integer, ((i * 37) % 30000)::numeric / 100
FROM generate_series(1, current_setting('shop.lines')::bigint) AS i;

INSERT INTO audit
SELECT TIMESTAMPTZ '2026-06-01 00:00:00+00' + i * INTERVAL '1.000001 seconds', 'loader', 'load', jsonb_build_object('n', i)
FROM generate_series(1, current_setting('shop.audit')::bigint) AS i;

ANALYZE customers, orders, order_lines, audit;
