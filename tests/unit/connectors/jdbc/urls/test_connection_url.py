"""Parsing of ``connection.url``: valid and invalid forms."""

from __future__ import annotations

import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.engine import URL, make_url

from connect.errors import ConfigError
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url, require_driver


def read(url: str, user: str | None = None, password: str | None = None, **properties: str) -> ConnectionTarget:
    return parse_connection_url(url, user, password, properties)


def refused(url: str, **properties: str) -> str:
    with pytest.raises(ConfigError) as raised:
        read(url, **properties)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    return str(raised.value)


PG = "postgresql+psycopg://"
MY = "mysql+pymysql://"
UTF8 = {"charset": "utf8mb4"}
ODBC = "driver=ODBC+Driver+18+for+SQL+Server"


POSTGRESQL: list[tuple[str, str, dict[str, Any]]] = [
    ("jdbc:postgresql://db.example:6432/shop", f"{PG}db.example:6432/shop", {}),
    ("jdbc:postgresql://db/shop", f"{PG}db:5432/shop", {}),
    ("jdbc:postgresql://db", f"{PG}db:5432", {}),
    ("jdbc:postgresql://db/", f"{PG}db:5432", {}),
    ("jdbc:postgresql:shop", f"{PG}localhost:5432/shop", {}),
    ("jdbc:postgresql:///shop", f"{PG}localhost:5432/shop", {}),
    ("jdbc:postgresql://:6432/shop", f"{PG}localhost:6432/shop", {}),
    ("jdbc:postgresql:", f"{PG}localhost:5432", {}),
    ("JDBC:PostgreSQL://db/shop", f"{PG}db:5432/shop", {}),
    ("  jdbc:postgresql://db/shop\n", f"{PG}db:5432/shop", {}),
    ("jdbc:postgresql://[2001:db8::1]:6432/shop", f"{PG}[2001:db8::1]:6432/shop", {}),
    ("jdbc:postgresql://db/my%20shop%2Fa%40b", f"{PG}db:5432/my shop/a%40b", {}),
    ("jdbc:postgresql://db/a+b", f"{PG}db:5432/a b", {}),  # as pgjdbc reads it
    ("jdbc:postgresql://db/shop?user=me&password=s%26t%3Da%2Bb+c", f"{PG}me:s&t%3Da%2Bb c@db:5432/shop", {}),
    ("jdbc:postgresql://me:pa%3Ass@db/shop", f"{PG}me:pa%3Ass@db:5432/shop", {}),
    ("jdbc:postgresql://h1:5433,h2/shop", f"{PG}/shop", {"host": "h1,h2", "port": "5433,5432"}),
    ("jdbc:postgresql://[::1],h2:1/shop", f"{PG}/shop", {"host": "::1,h2", "port": "5432,1"}),
    ("jdbc:postgresql://%2Fvar%2Frun%2Fpostgresql/shop", f"{PG}/shop", {"host": "/var/run/postgresql", "port": "5432"}),
    ("jdbc:postgresql:shop?host=h1,h2&port=6000", f"{PG}/shop", {"host": "h1,h2", "port": "6000,6000"}),
    (
        "jdbc:postgresql://localhost/shop?socketFactory=org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg"
        "&socketFactoryArg=/var/run/postgresql/.s.PGSQL.5433",
        f"{PG}/shop",
        {"host": "/var/run/postgresql", "port": "5433"},
    ),
    ("jdbc:postgresql:?service=shop", f"{PG}", {"service": "shop"}),
    ("jdbc:postgresql://db/s?ssl=true", f"{PG}db:5432/s", {"sslmode": "verify-full"}),
    ("jdbc:postgresql://db/s?ssl", f"{PG}db:5432/s", {"sslmode": "verify-full"}),
    ("jdbc:postgresql://db/s?ssl=false", f"{PG}db:5432/s", {}),
    ("jdbc:postgresql://db/s?ssl=true&sslmode=REQUIRE", f"{PG}db:5432/s", {"sslmode": "require"}),
    (
        "jdbc:postgresql://db/s?ssl=true&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory",
        f"{PG}db:5432/s",
        {"sslmode": "verify-full", "sslrootcert": "system"},
    ),
    (
        "jdbc:postgresql://db/s?sslmode=verify-ca&sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem&sslpassword=pw",
        f"{PG}db:5432/s",
        {"sslmode": "verify-ca", "sslcert": "/c.pem", "sslkey": "/k.pem", "sslpassword": "pw", "sslrootcert": "/ca.pem"},
    ),
    ("jdbc:postgresql://db/s?currentSchema=a,%22My%20One%22", f"{PG}db:5432/s", {"options": r'-csearch_path=a,"My\ One"'}),
    (
        "jdbc:postgresql://db/s?options=-c%20statement_timeout=90000&currentSchema=a&readOnly=true",
        f"{PG}db:5432/s",
        {"options": "-c statement_timeout=90000 -csearch_path=a -cdefault_transaction_read_only=on"},
    ),
    ("jdbc:postgresql://db/s?ApplicationName=my%20app", f"{PG}db:5432/s", {"application_name": "my app"}),
    ("jdbc:postgresql://db/s?connectTimeout=10", f"{PG}db:5432/s", {"connect_timeout": 10}),
    ("jdbc:postgresql://db/s?connectTimeout=10&loginTimeout=2.5", f"{PG}db:5432/s", {"connect_timeout": 3}),
    ("jdbc:postgresql://db/s?connectTimeout=0", f"{PG}db:5432/s", {"connect_timeout": 0}),
    ("jdbc:postgresql://db/s?tcpKeepAlive=true", f"{PG}db:5432/s", {"keepalives": 1}),
    ("jdbc:postgresql://db/s?keepalives_idle=30", f"{PG}db:5432/s", {"keepalives_idle": "30"}),
    ("jdbc:postgresql://db/s?targetServerType=master", f"{PG}db:5432/s", {"target_session_attrs": "primary"}),
    ("jdbc:postgresql://db/s?targetServerType=preferSlave", f"{PG}db:5432/s", {"target_session_attrs": "prefer-standby"}),
    ("jdbc:postgresql://db/s?loadBalanceHosts=true", f"{PG}db:5432/s", {"load_balance_hosts": "random"}),
    ("jdbc:postgresql://db/s?gssEncMode=disable", f"{PG}db:5432/s", {"gssencmode": "disable"}),
    ("jdbc:postgresql://db/s?gssEncMode=allow", f"{PG}db:5432/s", {}),
    ("jdbc:postgresql://db/s?channelBinding=require", f"{PG}db:5432/s", {"channel_binding": "require"}),
    ("jdbc:postgresql://db/s?prepareThreshold=0", f"{PG}db:5432/s", {"prepare_threshold": None}),
    ("jdbc:postgresql://db/s?prepareThreshold=1", f"{PG}db:5432/s", {"prepare_threshold": 0}),
    ("jdbc:postgresql://db/s?prepareThreshold=5", f"{PG}db:5432/s", {"prepare_threshold": 4}),
    ("jdbc:postgresql://db/s?preferQueryMode=simple", f"{PG}db:5432/s", {"prepare_threshold": None}),
    ("jdbc:cockroachdb://db/s", "cockroachdb+psycopg://db:26257/s", {}),
    ("jdbc:yugabytedb://db/s", f"{PG}db:5433/s", {}),
    ("jdbc:redshift://c.redshift.amazonaws.com/dev?UID=u&PWD=p", "redshift+psycopg2://u:p@c.redshift.amazonaws.com:5439/dev", {}),
    (
        "jdbc:redshift://c:5440/dev;ssl=false;tcpKeepAlive=true",
        "redshift+psycopg2://c:5440/dev",
        {"keepalives": 1, "sslmode": "prefer"},
    ),
]

MYSQL: list[tuple[str, str, dict[str, Any]]] = [
    ("jdbc:mysql://db:3307/shop", f"{MY}db:3307/shop", {}),
    ("jdbc:mysql://db/shop?user=me&password=p%40w+x", f"{MY}me:p%40w x@db:3306/shop", {}),
    ("jdbc:mysql://me:p%40w@db/shop", f"{MY}me:p%40w@db:3306/shop", {}),
    ("jdbc:mysql:///shop", f"{MY}localhost:3306/shop", {}),
    ("jdbc:mysql://[::1]:3307/shop", f"{MY}[::1]:3307/shop", {}),
    ("jdbc:mysql://address=(host=db)(port=3310)(user=me)(password=pw)/shop", f"{MY}me:pw@db:3310/shop", {}),
    ("jdbc:mysql://address=(host=h1)(user=me@x),address=(host=h2)(user=me@x)/shop", f"{MY}me%40x@h1:3306/shop", {}),
    ("jdbc:mysql://(host=db,port=3310,user=me)/shop", f"{MY}me@db:3310/shop", {}),
    ("jdbc:mysql://me:pw@[h1:1,(host=h2)]/shop", f"{MY}me:pw@h1:1/shop", {}),
    ("jdbc:mysql:loadbalance://h1:1,h2/shop", f"{MY}h1:1/shop", {}),
    ("jdbc:mysql:replication://address=(type=source)(host=h1),h2/shop", f"{MY}h1:3306/shop", {}),
    (
        "jdbc:mysql://db/shop?connectTimeout=5000&socketTimeout=1500",
        f"{MY}db:3306/shop",
        {"connect_timeout": 5, "read_timeout": 1.5},
    ),
    ("jdbc:mysql://db/shop?connectTimeout=0&socketTimeout=0", f"{MY}db:3306/shop", {"connect_timeout": 31_536_000}),
    ("jdbc:mysql://db/shop?useSSL=false", f"{MY}db:3306/shop", {"ssl_disabled": True}),
    ("jdbc:mysql://db/shop?useSSL=true", f"{MY}db:3306/shop", {}),
    (
        "jdbc:mysql://db/shop?useSSL=true&requireSSL=true",
        f"{MY}db:3306/shop",
        {"ssl": {"verify_mode": False, "check_hostname": False}},
    ),
    ("jdbc:mysql://db/shop?sslMode=REQUIRED", f"{MY}db:3306/shop", {"ssl": {"verify_mode": False, "check_hostname": False}}),
    ("jdbc:mysql://db/shop?sslMode=DISABLED&useSSL=true", f"{MY}db:3306/shop", {"ssl_disabled": True}),
    ("jdbc:mysql://db/shop?sslMode=PREFERRED", f"{MY}db:3306/shop", {}),
    (
        "jdbc:mysql://db/shop?sslMode=VERIFY_CA&ssl_ca=/ca.pem",
        f"{MY}db:3306/shop",
        {"ssl": {"ca": "/ca.pem", "verify_mode": True, "check_hostname": False}},
    ),
    (
        "jdbc:mysql://db/shop?sslMode=VERIFY_IDENTITY&ssl_ca=/ca.pem&ssl_cert=/c.pem&ssl_key=/k.pem&ssl_key_password=x",
        f"{MY}db:3306/shop",
        {
            "ssl": {
                "ca": "/ca.pem",
                "cert": "/c.pem",
                "key": "/k.pem",
                "password": "x",
                "verify_mode": True,
                "check_hostname": True,
            }
        },
    ),
    ("jdbc:mysql://db/shop?allowLoadLocalInfile=true", f"{MY}db:3306/shop", {"local_infile": True}),
    (
        "jdbc:mysql://db/shop?sessionVariables=sql_mode='ANSI,TRADITIONAL',@a=1;b=2",
        f"{MY}db:3306/shop",
        {"init_command": "SET SESSION sql_mode='ANSI,TRADITIONAL', @a=1, SESSION b=2"},
    ),
    (
        "jdbc:mysql://db/shop?connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true",
        f"{MY}db:3306/shop",
        {"init_command": "SET SESSION time_zone = '+00:00'"},
    ),
    (
        "jdbc:mysql://db/shop?connectionCollation=utf8mb4_bin&characterEncoding=UTF-8",
        f"{MY}db:3306/shop",
        {"collation": "utf8mb4_bin"},
    ),
    ("jdbc:mariadb://db/shop?user=me&password=a%20b+c%", f"{MY}me:a%2520b%2Bc%25@db:3306/shop", {}),  # knows no escapes
    ("jdbc:mariadb:sequential://h1,h2/shop", f"{MY}h1:3306/shop", {}),
    ("jdbc:mariadb://db/shop?localSocket=/run/mysqld.sock", f"{MY}/shop", {"unix_socket": "/run/mysqld.sock"}),
    ("jdbc:mariadb://db/shop?sslMode=trust", f"{MY}db:3306/shop", {"ssl": {"verify_mode": False, "check_hostname": False}}),
    (
        "jdbc:mariadb://db/shop?useSsl=true&serverSslCert=/ca.pem",
        f"{MY}db:3306/shop",
        {"ssl": {"ca": "/ca.pem", "verify_mode": True, "check_hostname": True}},
    ),
    (
        "jdbc:mariadb://db/shop?useSsl=true&serverSslCert=/ca.pem&disableSslHostnameVerification=true",
        f"{MY}db:3306/shop",
        {"ssl": {"ca": "/ca.pem", "verify_mode": True, "check_hostname": False}},
    ),
]

FILES: list[tuple[str, str, dict[str, Any]]] = [
    ("jdbc:sqlite:/data/shop.db", "sqlite+pysqlite:////data/shop.db", {}),
    ("jdbc:sqlite:///data/shop.db", "sqlite+pysqlite:////data/shop.db", {}),
    ("jdbc:sqlite:data/my@shop.db", "sqlite+pysqlite:///data/my%40shop.db", {}),
    ("jdbc:sqlite::memory:", "sqlite+pysqlite:///:memory:", {}),
    ("jdbc:sqlite:", "sqlite+pysqlite:///:memory:", {}),
    ("jdbc:sqlite:shop.db?busy_timeout=2500", "sqlite+pysqlite:///shop.db", {"timeout": 2.5}),
    ("jdbc:sqlite:shop.db?transaction_mode=IMMEDIATE", "sqlite+pysqlite:///shop.db", {"isolation_level": "IMMEDIATE"}),
    ("jdbc:sqlite:file:shop.db?mode=ro&cache=shared", "sqlite+pysqlite:///file:shop.db?mode=ro&cache=shared&uri=true", {}),
    ("jdbc:sqlite:/a b/shop.db?open_mode=1", "sqlite+pysqlite:///file:/a%2520b/shop.db?mode=ro&uri=true", {}),
    ("jdbc:duckdb:", "duckdb:///:memory:", {}),
    ("jdbc:duckdb:shop.duckdb", "duckdb:///shop.duckdb", {}),
    (
        "jdbc:duckdb:/data/s.duckdb;threads=4;duckdb.read_only=true",
        "duckdb:////data/s.duckdb",
        {"config": {"threads": "4"}, "read_only": True},
    ),
    ("jdbc:duckdb:/data/s.duckdb?access_mode=READ_ONLY", "duckdb:////data/s.duckdb", {"read_only": True}),
    ("jdbc:duckdb:md:shop?motherduck_token=t", "duckdb:///md:shop", {"config": {"motherduck_token": "t"}}),
]

OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "jdbc:sqlserver://db:1434;databaseName=shop;user=sa;password={a;b}}c};encrypt=true;trustServerCertificate=true;loginTimeout=30",
        f"mssql+pyodbc://sa:a;b}}c@db:1434/shop?{ODBC}&Encrypt=yes&TrustServerCertificate=yes",
        {"timeout": 30},
    ),
    ("jdbc:sqlserver://db\\inst;database=shop;userName=sa", f"mssql+pyodbc://sa@db\\inst/shop?{ODBC}", {}),
    ("jdbc:sqlserver://db\\inst:1433;database=shop", f"mssql+pyodbc://db:1433/shop?{ODBC}", {}),
    ("jdbc:sqlserver://;serverName=db;portNumber=1;databaseName=shop", f"mssql+pyodbc://db:1/shop?{ODBC}", {}),
    ("jdbc:sqlserver://[::1];databaseName=shop", f"mssql+pyodbc://[::1]:1433/shop?{ODBC}", {}),
    (
        "jdbc:sqlserver://db;databaseName=shop;authentication=ActiveDirectoryManagedIdentity;applicationName=x;multiSubnetFailover=true",
        f"mssql+pyodbc://db:1433/shop?{ODBC}&authentication=ActiveDirectoryMsi&APP=x&MultiSubnetFailover=yes",
        {},
    ),
    (
        "jdbc:jtds:sqlserver://db:1433/shop;instance=i;ssl=require;user=u;password=p",
        f"mssql+pyodbc://u:p@db:1433/shop?{ODBC}&Encrypt=yes&TrustServerCertificate=yes",
        {},
    ),
    ("jdbc:oracle:thin:@db:1522:ORCL", "oracle+oracledb://db:1522/ORCL", {}),
    ("jdbc:oracle:thin:@//db/shop.example", "oracle+oracledb://db:1521?service_name=shop.example", {}),
    ("jdbc:oracle:thin:@db:1522/shop", "oracle+oracledb://db:1522?service_name=shop", {}),
    ("jdbc:oracle:thin:scott/ti@g/er@db/shop", "oracle+oracledb://scott:ti%40g%2Fer@db:1521?service_name=shop", {}),
    ('jdbc:oracle:thin:"Sc/ott"/"t@ger"@db/shop', "oracle+oracledb://Sc%2Fott:t%40ger@db:1521?service_name=shop", {}),
    (
        "jdbc:oracle:thin:@tcps://db:2484/shop?wallet_location=/w",
        "oracle+oracledb://",
        {"dsn": "tcps://db:2484/shop?wallet_location=/w"},
    ),
    ("jdbc:oracle:thin:@shop_high?TNS_ADMIN=/wallet", "oracle+oracledb://", {"dsn": "shop_high", "config_dir": "/wallet"}),
    (
        "jdbc:oracle:thin:me/pw@(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1522))(CONNECT_DATA=(SERVICE_NAME=shop)))",
        "oracle+oracledb://me:pw@",
        {"dsn": "(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST=db)(PORT=1522))(CONNECT_DATA=(SERVICE_NAME=shop)))"},
    ),
    (
        "jdbc:db2://db:50001/SHOP:user=u;password=p;currentSchema=S;sslConnection=true;",
        "db2+ibm_db://u:p@db:50001/SHOP?CurrentSchema=S&Security=SSL",
        {},
    ),
    ("jdbc:db2://db/SHOP:user=u;password=a%3B;", "db2+ibm_db://u:a%253B@db:50000/SHOP", {}),  # knows no escapes
    (
        "jdbc:sap://db:30015/?databaseName=HDB&user=u&password=p&encrypt=true&validateCertificate=false",
        "hana+hdbcli://u:p@db:30015/HDB",
        {"encrypt": "true", "sslValidateCertificate": "false"},
    ),
    (
        "jdbc:snowflake://acme-x1.eu.snowflakecomputing.com/?db=D&schema=S&warehouse=W&role=R&user=u&password=p&loginTimeout=9",
        "snowflake://u:p@acme-x1.eu/D/S",
        {"warehouse": "W", "role": "R", "login_timeout": 9},
    ),
    ("jdbc:clickhouse://db/shop", "clickhousedb+connect://db:8123/shop", {}),
    (
        "jdbc:ch:https://u:p@db/shop?socket_timeout=3000",
        "clickhousedb+connect://u:p@db:8443/shop",
        {"secure": True, "send_receive_timeout": 3},
    ),
    (
        "jdbc:vertica://db/shop?user=u&password=p&LoginTimeout=5",
        "vertica+vertica_python://u:p@db:5433/shop",
        {"connection_timeout": 5},
    ),
    ("jdbc:sybase:Tds:db:5001/shop?user=u", "sybase+pyodbc://u@db/shop?driver=FreeTDS&port=5001&TDS_Version=5.0", {}),
    ("jdbc:jtds:sybase://db/shop;user=u", "sybase+pyodbc://u@db/shop?driver=FreeTDS&port=5000&TDS_Version=5.0", {}),
]

SQLALCHEMY: list[tuple[str, str, dict[str, Any]]] = [
    ("postgresql://u:p%40w@db:1/shop?sslmode=require", f"{PG}u:p%40w@db:1/shop?sslmode=require", {}),
    ("postgres://db/shop", f"{PG}db/shop", {}),
    ("postgres+psycopg2://db/shop", "postgresql+psycopg2://db/shop", {}),
    ("postgresql+psycopg2://db/shop", "postgresql+psycopg2://db/shop", {}),
    ("postgresql+psycopg:///shop?host=h1:1&host=h2:2", f"{PG}/shop?host=h1:1&host=h2:2", {}),
    ("postgresql://me@tenant:pw@db/shop", f"{PG}me%40tenant:pw@db/shop", {}),
    ("mysql://u:p@db/shop", f"{MY}u:p@db/shop", UTF8),
    ("mariadb://u:p@db/shop", "mariadb+pymysql://u:p@db/shop", UTF8),
    ("mysql+pymysql://u@db/shop?charset=utf8&ssl_ca=/ca.pem", f"{MY}u@db/shop?charset=utf8&ssl_ca=/ca.pem", {}),
    ("sqlite:///a@b.db", "sqlite:///a@b.db", {}),
    ("sqlite://", "sqlite://", {}),
    ("duckdb:///s.duckdb", "duckdb:///s.duckdb", {}),
    ("mssql+pymssql://u:p@db/shop", "mssql+pymssql://u:p@db/shop", {}),
    ("oracle+oracledb://u:p@db/?service_name=s", "oracle+oracledb://u:p@db/?service_name=s", {}),
    ("trino://u@db:8080/c/s", "trino://u@db:8080/c/s", {}),
    ("unheardof://u@db:8080/c", "unheardof://u@db:8080/c", {}),
]


WITH_UTF8 = [(url, expected, {**UTF8, **arguments}) for url, expected, arguments in MYSQL]


@pytest.mark.parametrize(("url", "expected", "arguments"), POSTGRESQL + WITH_UTF8 + FILES + OTHERS + SQLALCHEMY)
def test_a_url_is_parsed_into_sqlalchemys_with_driver_arguments(url: str, expected: str, arguments: dict[str, Any]) -> None:
    target = read(url)
    assert target.url == make_url(expected)
    assert dict(target.connect_args) == arguments


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("jdbc:postgresql://me:pw@h1:1,h2/shop?user=me&password=pw&sslpassword=x", "postgresql://h1:1,h2/shop"),
        ("jdbc:postgresql:shop", "postgresql://localhost:5432/shop"),
        ("jdbc:postgresql://[::1]:1/shop", "postgresql://[::1]:1/shop"),
        ("jdbc:mysql://me:pw@db/shop", "mysql://db:3306/shop"),
        ("jdbc:sqlite:data/shop.db?journal_mode=WAL", "sqlite:///data/shop.db"),
        ("jdbc:duckdb:md:shop?motherduck_token=t", "duckdb:///md:shop"),
        ("jdbc:sqlserver://db\\inst;databaseName=shop;password={p}", "mssql://db\\inst/shop"),
        ("jdbc:oracle:thin:me/pw@(DESCRIPTION=(ADDRESS=(HOST=db)(PORT=1))(CONNECT_DATA=(SID=S))(X=pw))", "oracle://db:1/S"),
        ("jdbc:oracle:thin:me/pw@alias?TNS_ADMIN=/x", "oracle://alias/"),
        ("postgresql://me:pw@db/shop?sslpassword=x", "postgresql://db/shop"),
        ("mssql+pyodbc:///?odbc_connect=PWD%3Dx", "mssql:///"),
        ("ibm_db_sa://me:pw@db/shop;PWD=x", "ibm_db_sa://db/shop"),
    ],
)
def test_a_label_shows_only_the_location(url: str, label: str) -> None:
    target = read(url)
    assert target.label == label
    assert "pw" not in repr(target)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", ["it is empty", "jdbc:postgresql://host", "postgresql://user:password@host"]),
        ("shop", ["it has no dialect"]),
        ('"jdbc:postgresql://db/s"', ["quotation mark"]),
        ("jdbc:postgres://db/s", ["did you mean jdbc:postgresql:?"]),
        ("jdbc:msql://db/s", ["did you mean jdbc:mysql:?"]),
        ("jdbc:qqqq://db/s", ["not supported", "supported are postgresql"]),
        ("jdbc:", ["not supported"]),
        ("jdbc:postgresql", ["expected a colon"]),
        ("jdbc:derby://h/s", ["Apache Derby has no Python driver"]),
        ("jdbc:h2:mem:s", ["H2 has no Python driver"]),
        ("jdbc:trino://h:8080/c", ["SQLAlchemy URL", "trino://user:password@host:8080/catalog"]),
        ("jdbc:mysql+srv://h/s", ["DNS"]),
        ("jdbc:mysql:shop", ["jdbc:mysql://host:port/database"]),
        ("jdbc:mysql:magic://h/s", ["loadbalance"]),
        ("jdbc:mysql://u1:p1@h1,u2:p2@h2/s", ["different users", "%2C"]),
        ("jdbc:mysql://h/s?socketFactory=com.google.cloud.sql.mysql.SocketFactory", ["socketFactory", "Java class"]),
        ("jdbc:postgresql://h/s?socketFactory=com.google.cloud.sql.postgres.SocketFactory", ["socketFactory", "Java class"]),
        ("jdbc:postgresql://h:54x2/s", ["port is not a number"]),
        ("jdbc:postgresql://h:70000/s", ["port is not a number"]),
        ("jdbc:postgresql://::1:5432/s", ["brackets"]),
        ("jdbc:postgresql://h/s?password=50%", ["%25"]),
        ("jdbc:postgresql://h/s?password=%ff", ["UTF-8"]),
        ("jdbc:postgresql://h/s?connectTimeout=soon", ["connectTimeout is not a number"]),
        ("jdbc:postgresql://h/s?targetServerType=best", ["targetServerType is none of any, primary"]),
        ("jdbc:mysql://h/s?useSSL=maybe", ["useSSL is neither true nor false"]),
        ("jdbc:mysql://h/s?sessionVariables=a=1&initSql=SET%20b=2", ["sessionVariables"]),
        ("jdbc:sqlite::resource:s.db", ["Java archive"]),
        ("jdbc:sqlite:s.db?journal_mode=WAL;DROP", ["journal_mode"]),
        ("jdbc:sqlserver://h;password={open", ["}}"]),
        ("jdbc:sqlserver://h;databaseName=s;domain=D", ["NTLM"]),
        ("jdbc:oracle:thin:h:1521:S", ["no @", "@//host:1521/service"]),
        ("jdbc:oracle:@h", ["thin:"]),
        ("jdbc:oracle:thin:@ldap://h/x", ["ldap"]),
        ("jdbc:redshift:iam://c/dev", ["IAM"]),
        ("postgresql+asyncpg://h/s", ["asynchronous", "postgresql+psycopg"]),
        ("postgresql+psycop://h/s", ["did you mean postgresql+psycopg?"]),
        ("postgress://h/s", ["did you mean postgresql://?"]),
        ("postgresql://h:port/s", ["dialect+driver://"]),
    ],
)
def test_an_invalid_url_is_rejected_with_the_valid_form(url: str, words: list[str]) -> None:
    error = refused(url)
    assert error.startswith("Invalid value ")
    assert " for configuration connection.url: " in error
    assert all(word in error for word in words), error


def test_a_semicolon_is_rejected_for_db2() -> None:
    assert "semicolon" in refused("jdbc:db2://db/shop", password="a;b")


def test_an_error_names_its_key() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_connection_url("jdbc:foo:x", None, None, {}, key="hibernate.connection.url")
    assert raised.value.key == "hibernate.connection.url"
    with pytest.raises(ConfigError) as raised:
        parse_connection_url("jdbc:postgresql:s", None, None, {"connectTimeout": "soon"})
    assert raised.value.key == "connection.connectTimeout"
    assert "soon" not in str(raised.value)


def test_a_missing_driver_is_reported_with_its_package_only_when_needed() -> None:
    require_driver(read("jdbc:postgresql://db/s"))
    require_driver(read("jdbc:sqlite:s.db"))
    for url, package in (("jdbc:oracle:thin:@db/s", "pip install oracledb"), ("unheardof://db/s", "no dialect unheardof")):
        with pytest.raises(ConfigError, match=package) as raised:
            require_driver(read(url), key="connection.url")
        assert raised.value.key == "connection.url"


ODD = st.text(st.sampled_from("@:/%?#&=+;{}[]()'\"\\, aZ09-_.$äß€😀"), min_size=1, max_size=12)
WORDS = st.text(st.sampled_from(string.ascii_letters + "@:/%?# äß€😀&=+;"), min_size=1, max_size=12).map(
    lambda text: text.strip() or "x"
)


@settings(max_examples=40, deadline=None)
@given(user=ODD, password=ODD, database=WORDS)
def test_escaped_parts_are_preserved_in_every_form(user: str, password: str, database: str) -> None:
    def escaped(text: str) -> str:
        return quote(text, safe="")

    u, p, d = escaped(user), escaped(password), escaped(database)
    forms = [
        f"jdbc:postgresql://db/{d}?user={u}&password={p}",
        f"jdbc:postgresql://{u}:{p}@db/{d}",
        f"jdbc:mysql://{u}:{p}@db:3306/{d}",
        f"jdbc:mysql://db/{d}?password={p}&user={u}",
        f"postgresql://{u}:{p}@db/{d}",
        f"jdbc:clickhouse://{u}:{p}@db/{d}",
    ]
    for form in forms:
        target = read(form)
        assert (target.url.username, target.url.password, target.url.database) == (user, password, database), form
    target = read(f"jdbc:sqlserver://db;databaseName=s;password={{{password.replace('}', '}}')}}}")
    assert target.url.password == password
    assert parse_connection_url("jdbc:mariadb://db/s", user, password, {}).url.password == password
    rendered = URL.create("postgresql", user, password, "db", None, database).render_as_string(hide_password=False)
    assert read(rendered).url.password == password
