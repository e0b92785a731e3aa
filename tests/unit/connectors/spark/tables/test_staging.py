"""Locations of tables."""

from __future__ import annotations

import pytest
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.staging import open_location


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_s3_is_known_by_the_names_of_arrow_and_of_spark(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    files, path = open_location(f"{scheme}://bucket/lake/t")
    assert isinstance(files, fs.S3FileSystem)
    assert path == "bucket/lake/t"


def test_unknown_scheme_is_rejected() -> None:
    with pytest.raises(ConnectError, match=r"table\.location ftp://host/lake cannot be opened"):
        open_location("ftp://host/lake")
