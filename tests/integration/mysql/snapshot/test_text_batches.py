"""Batches of snapshot rows are written from the texts of the server: as the bytes of their records."""

from __future__ import annotations

import pytest

from connect.converters.json.converter import JsonConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.text_records import TextRecords
from connectors.mysql.snapshot import row_stream
from tests.integration.mysql.snapshot.rig import SnapshotSource
from tests.integration.mysql.test_types import CASES
from tests.support.cases import first_fast
from worker.errors.batch_failures import BatchFailures
from worker.source.encoding import encode
from worker.tasks.converters import Converters


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "BATCH_ROWS", 4)


def converters(**settings: str) -> Converters:
    made = [JsonConverter(), JsonConverter()]
    for converter, is_key in zip(made, (True, False), strict=True):
        converter.configure(settings, is_key)
    return Converters(made[0], made[1], SimpleHeaderConverter())


def batches(source: SnapshotSource) -> list[TextRecords]:
    """The batches of a snapshot, without first and last rows."""
    attempt = source.attempt()
    attempt.snapshot.start()
    found: list[TextRecords] = []
    while not attempt.snapshot.done:
        records = attempt.snapshot.read()
        if isinstance(records, TextRecords):
            found.append(records)
    return found


@pytest.mark.parametrize("strict", first_fast(["false", "true"]))
def test_bytes_are_those_of_the_records(source: SnapshotSource, strict: str) -> None:
    """Of all types, with and without nulls."""
    for number, case in enumerate(CASES):
        source.execute(
            "SET sql_mode = ''",
            f"CREATE TABLE t{number} (k INT AUTO_INCREMENT PRIMARY KEY, v {case.sql} {'NULL' if number % 3 else 'NOT NULL'})",
            f"INSERT INTO t{number} (v) VALUES {', '.join(f'({value})' for value in [*case.values] * 3)}",
        )
        if number % 3 == 1:
            source.execute(f"INSERT INTO t{number} (v) VALUES (NULL), (NULL)")
    found = batches(source)
    assert len(found) > len(CASES) / 2
    using = converters(**{"schemas.enable": "false", "conversion.strict": strict})
    for texts in found:
        written = encode(using, texts, BatchFailures(tolerant=True))
        assert written == encode(using, list(texts), BatchFailures(tolerant=True)), texts.topic


def test_texts_of_any_characters(source: SnapshotSource) -> None:
    source.execute(
        "CREATE TABLE t (k VARCHAR(20) PRIMARY KEY, v TEXT NOT NULL, at TIMESTAMP(3) NOT NULL, day TIMESTAMP NULL)",
        "SET sql_mode = ''",
        "INSERT INTO t SELECT CONCAT(seq, '\\\"'), CONCAT(CHAR(seq % 256 USING latin1), REPEAT('é', seq % 5), '\\\\'), "
        "IF(seq % 7, TIMESTAMP '2024-01-02 03:04:05.678' + INTERVAL seq SECOND, 0), IF(seq % 5, '2024-01-02', '0000-00-00') "
        "FROM seq_1_to_600",
    )
    found = batches(source)
    using = converters(**{"schemas.enable": "false"})
    assert sum(map(len, found)) > 500
    for texts in found:
        written = encode(using, texts, BatchFailures(tolerant=True))
        assert written == encode(using, list(texts), BatchFailures(tolerant=True))
        days = {record.value["after"]["day"] for record in texts}
        assert days <= {"2024-01-02T00:00:00Z", None}


def test_converted_columns_have_the_bytes_of_their_records(source: SnapshotSource) -> None:
    source.config |= {"converters": "any", "any.type": "tests.support.custom_converters:Anything"}
    source.execute(
        "CREATE TABLE t (k BIGINT, code VARCHAR(9), f BOOLEAN, n SMALLINT NOT NULL, d DOUBLE, b BLOB, PRIMARY KEY (k, code))",
        "INSERT INTO t SELECT seq, CONCAT('é\"', seq), seq % 2, seq, IF(seq % 3, seq / 7, NULL), X'00FF41' FROM seq_1_to_30",
    )
    using = converters(**{"schemas.enable": "false"})
    found = batches(source)
    assert sum(map(len, found)) > 20
    for texts in found:
        written = encode(using, texts, BatchFailures(tolerant=True))
        assert written == encode(using, list(texts), BatchFailures(tolerant=True))
    first = next(iter(found[0]))
    k = first.key["k"]
    assert (k[0], first.key["code"][-2:], first.value["after"]["b"]) == ('"', '"é', b"A\xff\0")
