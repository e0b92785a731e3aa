"""What ``connection.url`` becomes lets real servers and files in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import psycopg
import pytest
import sqlalchemy
from psycopg import sql

from connectors.jdbc.urls.connection_url import ConnectionTarget, parse_connection_url, require_driver
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.ports import free_ports
from sluice.embedded.postgres import EmbeddedPostgres

PASSWORD = "p@ss:w/o%20rd?#&=+; '\"\\{}[]ä€"
NAME = "shop @1/2%?#&=+ ä"


def answer(target: ConnectionTarget, query: str) -> Any:
    """One row, or its only value, asked for over a connection of its own."""
    require_driver(target)
    engine = sqlalchemy.create_engine(target.url, connect_args=dict(target.connect_args), poolclass=sqlalchemy.NullPool)
    try:
        with engine.connect() as connection:
            for statement in target.on_connect:
                connection.exec_driver_sql(statement)
            row = tuple(connection.exec_driver_sql(query).one())
            return row[0] if len(row) == 1 else row
    finally:
        engine.dispose()


@pytest.fixture
def login(postgres: EmbeddedPostgres, unique_name: Callable[[str], str]) -> Iterator[str]:
    """The name of a user in PostgreSQL whose password and database are full of what URLs are made of."""
    user = unique_name("u@:/%")
    with postgres.connect() as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(user), sql.Literal(PASSWORD)))
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(NAME), sql.Identifier(user)))
    yield user
    postgres.drop_database(NAME)
    with postgres.connect() as connection:
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(user)))


def test_postgresql_accepts_every_form_of_user_password_and_database(postgres: EmbeddedPostgres, login: str) -> None:
    at, name = f"{postgres.host}:{postgres.port}", quote(NAME, safe="")
    user, password = quote(login, safe=""), quote(PASSWORD, safe="")
    targets = [
        parse_connection_url(f"jdbc:postgresql://{at}/{name}?user={user}&password={password}", None, None, {}),
        parse_connection_url(
            f"jdbc:postgresql://{at}/{quote_plus(NAME)}?user={user}&password={quote_plus(PASSWORD)}", None, None, {}
        ),
        parse_connection_url(f"jdbc:postgresql://{user}:{password}@{at}/{name}", None, None, {}),
        parse_connection_url(f"jdbc:postgresql://{at}/{name}?user=x&password=y", login, PASSWORD, {}),
        parse_connection_url(
            f"jdbc:postgresql://{at}/{name}?user=x&password=y", None, None, {"user": login, "password": PASSWORD}
        ),
        parse_connection_url(f"postgresql://{user}:{password}@{at}/{name}", None, None, {}),
    ]
    for target in targets:
        assert answer(target, "SELECT current_user, current_database()") == (login, NAME)


def test_postgresql_accepts_mapped_pgjdbc_properties(postgres: EmbeddedPostgres, database: str) -> None:
    (closed,) = free_ports(1)
    url = (
        f"jdbc:postgresql://{postgres.host}:{closed},{postgres.host}:{postgres.port}/{database}?targetServerType=primary"
        "&currentSchema=%22My%20Schema%22,public&ApplicationName=it's%20me&connectTimeout=5&tcpKeepAlive=true&prepareThreshold=0"
        "&sslmode=prefer&gssEncMode=allow&readOnly=true&options=-c%20statement_timeout=4321&loginTimeout=30&channelBinding=prefer"
    )
    target = parse_connection_url(url, postgres.user, postgres.password, {})
    assert target.notices == ()
    settings = "search_path", "application_name", "statement_timeout", "transaction_read_only"
    shown = " || '|' || ".join(f"current_setting('{name}')" for name in settings)
    assert answer(target, f"SELECT {shown}") == '"My Schema",public|it\'s me|4321ms|on'


def test_tls_that_postgresql_does_not_offer_is_an_error(postgres: EmbeddedPostgres) -> None:
    target = parse_connection_url(
        f"jdbc:postgresql://{postgres.host}:{postgres.port}/postgres?ssl=true", postgres.user, postgres.password, {}
    )
    with pytest.raises(sqlalchemy.exc.OperationalError) as raised:
        answer(target, "SELECT 1")
    assert isinstance(raised.value.orig, psycopg.OperationalError)


def test_mariadb_accepts_credentials_and_mapped_properties(mariadb: EmbeddedMariaDB, unique_name: Callable[[str], str]) -> None:
    user, name = unique_name("u"), unique_name("d@/%?")
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE `{name}`")
        cursor.execute(f"CREATE USER '{user}'@'%%' IDENTIFIED BY %s", (PASSWORD,))
        cursor.execute(f"GRANT ALL ON `{name}`.* TO '{user}'@'%'")
    at, password, escaped = f"{mariadb.host}:{mariadb.port}", quote(PASSWORD, safe=""), quote(name, safe="")
    session = "connectTimeout=5000&socketTimeout=60000&characterEncoding=UTF-8&sessionVariables=sql_mode='ANSI_QUOTES',@seven=7"
    targets = [
        parse_connection_url(f"jdbc:mysql://{at}/{escaped}?user={user}&password={password}&{session}", None, None, {}),
        parse_connection_url(f"jdbc:mysql://{user}:{password}@{at},other:1/{escaped}?{session}", None, None, {}),
        parse_connection_url(f"jdbc:mariadb://{at}/mysql?{session}", mariadb.user, mariadb.password, {}),
    ]
    for target, expected in zip(targets, (name, name, "mysql"), strict=True):
        found = answer(target, "SELECT DATABASE(), @@sql_mode, @seven, @@character_set_client, 'ä€😀'")
        assert found == (expected, "ANSI_QUOTES", 7, "utf8mb4", "ä€😀")
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE `{name}`")
        cursor.execute(f"DROP USER '{user}'@'%'")


def test_files_are_opened_with_their_path_and_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = parse_connection_url("jdbc:sqlite:my shop@100%.db?journal_mode=WAL&foreign_keys=on", None, None, {})
    assert answer(made, "PRAGMA foreign_keys") == 1
    assert (tmp_path / "my shop@100%.db").exists()
    assert answer(parse_connection_url(f"jdbc:sqlite:{tmp_path}/my shop@100%.db", None, None, {}), "PRAGMA journal_mode") == "wal"
    read_only = parse_connection_url("jdbc:sqlite:my shop@100%.db?open_mode=1", None, None, {})
    with pytest.raises(sqlalchemy.exc.OperationalError, match="readonly"):
        answer(read_only, "CREATE TABLE t (n int)")
    assert answer(parse_connection_url("jdbc:sqlite:file:x.db?mode=memory", None, None, {}), "SELECT 1") == 1
    assert not (tmp_path / "x.db").exists()
    assert (
        answer(parse_connection_url("jdbc:duckdb:shop.duckdb;threads=2", None, None, {}), "SELECT current_setting('threads')")
        == 2
    )
    assert (tmp_path / "shop.duckdb").exists()
    assert answer(parse_connection_url("jdbc:duckdb:", None, None, {}), "SELECT 7") == 7
