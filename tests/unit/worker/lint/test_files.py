"""Files that are looked at together: which are configurations, and what they say of each other."""

from __future__ import annotations

from pathlib import Path

from worker.lint import check_files


def test_files_are_told_apart_and_compared(tmp_path: Path) -> None:
    slot = "connector.class=PostgresSource\ndatabase.hostname=h\ndatabase.dbname=d\nslot.name=s\n"
    (tmp_path / "a.properties").write_text(f"name=n\n{slot}")
    (tmp_path / "b.properties").write_text(f"name=n\nname=n\n{slot}")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.properties").write_text(f"name=n\n{slot}")
    (tmp_path / "d.json").write_text(
        '{"connector.class": "FileStreamSource", "topic": "${file:%s:gone}"}' % (tmp_path / "a.properties")
    )
    (tmp_path / "e.json").write_text('{"scripts": {"connector.class": 1}}')
    (tmp_path / "log4j.properties").write_text("log4j.rootLogger=INFO\n")
    (tmp_path / "package.json").write_text('{"dependencies": {}}')
    (tmp_path / "w.properties").write_text(
        "bootstrap.servers=b:1\nconfig.providers=file\nconfig.providers.file.class=FileConfigProvider\n"
    )
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "a.properties").write_text("connector.class=x\n")
    report = check_files([tmp_path])
    assert [Path(name).name for name in report.skipped] == ["log4j.properties", "package.json"]
    found = {(Path(str(one.file)).relative_to(tmp_path).as_posix(), one.code, one.line) for one in report.findings}
    assert {
        ("b.properties", "duplicate-name", 2),
        ("b.properties", "duplicate-key", 1),
        ("b.properties", "shared-slot", 6),
        ("d.json", "no-name", None),
        ("d.json", "missing-reference", 1),
        ("e.json", "unreadable-file", 1),
        ("w.properties", "missing-key", None),
    } <= found
    assert not any(file == "c/a.properties" and code in ("duplicate-name", "shared-slot") for file, code, _ in found)


def test_files_that_are_named_are_one_run_wherever_they_lie(tmp_path: Path) -> None:
    files = [tmp_path / name / "a.properties" for name in ("x", "y")]
    for file in files:
        file.parent.mkdir()
        file.write_text("name=n\nconnector.class=FileStreamSource\ntopic=t\n")
    assert [one.code for one in check_files(files).findings] == ["duplicate-name"]
    assert check_files([tmp_path]).findings == []


def test_with_strict_keys_that_nobody_reads_are_errors(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("name=a\nconnector.class=FileStreamSource\ntopic=t\ntopcs=t\ntasks.max=2\n")
    severities = [
        {one.code: one.severity.value for one in check_files([file], strict=strict).findings} for strict in (False, True)
    ]
    assert severities == [
        {"unknown-key": "warning", "too-many-tasks": "warning"},
        {"unknown-key": "error", "too-many-tasks": "warning"},
    ]


def test_sink_with_topics_and_a_regex_is_an_error_even_if_the_sink_declares_the_keys_itself(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    for connector in ("SparkSink", "FileStreamSink"):
        file.write_text(f"name=a\nconnector.class={connector}\ntopics=t\ntopics.regex=u.*\ntable.location=/t\nfile=/f\n")
        errors = [one for one in check_files([file]).findings if one.severity.value == "error"]
        assert [(one.code, one.line) for one in errors] == [("invalid-value", 3)]
        assert "mutually exclusive" in errors[0].message
