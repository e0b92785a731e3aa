"""What the offline commands import, and what they write on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from tests.support.waiting import WAIT_S

ROOT = Path(__file__).parents[3]
HEAVY = ("confluent_kafka", "fastapi", "uvicorn", "pyspark", "pyarrow", "psycopg", "sqlalchemy", "rich")
FILES = {name: ROOT / "configs" / f"{name}.properties" for name in ("connect-file-source", "spark-sink", "connect-standalone")}


@pytest.mark.parametrize(
    "words",
    [
        ["lint", str(FILES["connect-standalone"]), str(FILES["connect-file-source"]), str(FILES["spark-sink"])],
        ["preview", str(FILES["connect-file-source"]), "--records", "-", "--stages"],
        ["preview", str(FILES["spark-sink"]), "--records", "-", "-o", "json"],
        ["test", str(ROOT / "configs")],
    ],
    ids=lambda words: words[0],
)
def test_nothing_heavy_is_imported(words: list[str]) -> None:
    code = (
        "import sys; from sluice.cli import COMMANDS; from sluice.cli.errors import run; from sluice.cli.app import build;"
        f"code = run(build(COMMANDS), {words!r}); assert code == 0, code;"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], input='{"id": 7}\n', capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr.splitlines()[-1] == "[]"


def _on_a_terminal(words: list[str], columns: int, **environment: str) -> str:
    """What a command writes on a terminal of that width."""
    ours, its = pty.openpty()
    try:
        child = subprocess.Popen(
            [sys.executable, "-c", "from sluice.cli import main; main()", *words],
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment},
            cwd=ROOT,
        )
        os.close(its)
        its = -1
        found = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux says so when the other side is closed
                break
            if not part:
                break
            found += part
        child.wait(WAIT_S)
    finally:
        os.close(ours)
        if its >= 0:
            os.close(its)
    return found.decode().replace("\r\n", "\n")


def test_findings_are_wrapped_and_colored_only_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.properties"
    file.write_text("name=a\nconnector.class=FileStreamSource\ntopic=t\nkey.converter.schemas.enable=false\n")
    shown = _on_a_terminal(["lint", str(file)], 60)
    assert "\x1b[33mwarning\x1b[0m" in shown
    assert max(len(line) for line in shown.splitlines()[1:]) <= 60
    assert "\x1b" not in _on_a_terminal(["lint", str(file)], 60, NO_COLOR="1")
    assert run(build(COMMANDS), ["lint", str(file)]) == 0
    plain = capsys.readouterr().out
    assert "\x1b" not in plain
    assert len(plain.splitlines()) == 2


def test_previews_are_colored_and_truncated_on_a_terminal(tmp_path: Path) -> None:
    connector, records = tmp_path / "a.properties", tmp_path / "r.jsonl"
    connector.write_text(
        "transforms=c\ntransforms.c.type=org.apache.kafka.connect.transforms.Cast$Value\ntransforms.c.spec=id:string\n"
    )
    records.write_text(json.dumps({"id": 7, "long": "x" * 500, "bell": "\x07\u2028"}) + "\n")
    words = ["preview", str(connector), "--records", str(records)]
    shown = _on_a_terminal(words, 80)
    assert '\x1b[33m  ~ value.id  int64 7 -> string "7"\x1b[0m' in shown
    assert max(len(line) for line in shown.splitlines() if "\x1b" not in line) == 80
    assert "\x1b" not in _on_a_terminal(words, 80, NO_COLOR="1")
    assert "\x07" not in shown
    assert "\u2028" not in shown


def test_json_lines_are_ascii(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connector, records = tmp_path / "a.properties", tmp_path / "r.jsonl"
    connector.write_text("topic=t\n")
    records.write_text('{"a": "\u2028grün"}\n"\\ud800"\n', "utf-8")
    assert run(build(COMMANDS), ["preview", str(connector), "--records", str(records), "-o", "json"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    assert [json.loads(line)["record"]["value"]["payload"] for line in out.splitlines()] == [{"a": "\u2028grün"}, "\ud800"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["preview", "a.properties", "--base64"], "need --raw"),
        (["preview", "missing.properties", "--records", "-"], "missing.properties: cannot read the file"),
        (["preview", "a.properties", "--records", "missing.jsonl"], "missing.jsonl: cannot read the file"),
        (["preview", "a.properties", "--raw", "--records", "r.jsonl"], "No key.converter is set"),
        (["preview", "a.properties", "--worker", "missing.properties", "--records", "r.jsonl"], "missing.properties"),
        (["lint"], "Missing argument"),
        (["test", "missing.test.yaml"], "missing.test.yaml: cannot read the file"),
        (["docs", "-o", "json-schema"], "needs a COMPONENT"),
    ],
)
def test_invalid_usage_is_exit_code_2(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.properties").write_text("topic=t\n")
    (tmp_path / "r.jsonl").write_text("1\n")
    assert run(build(COMMANDS), words) == 2
    assert message in capsys.readouterr().err
