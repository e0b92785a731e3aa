"""Results of ``sluice verify`` outlive a standalone worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConnectError
from tests.unit.rest.fake_herder import FakeDocuments
from worker.observability.verifications import VerificationAttempt, VerificationResults, read_verification
from worker.storage.documents import DocumentFile

DOCUMENT = {"sink": "lake", "equal": False, "rows": 10, "differences": 2, "unsettled": 1, "seconds": 1.5, "tables": []}


def in_file(path: Path) -> VerificationResults:
    return VerificationResults(DocumentFile(path, "results of verifications", 1000))


def test_results_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "offsets.verifications"
    first = in_file(path)
    assert first.all() == {}
    assert not path.exists()
    stored = first.store("lake", DOCUMENT)
    first.store("other", {**DOCUMENT, "equal": True})
    second = in_file(path)
    assert second.get("lake") == stored
    assert second.all() == first.all()
    assert stored.document == DOCUMENT
    assert list(tmp_path.iterdir()) == [path]


def test_last_result_replaces_the_one_before(tmp_path: Path) -> None:
    results = in_file(tmp_path / "results")
    results.store("lake", DOCUMENT)
    newest = results.store("lake", {**DOCUMENT, "differences": 0})
    assert in_file(tmp_path / "results").all() == {"lake": newest}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"lake": 1}', b'{"lake": {"equal": true}}'])
def test_damaged_file_has_no_results_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results"
    path.write_bytes(content)
    results = in_file(path)
    assert results.all() == {}
    results.store("lake", DOCUMENT)
    assert set(in_file(path).all()) == {"lake"}


def test_result_that_cannot_be_written_is_an_error_and_is_not_kept(tmp_path: Path) -> None:
    results = in_file(tmp_path / "absent" / "results")
    with pytest.raises(ConnectError, match="results of verifications cannot be written to"):
        results.store("lake", DOCUMENT)
    assert results.all() == {}


def test_results_that_cannot_be_read_are_an_error_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.mkdir()  # root may read any file, but no directory
    results = in_file(path)
    with pytest.raises(ConnectError, match="results of verifications cannot be read from"):
        results.all()
    with pytest.raises(ConnectError, match="results of verifications cannot be read from"):
        results.store("lake", DOCUMENT)


def test_document_of_another_form_is_no_result() -> None:
    assert read_verification({**DOCUMENT, "stored_ms": 1}) is not None
    assert read_verification(DOCUMENT) is read_verification(None) is None


def test_stored_results_are_read_once() -> None:
    documents = FakeDocuments()
    documents.stored = {"a": {**DOCUMENT, "stored_ms": 1}, "b": DOCUMENT}
    results = VerificationResults(documents)
    first = results.get("a")
    assert first is not None
    assert results.all() == {"a": first}
    assert results.get("a") is first
    documents.stored = {"a": {**DOCUMENT, "stored_ms": 2}}
    assert [one.stored_ms for one in results.all().values()] == [2]
    documents.stored.clear()
    assert results.all() == {}


def test_failed_run_of_the_schedule_keeps_the_last_result_and_survives_a_restart(tmp_path: Path) -> None:
    now = [1000]
    path = tmp_path / "results"
    results = VerificationResults(DocumentFile(path, "results"), lambda: now[0])
    first = VerificationAttempt.after(None, 1000, "the database does not answer", "a:1")
    results.store_attempt("lake", first)
    assert (results.get("lake"), results.all()) == (None, {})
    assert results.attempt("lake") == first == VerificationAttempt(1000, "the database does not answer", "a:1", 1000)
    now[0] = 2000
    stored = results.store("lake", DOCUMENT)
    assert results.attempt("lake") == first
    results.store_attempt("lake", VerificationAttempt.after(first, 2000, None, "b:1"))
    assert results.attempt("lake") == VerificationAttempt(2000, None, "b:1")
    again_failed = VerificationAttempt(4000, "again", "a:1", 3000)
    results.store_attempt("lake", again_failed)
    now[0] = 4000
    by_hand = results.store("lake", {**DOCUMENT, "attempt": {"ended_ms": 9, "error": None}})
    assert (stored.stored_ms, by_hand.stored_ms, by_hand.document) == (2000, 4000, DOCUMENT)
    again = in_file(path)
    assert (again.get("lake"), again.attempt("lake")) == (by_hand, again_failed)


def test_run_that_an_earlier_release_stored_is_read() -> None:
    documents = FakeDocuments()
    documents.stored = {"lake": {"attempt": {"ended_ms": 5, "error": "why"}}, "b": {"attempt": {"ended_ms": 5, "worker_id": 7}}}
    results = VerificationResults(documents)
    assert results.attempt("lake") == VerificationAttempt(5, "why")
    assert results.attempt("b") is None


def test_what_is_stored_of_a_deleted_connector_is_deleted_for_good(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "results"
    results = in_file(path)
    results.store("lake", DOCUMENT)
    results.store("other", DOCUMENT)
    results.discard("lake")
    results.discard("unknown")
    assert list(results.all()) == list(in_file(path).all()) == ["other"]
    path.unlink()
    path.mkdir()
    results.discard("other")
    assert results.all() == {}
    assert "cannot be written to" in caplog.text
