"""``sluice doctor FILE`` and ``sluice tables FILE``: connections of connector files."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from connect.addresses import AddressRules
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import BAD_USAGE, FAILED, OK, run


def sluice(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(build(COMMANDS), arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def connector(tmp_path: Path) -> Path:
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table orders (id integer primary key)")
        connection.execute('create table "a(b)" (id integer)')
    path = tmp_path / "shop.properties"
    path.write_text(
        f"name=shop\nconnector.class=JdbcSource\nconnection.url=jdbc:sqlite:{database}\n"
        "connection.password=tricycle-77\nmode=bulk\ntopic.prefix=shop-\n"
    )
    return path


def test_doctor_tests_the_connection_of_a_file(connector: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = sluice(capsys, "doctor", str(connector))
    assert code == OK
    assert "shop: Connection" in out
    assert "2 selected: a(b), orders" in out
    connector.write_text(connector.read_text().replace("shop.db", "absent.db"))
    code, out, _ = sluice(capsys, "doctor", str(connector), "-o", "json")
    assert code == FAILED
    (answer,) = json.loads(out)
    (step,) = answer["steps"]
    (finding,) = step["findings"]
    assert (answer["connector"], answer["state"], finding["code"]) == ("shop", "failed", "no-file")
    assert (finding["path"], finding["file"], finding["line"]) == ("connection.url", str(connector), 3)
    code, out, _ = sluice(capsys, "doctor", str(connector), "-o", "name")
    assert (code, out) == (FAILED, "shop: File\n")


def test_doctor_shows_the_results_of_other_files_when_one_fails(connector: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, absent = connector.with_name("wrong.properties"), connector.with_name("absent.properties")
    wrong.write_text("name=wrong\ntopic=x\n")
    code, out, err = sluice(capsys, "doctor", str(wrong), str(connector), str(absent), "-o", "json")
    assert code == BAD_USAGE
    assert [(one["connector"], one["state"]) for one in json.loads(out)] == [("shop", "passed")]
    assert "absent.properties" in err
    assert f"{wrong} has no connector.class" in json.loads(err.splitlines()[-1])["error"]["message"]


def test_tables_are_listed_as_entries_of_the_include_list(connector: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sluice(capsys, "tables", str(connector), "-o", "name")[:2] == (OK, "a\\(b\\)\norders\n")
    code, out, _ = sluice(capsys, "tables", str(connector), "--search", "ORD", "-o", "json")
    assert [one["name"] for one in json.loads(out)] == ["orders"]
    code, out, _ = sluice(capsys, "tables", str(connector))
    assert code == OK
    assert "no-primary-key" in out


def test_references_need_the_file_of_the_worker_and_stay_secret(
    connector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secrets.properties").write_text(f"url=jdbc:sqlite:{tmp_path}/hidden-place.db\n")
    worker = tmp_path / "worker.properties"
    worker.write_text(
        "config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    text = connector.read_text().replace(f"jdbc:sqlite:{tmp_path}/shop.db", f"${{file:{tmp_path}/secrets.properties:url}}")
    connector.write_text(text)
    code, _, err = sluice(capsys, "doctor", str(connector))
    assert code == BAD_USAGE
    assert f"{connector}:3: connection.url refers to a config provider" in err
    code, out, _ = sluice(capsys, "doctor", str(connector), "--worker", str(worker), "-o", "json")
    (answer,) = json.loads(out)
    assert (code, answer["state"], answer["steps"][0]["findings"][0]["code"]) == (FAILED, "failed", "no-file")
    assert "[hidden]" in out
    assert "hidden-place" not in out


def test_plugins_and_address_rules_come_from_the_file_of_the_worker(
    connector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "shop_of_a_plugin_path.py").write_text("from connectors.jdbc.source.connector import JdbcSource as Shop\n")
    installed: list[AddressRules] = []
    monkeypatch.setattr("connect.addresses.install_address_rules", installed.append)
    monkeypatch.setattr("sys.path", [*sys.path])
    worker = tmp_path / "worker.properties"
    worker.write_text(f"plugin.path={plugins}\nconnection.allow.addresses=10.0.0.7 , *.example.com\nconnection.deny.addresses=\n")
    connector.write_text(connector.read_text().replace("=JdbcSource", "=shop_of_a_plugin_path:Shop"))
    assert sluice(capsys, "tables", str(connector), "-o", "name", "--worker", str(worker))[:2] == (OK, "a\\(b\\)\norders\n")
    assert installed == [AddressRules.of(["10.0.0.7", "*.example.com"], [])]


def test_table_with_the_value_of_a_reference_is_left_out(
    connector: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secrets.properties").write_text("prefix=orders\n")
    worker = tmp_path / "worker.properties"
    worker.write_text(
        "config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    connector.write_text(connector.read_text().replace("prefix=shop-", f"prefix=${{file:{tmp_path}/secrets.properties:prefix}}"))
    code, out, err = sluice(capsys, "tables", str(connector), "-o", "name", "--worker", str(worker))
    assert (code, out) == (OK, "a\\(b\\)\n")
    assert "1 tables are not shown" in err


def test_connector_without_connection_tests_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lines.properties"
    path.write_text("name=lines\nconnector.class=FileStreamSource\ntopic=lines\nfile=x\n")
    code, _, err = sluice(capsys, "tables", str(path))
    assert code == FAILED
    assert "FileStreamSource has no connection test" in err
