"""Results of ``sluice verify`` outlive a standalone worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConnectError
from worker.observability.verifications import VerificationFile, read_verifications

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


def test_documents_of_another_form_are_left_out() -> None:
    assert set(read_verifications({"a": {**DOCUMENT, "stored_ms": 1}, "b": DOCUMENT, "c": None})) == {"a"}
