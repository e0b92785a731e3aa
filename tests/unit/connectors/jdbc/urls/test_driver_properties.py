"""Driver properties and credentials, inside and outside ``connection.url``: precedence and notices."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url
from tests.unit.connectors.jdbc.urls.test_connection_url import UTF8, read


def notices(url: str, **properties: str) -> list[str]:
    return list(read(url, **properties).notices)


def test_properties_without_equivalent_are_reported() -> None:
    assert notices("jdbc:postgresql://db/s?reWriteBatchedInserts=true&stringtype=unspecified&socketTimeout=3") == [
        "socketTimeout is ignored: libpq has no such limit (statement.timeout.ms cancels a long statement)",
        "reWriteBatchedInserts has no effect with psycopg and is ignored",
    ]
    assert notices("jdbc:mysql://db/s?useUnicode=true&zeroDateTimeBehavior=CONVERT_TO_NULL&tinyInt1isBit=false") == [
        "useUnicode has no effect with PyMySQL and is ignored",
        "tinyInt1isBit has no effect with PyMySQL and is ignored",
    ]
    with pytest.raises(ConfigError, match="none of EXCEPTION, CONVERT_TO_NULL and ROUND"):
        read("jdbc:mysql://db/s?zeroDateTimeBehavior=null")
    assert notices("jdbc:mysql://db/s?characterEncoding=UTF-8&serverTimezone=UTC&connectionTimeZone=SERVER") == []
    assert "utf8mb4" in notices("jdbc:mysql://db/s?characterEncoding=latin1")[0]
    assert "db.timezone" in notices("jdbc:mysql://db/s?serverTimezone=Europe/Berlin")[0]
    (told,) = notices("jdbc:mysql://db/s?connectionTimeZone=Asia/Tokyo&forceConnectionTimeZoneToSession=true")
    assert "the session is in UTC" in told
    (told,) = notices("jdbc:mysql://db/s?sessionVariables=time_zone='%2B09:00',sql_mode='ANSI'")
    assert "the session is in UTC" in told
    assert "h2:2, h3" in notices("jdbc:mysql://h1,h2:2,h3/s")[0]
    assert "key store" in notices("jdbc:mysql://db/s?trustCertificateKeyStoreUrl=file:x&trustCertificateKeyStorePassword=y")[0]
    assert "sslmode=require" in notices("jdbc:postgresql://db/s?ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory")[0]


def test_a_misspelled_property_is_reported_with_the_nearest_name() -> None:
    assert notices("jdbc:postgresql://db/s?aplicationName=x") == [
        "aplicationName is not known to psycopg and is ignored (did you mean ApplicationName?)"
    ]
    assert notices("jdbc:postgresql://db/s", conectTimeout="3") == [
        "conectTimeout is not known to psycopg and is ignored (did you mean connectTimeout?)"
    ]


def test_properties_from_config_keys_override_the_url() -> None:
    target = read("jdbc:postgresql://db/s?sslmode=disable&ApplicationName=a", applicationname="b", currentSchema="x")
    assert dict(target.connect_args) == {"sslmode": "disable", "application_name": "b", "options": "-csearch_path=x"}
    target = read("jdbc:mysql://db/s?connectTimeout=1000", connectTimeout="2000", allowLocalInfile="true")
    assert dict(target.connect_args) == {**UTF8, "connect_timeout": 2, "local_infile": True}
    target = read("jdbc:sqlserver://db;databaseName=s;encrypt=false", encrypt="strict")
    assert target.url.query["Encrypt"] == "strict"


def test_properties_apply_to_sqlalchemy_urls() -> None:
    assert dict(read("postgresql://db/s?sslmode=disable", sslmode="require", connectTimeout="7").connect_args) == {
        "sslmode": "require",
        "connect_timeout": 7,
    }
    assert dict(read("mysql://db/s", socketTimeout="9000").connect_args) == {**UTF8, "read_timeout": 9}
    assert read("sqlite:///s.db", foreign_keys="on").on_connect == ("PRAGMA foreign_keys = on",)
    assert dict(read("duckdb:///s.db", threads="2").connect_args) == {"config": {"threads": "2"}}
    assert read("mssql+pyodbc://db/s", Encrypt="yes").url.query["Encrypt"] == "yes"
    assert dict(read("trino://db/s", http_scheme="https").connect_args) == {"http_scheme": "https"}


@pytest.mark.parametrize(
    "url", ["jdbc:postgresql://u3:p3@db/s?user=u2&password=p2", "jdbc:mysql://u3:p3@db/s?user=u2&password=p2"]
)
def test_credentials_precede_from_keys_then_properties_then_the_url(url: str) -> None:
    def login(target: ConnectionTarget) -> tuple[Any, Any]:
        return target.url.username, target.url.password

    given = {"user": "u1", "password": "p1"}
    assert login(parse_connection_url(url, "u0", "p0", given)) == ("u0", "p0")
    assert login(parse_connection_url(url, None, None, given)) == ("u1", "p1")
    assert login(parse_connection_url(url, "", "", given)) == ("u1", "p1")
    assert login(read(url)) == ("u2", "p2")
    assert login(read(url.partition("?")[0])) == ("u3", "p3")
    assert login(parse_connection_url("postgresql://u3:p3@db/s", "u0", None, {"username": "u1", "password": "p1"})) == (
        "u0",
        "p1",
    )


def test_file_databases_ignore_users() -> None:
    for url in ("jdbc:sqlite:s.db", "jdbc:duckdb:s.db", "sqlite:///s.db"):
        target = parse_connection_url(url, "me", "pw", {})
        assert target.url.username is None
        assert target.url.password is None
        assert [notice for notice in target.notices if "user and password are ignored" in notice]


def test_pragmas_start_each_connection() -> None:
    target = read("jdbc:sqlite:s.db?journal_mode=WAL&cache_size=-2000", foreign_keys="true")
    assert target.on_connect == ("PRAGMA cache_size = -2000", "PRAGMA foreign_keys = true", "PRAGMA journal_mode = WAL")


def test_a_non_ascii_password_is_sent_to_mysql_as_utf8() -> None:
    assert read("jdbc:mysql://db/s", password="pä€").connect_args["password"] == "pä€".encode()
    assert read("mysql://u:p%C3%A4@db/s").connect_args["password"] == "pä".encode()
    assert "password" not in read("jdbc:mysql://db/s", password="pa").connect_args


def test_identity_is_verified_with_the_systems_authorities_by_default() -> None:
    tls = read("jdbc:mysql://db/s?sslMode=VERIFY_IDENTITY").connect_args["ssl"]
    assert tls["verify_mode"] is True
    assert tls["check_hostname"] is True
    assert "ca" in tls or "capath" in tls
