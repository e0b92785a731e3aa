"""Results of ``sluice verify`` outlive a standalone worker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from connect.errors import ConnectError
from worker.distributed.verifications import VerificationTopic
from worker.observability.verifications import VerificationFile, read_verification
from worker.storage.status_store import StatusStore

DOCUMENT = {"sink": "lake", "equal": False, "rows": 10, "differences": 2, "unsettled": 1, "seconds": 1.5, "tables": []}


def test_results_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "offsets.verifications"
    first = VerificationFile(path)
    assert first.all() == {}
    assert not path.exists()
    stored = first.store("lake", DOCUMENT)
    first.store("other", {**DOCUMENT, "equal": True})
    second = VerificationFile(path)
    assert second.get("lake") == stored
    assert second.all() == first.all()
    assert stored.document == DOCUMENT
    assert list(tmp_path.iterdir()) == [path]


def test_last_result_replaces_the_one_before(tmp_path: Path) -> None:
    results = VerificationFile(tmp_path / "results")
    results.store("lake", DOCUMENT)
    newest = results.store("lake", {**DOCUMENT, "differences": 0})
    assert VerificationFile(tmp_path / "results").all() == {"lake": newest}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"lake": 1}', b'{"lake": {"equal": true}}'])
def test_damaged_file_has_no_results_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results"
    path.write_bytes(content)
    results = VerificationFile(path)
    assert results.all() == {}
    results.store("lake", DOCUMENT)
    assert set(VerificationFile(path).all()) == {"lake"}


def test_result_that_cannot_be_written_is_an_error_and_is_not_kept(tmp_path: Path) -> None:
    results = VerificationFile(tmp_path / "absent" / "results")
    with pytest.raises(ConnectError, match="results of verifications cannot be written to"):
        results.store("lake", DOCUMENT)
    assert results.all() == {}


def test_results_that_cannot_be_read_are_an_error_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "results"
    path.mkdir()  # root may read any file, but no directory
    results = VerificationFile(path)
    with pytest.raises(ConnectError, match="results of verifications cannot be read from"):
        results.all()
    with pytest.raises(ConnectError, match="results of verifications cannot be read from"):
        results.store("lake", DOCUMENT)


def test_document_of_another_form_is_no_result() -> None:
    assert read_verification({**DOCUMENT, "stored_ms": 1}) is not None
    assert read_verification(DOCUMENT) is read_verification(None) is None


def test_stored_results_are_read_once() -> None:
    documents = {"a": {**DOCUMENT, "stored_ms": 1}, "b": DOCUMENT}
    topic = VerificationTopic(cast(StatusStore, SimpleNamespace(verifications=lambda: dict(documents))))
    first = topic.get("a")
    assert first is not None
    assert topic.all() == {"a": first}
    assert topic.get("a") is first
    documents["a"] = {**DOCUMENT, "stored_ms": 2}
    del documents["b"]
    assert [one.stored_ms for one in topic.all().values()] == [2]
    documents.clear()
    assert topic.all() == {}
