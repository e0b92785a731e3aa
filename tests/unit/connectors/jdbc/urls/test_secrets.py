"""No secret in a URL is shown, however the URL is written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.config.url_secrets import find_secrets
from connect.errors import ConfigError
from connectors.jdbc.urls.connection_url import parse_connection_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://db/s?user=u&password=a%40b&sslpassword=c&ssl=true", ["a%40b", "a@b", "c"]),
        ("jdbc:mysql://u:p1%21@h1,u:p2@h2/s", ["p1%21", "p1!", "p2"]),
        ("jdbc:sqlserver://db;password={a;b}}c};trustStorePassword=xyz", ["{a;b}}c}", "a;b}c", "xyz"]),
        ("jdbc:oracle:thin:u/ti@ger@db/s", ["ti@ger"]),
        ("jdbc:duckdb:md:s?motherduck_token=tok", ["tok"]),
        ("jdbc:mysql://address=(host=h)(password=pw)/s", ["pw"]),
        ("postgresql://u:p%2Fw@db/s?sslpassword=x", ["p%2Fw", "p/w", "x"]),
        ("postgresql://u:p@ss@db/s", ["p@ss"]),
        ("mssql+pyodbc:///?odbc_connect=UID%3Du%3BPWD%3D%7Bp%3Bw%7D", ["{p;w}", "p;w"]),
        ("databricks://token:dapi123@db", ["dapi123"]),
        ("jdbc:postgresql://db:5432/s?user=u&passwordCharacterEncoding=UTF-8&passfile=/x", []),
        ("postgresql://db:5432/s?mail=a%40b", []),
        ("no url at all", []),
    ],
)
def test_secrets_are_detected_escaped_and_unescaped(url: str, expected: list[str]) -> None:
    assert find_secrets(url) == sorted(expected, key=lambda secret: (-len(secret), secret))


SECRET = "S3cr3t"
PIECES = st.text(st.sampled_from("@:/%?#&=+;{}[]()'\"\\, ä"), max_size=3)


@st.composite
def broken_urls(draw: st.DrawFn) -> tuple[str, Mapping[str, str]]:
    """URLs with a password that nobody escaped; every part of it holds a marker."""
    password = SECRET + draw(PIECES) + SECRET + draw(PIECES) + SECRET
    template = draw(
        st.sampled_from(
            [
                "jdbc:postgresql://u:{}@db/s",
                "jdbc:postgresql://db/s?user=u&password={}&ssl=true",
                "jdbc:postgresql://db:5432/s?password={}",
                "jdbc:mysql://u:{}@db:3306/s?useSSL=false",
                "jdbc:mysql://db/s?password={}&connectTimeout=5",
                "jdbc:mariadb://db/s?password={}",
                "jdbc:sqlserver://db;user=sa;password={};encrypt=true",
                "jdbc:sqlserver://db;password={{{}}}",
                "jdbc:oracle:thin:u/{}@db:1521/s",
                "jdbc:redshift://db/s;UID=u;PWD={}",
                "jdbc:duckdb:md:s?motherduck_token={}",
                "jdbc:snowflake://a.snowflakecomputing.com/?user=u&password={}",
                "postgresql://u:{}@db/s?sslmode=require",
                "mysql://u:{}@db/s",
                "jdbc:postgres://u:{}@db/s",
                "jdbc:h2:mem:s;password={}",
            ]
        )
    )
    return template.format(password), {"password": SECRET} if draw(st.booleans()) else {}


@settings(max_examples=150, deadline=None)
@given(broken_urls())
def test_no_part_of_a_password_is_shown_however_it_is_written(case: tuple[str, Mapping[str, str]]) -> None:
    url, properties = case
    assert not [text for text in everything_shown(url, properties) if SECRET in text]
    find_secrets(url)


def everything_shown(url: str, properties: Mapping[str, str]) -> list[str]:
    try:
        target = parse_connection_url(url, None, None, properties)
    except ConfigError as e:
        return [str(e), repr(e), repr(e.__cause__)]
    return [target.label, repr(target), *target.notices]
