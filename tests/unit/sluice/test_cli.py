"""The command line without a broker: help, usage errors, exit codes, record formats, offset plans."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
import yaml

from connect.config.finding import Finding, Severity
from connect.errors import ConfigError, ConnectError, DataError, NotFoundError, PluginNotFoundError, UnreachableError
from sluice.cli import COMMANDS
from sluice.cli.app import Command, build
from sluice.cli.connection import client_properties
from sluice.cli.diagnose import _show as show_diagnosis
from sluice.cli.errors import exit_code_of, run
from sluice.cli.group import plan_offsets
from sluice.cli.output import _note_yaml
from sluice.cli.topic import formatter, parse_lines
from sluice.online.diagnosis import Diagnosis
from worker.kafka.settings import ClientKind, librdkafka_settings
from worker.kafka.stored_records import KafkaRecord
from worker.observability.diagnosis.problem import Problem

RECORD = KafkaRecord("t", 2, 7, 1700000000000, b"k", "grün".encode(), [("h", b"1"), ("n", None)])
TOMBSTONE = KafkaRecord("t", 0, 8, None, b"k", None, [])


def test_help_imports_no_client_and_no_command() -> None:
    code = (
        "import sys; from sluice.cli import COMMANDS; from sluice.cli.errors import run; from sluice.cli.app import build;"
        "run(build(COMMANDS), ['--help']);"
        "print([m for m in ('confluent_kafka', 'rich', 'pyspark', 'psycopg', 'fastapi', 'sluice.cli.topic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert all(f"  {name} " in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(COMMANDS), [name, "--help"]) == 0
    assert "Usage: sluice" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(COMMANDS), ["--version"]) == 0
    assert capsys.readouterr().out.startswith("sluice ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["brokr", "start"], "No such command 'brokr'. Did you mean 'broker'?"),
        (["broker", "start", "--port", "0"], "0 is not in the range 1<=x<=65535"),
        (["topic", "consume", "t", "--offset", "3"], "--offset needs --partition"),
        (["topic", "consume", "t", "--property", "print.kee=true"], "unknown property 'print.kee'; expected one of"),
        (["topic", "create", "t", "--config", "x"], "'x' is not KEY=VALUE"),
        (["topic", "alter", "t"], "nothing to alter"),
        (["group", "reset", "g", "--topic", "t"], "exactly one of"),
        (["topic", "ls", "--bootstrap-server", "nowhere"], "'nowhere' in --bootstrap-server is not HOST:PORT"),
        (["topic", "ls", "--command-config", "missing.properties"], "missing.properties: cannot read the file"),
    ],
)
def test_bad_usage_is_exit_code_2_with_the_reason_on_stderr(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(build(COMMANDS), arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_records_are_a_stream_of_yaml_documents() -> None:
    context = click.Context(COMMANDS["topic"].load().commands["consume"])  # type: ignore[attr-defined]
    with context:
        _note_yaml(context, None, "yaml")  # type: ignore[arg-type]
        show = formatter("json", {})
        text = (show(RECORD) + show(TOMBSTONE)).decode()
    assert text.count("---\n") == 1
    first, second = yaml.safe_load_all(text)
    assert (first["key"], first["value"], first["headers"]) == ("k", "grün", [["h", "1"], ["n", None]])
    assert (second["offset"], second["value"]) == (8, None)


def test_reference_has_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    def shown(form: str) -> str:
        assert run(build(COMMANDS), ["docs", "FileStreamSource", "-o", form]) == 0
        return capsys.readouterr().out

    assert yaml.safe_load(shown("yaml")) == json.loads(shown("json"))


def test_json_output_reports_errors_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(COMMANDS), ["topic", "alter", "t", "-o", "json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["class"] == "UsageError"
    assert "nothing to alter" in error["message"]


@pytest.mark.parametrize("words", [["-o", "yaml"], ["-oyaml"], ["--output=yaml"], ["-o", "json", "--output", "yaml"]])
def test_yaml_output_reports_errors_as_yaml(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(COMMANDS), ["topic", "alter", "t", *words]) == 2
    error = yaml.safe_load(capsys.readouterr().err)["error"]
    assert error["class"] == "UsageError"
    assert "nothing to alter" in error["message"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConnectError("x"), 1),
        (DataError("x"), 1),
        (NotFoundError("x"), 1),
        (ConfigError("x"), 2),
        (PluginNotFoundError("x"), 2),
        (UnreachableError("x"), 3),
    ],
)
def test_class_of_an_error_decides_the_exit_code(error: ConnectError, code: int) -> None:
    assert exit_code_of(error) == code


def test_exit_codes_and_errors_of_commands_reach_the_shell(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command("three")
    def three() -> int:
        return 3

    @click.command("fails")
    def fails() -> None:
        raise UnreachableError("no broker answers")

    @click.command("stopped")
    def stopped() -> None:
        raise KeyboardInterrupt

    assert run(three, []) == 3
    assert run(fails, []) == 3
    assert capsys.readouterr().err == "error: no broker answers\n"
    assert run(stopped, []) == 130


def test_lazy_command_is_loaded_when_called() -> None:
    group = build({"later": Command("no.such.module:attribute", "Later.")})
    assert run(group, ["--help"]) == 0
    with pytest.raises(ModuleNotFoundError):
        run(group, ["later"])


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({}, "grün\n"),
        ({"print.key": "true"}, "k\tgrün\n"),
        ({"print.key": "true", "print.value": "false"}, "k\n"),
        ({"print.key": "true", "key.separator": "="}, "k=grün\n"),
        (
            dict.fromkeys(("print.timestamp", "print.partition", "print.offset", "print.headers", "print.key"), "true"),
            "CreateTime:1700000000000\tPartition:2\tOffset:7\th:1,n:null\tk\tgrün\n",
        ),
    ],
)
def test_records_are_printed_as_kafkas_console_does(properties: dict[str, str], line: str) -> None:
    assert formatter("text", properties)(RECORD).decode() == line


def test_missing_parts_of_a_record_are_printed_as_such() -> None:
    assert (
        formatter("text", {"print.timestamp": "true", "print.headers": "true"})(TOMBSTONE) == b"NO_TIMESTAMP\tNO_HEADERS\tnull\n"
    )
    assert formatter("text", {"null.literal": "~"})(TOMBSTONE) == b"~\n"


def test_binary_values_are_printed_unchanged() -> None:
    assert formatter("text", {})(KafkaRecord("t", 0, 0, None, None, b"\xff\x00", [])) == b"\xff\x00\n"


def test_json_lines_have_all_parts() -> None:
    value = json.loads(formatter("json", {})(RECORD))
    assert value == {
        "topic": "t",
        "partition": 2,
        "offset": 7,
        "timestamp": 1700000000000,
        "key": "k",
        "value": "grün",
        "headers": [["h", "1"], ["n", None]],
    }


def test_lines_become_records() -> None:
    assert list(parse_lines(io.BytesIO("a\nü\r\n\nlast".encode()), {})) == [
        (None, b"a"),
        (None, "ü".encode()),
        (None, b""),
        (None, b"last"),
    ]
    with_key = {"parse.key": "true", "key.separator": ":", "null.marker": "NULL"}
    assert list(parse_lines(io.BytesIO(b"k:v:w\nk:NULL\n"), with_key)) == [(b"k", b"v:w"), (b"k", None)]


def test_line_without_separator_is_reported() -> None:
    with pytest.raises(click.UsageError, match="line 2 has no key separator ':': oops"):
        list(parse_lines(io.BytesIO(b"k:v\noops\n"), {"parse.key": "true", "key.separator": ":"}))


ENDS = {("t", 0): (10, 100), ("t", 1): (0, 0)}
BEFORE = {("t", 0): 50, ("t", 1): 0}


@pytest.mark.parametrize(
    ("how", "offsets"),
    [
        ({"earliest": True}, [10, 0]),
        ({}, [100, 0]),
        ({"to_offset": 20}, [20, 0]),
        ({"to_offset": 5}, [10, 0]),
        ({"by": -10}, [40, 0]),
        ({"by": 1000}, [100, 0]),
        ({"by": -1000}, [10, 0]),
    ],
)
def test_reset_stays_within_the_partition(how: dict[str, int], offsets: list[int]) -> None:
    goal = plan_offsets(ENDS, BEFORE, earliest=bool(how.get("earliest")), to_offset=how.get("to_offset"), by=how.get("by"))
    assert list(goal.values()) == offsets


@pytest.mark.parametrize(
    "words", [["topic", "ls"], ["group", "ls"], ["topic", "consume", "t"], ["topic", "produce", "t"], ["doctor"]]
)
def test_unknown_client_property_is_reported_with_its_line_and_the_nearest_name(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# of this team\nsasl.mechanism=PLAIN\nsecurity.protocl=SSL\n", encoding="utf-8")
    assert run(build(COMMANDS), [*words, "--command-config", str(file)]) == 2
    expected = f"{file}:3: Kafka clients have no property security.protocl; did you mean security.protocol?"
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("security.protocol=SSLX", 'Kafka admin: Invalid value "SSLX" for configuration property "security.protocol"'),
        ("socket.timeout.ms=soon", 'Kafka admin: Invalid value for configuration property "socket.timeout.ms"'),
        ("error_cb=print", "error_cb cannot be set in a file"),
        ("ssl.truststore.location=/no/such", "Invalid value /no/such for configuration ssl.truststore.location"),
    ],
)
def test_wrong_value_of_a_client_property_is_reported_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        client_properties("a:1", file)
    assert caught.value.message.startswith(f"{file}:2: {message}")


def test_client_properties_may_have_the_names_of_java_or_librdkafka(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    for text in (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nkey.serializer=x\nauto.offset.reset=latest\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";\n',
        "security.protocol=sasl_plaintext\nsasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password=p\nqueued.min.messages=9\n",
    ):
        file.write_text(text, encoding="utf-8")
        settings = librdkafka_settings(ClientKind.ADMIN, client_properties("a:1", file))
        assert (settings["sasl.mechanism"], settings["sasl.username"], settings["sasl.password"]) == ("PLAIN", "u", "p")


def test_client_properties_come_from_the_file_but_the_address_from_the_option(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SSL\nbootstrap.servers=other:1\n", encoding="utf-8")
    assert client_properties("a:1,b:2", file) == {"security.protocol": "SSL", "bootstrap.servers": "a:1,b:2"}


def test_names_of_a_diagnosis_are_those_of_connectors_with_problems(capsys: pytest.CaptureFixture[str]) -> None:
    warning, note = (Finding("c", severity, "m", None, None) for severity in (Severity.WARNING, Severity.NOTE))
    problems = [Problem(warning), Problem(warning, "a", 0), Problem(warning, "a", 1), Problem(note, "b"), Problem(warning, "c")]
    show_diagnosis(Diagnosis(problems), "name")
    assert capsys.readouterr().out == "a\nc\n"
