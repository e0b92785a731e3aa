"""The audit log: who changed what, and who was refused; never a secret."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError
from rest.security.audit import AuditEntry, AuditLog
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.security.conftest import Caller, Serve, write_tokens


def entries(caller: Caller) -> list[dict[str, Any]]:
    assert caller.folder is not None
    return [json.loads(line) for line in (caller.folder / "audit.jsonl").read_text().splitlines()]


def test_changes_and_refusals_are_recorded_and_reads_are_not(secured: Caller, fake: FakeHerder) -> None:
    before = len(entries(secured))
    body = {"name": "shop-a", "config": {"connector.class": "x", "db.password": "pl4nted-secret"}}
    created = secured("POST", "/connectors", body, token="shop-admin", headers={"X-Request-ID": "abc-1"})
    assert created.headers["X-Request-ID"] == "abc-1"
    secured("GET", "/connectors", token="viewer")
    secured("DELETE", "/connectors/billing", token="shop-admin")
    wrong = secured("DELETE", "/connectors/billing", token="pl4nted-secret", headers={"X-Request-ID": "bad id\t!"})
    secured("PUT", "/connectors/unknown/pause", token="root")
    found = entries(secured)[before:]
    assert [(one["subject"], one["method"], one["path"], one["connector"], one["status"], one["result"]) for one in found] == [
        ("shop-admin", "POST", "/connectors", "shop-a", 201, "done"),
        ("shop-admin", "DELETE", "/connectors/billing", "billing", 403, "refused"),
        ("anonymous", "DELETE", "/connectors/billing", "billing", 401, "refused"),
        ("root", "PUT", "/connectors/unknown/pause", "unknown", 404, "failed"),
    ]
    assert {(one["client"], one["via"]) for one in found} == {("127.0.0.1", None)}
    assert found[0]["request_id"] == "abc-1"
    assert found[2]["request_id"] == wrong.headers["X-Request-ID"] != "bad id\t!"
    assert found[0]["authentication"] == "bearer"
    assert "pl4nted-secret" not in json.dumps(found)


def test_entries_are_in_the_workers_log_without_a_file(serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "sluice.audit")
    call = serve({"rest.authentication": "bearer", "rest.authentication.tokens.file": write_tokens(tmp_path / "tokens")})
    call("DELETE", "/connectors/x", token="root")
    [record] = [record for record in caplog.records if record.name == "sluice.audit"]
    assert json.loads(record.getMessage())["subject"] == "root"


def test_audit_works_without_authentication(serve: Serve, tmp_path: Path) -> None:
    call = serve({"rest.audit.log.file": str(tmp_path / "audit")})
    call("DELETE", "/connectors/x")
    [line] = (tmp_path / "audit").read_text().splitlines()
    assert (json.loads(line)["subject"], json.loads(line)["status"]) == ("anonymous", 404)


def _entry(path: str) -> AuditEntry:
    return AuditEntry("1", "a\nb", "basic", None, None, "PUT", path, None, 200)


def test_file_is_private_and_opened_again_after_a_rotation(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    audit = AuditLog(str(file), lambda text: text.replace("s3cret", "[hidden]"))
    audit.write(_entry("/s3cret"))
    file.rename(tmp_path / "audit.1")
    audit.write(_entry("/" + "x" * 1000))
    audit.close()
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "audit.1").read_text())["path"] == "/[hidden]"
    [line] = file.read_text().splitlines()
    assert len(json.loads(line)["path"]) < 400, "one line, whatever a request contains"


def test_file_that_can_no_longer_be_written_does_not_fail_a_change(
    serve: Serve, fake: FakeHerder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    call = serve({"rest.audit.log.file": str(folder / "audit")})
    shutil.rmtree(folder)
    assert call("PUT", "/connectors/a/config", {"connector.class": "x"}).status == 201
    assert f"Cannot write to the audit log {folder / 'audit'}: No such file or directory" in caplog.text
    assert '"path": "/connectors/a/config"' in caplog.text
    folder.mkdir()
    call("DELETE", "/connectors/a")
    assert json.loads((folder / "audit").read_text())["method"] == "DELETE"


def test_full_disk_does_not_fail_a_change(serve: Serve, fake: FakeHerder, caplog: pytest.LogCaptureFixture) -> None:
    call = serve({"rest.audit.log.file": "/dev/full"})
    assert call("PUT", "/connectors/a/config", {"connector.class": "x"}).status == 201
    assert "Cannot write to the audit log /dev/full: No space left on device. The entry is {" in caplog.text
    assert '"path": "/connectors/a/config"' in caplog.text


def test_file_that_cannot_be_opened_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rest\.audit\.log\.file: the file cannot be opened"):
        AuditLog(str(tmp_path / "no" / "audit"), str)
