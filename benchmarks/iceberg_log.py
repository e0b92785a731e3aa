"""Follows the snapshots of an Iceberg table in a local folder, to know what became visible when."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.delta_log import TableCommit

_OFFSETS = "sluice.offsets."


class IcebergLog:
    """The snapshots of one table, read as they appear; the same view as :class:`benchmarks.delta_log.TableLog`.

    The number of the last event is the end offset of the topic's only partition, which each snapshot has.
    """

    def __init__(self, table: Path) -> None:
        self._metadata = table / "metadata"
        self._version = ""
        self._seen: set[int] = set()
        self.commits: list[TableCommit] = []
        self.rows = 0

    @property
    def last_event(self) -> int:
        return self.commits[-1].last_event if self.commits else 0

    def read(self) -> IcebergLog:
        """Reads the snapshots since the last call; returns itself."""
        try:
            version = (self._metadata / "version-hint.text").read_text(encoding="utf-8").strip()
            if version == self._version or not version:
                return self
            document = json.loads((self._metadata / f"v{version}.metadata.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return self
        self._version = version
        for snapshot in document.get("snapshots", ()):
            if snapshot["snapshot-id"] not in self._seen:
                self._seen.add(snapshot["snapshot-id"])
                summary = snapshot["summary"]
                self.rows = int(summary["total-records"]) - int(summary.get("total-position-deletes", 0))
                ends = [json.loads(text) for key, text in summary.items() if key.startswith(_OFFSETS)]
                last = sum(end for own in ends for end in own.values())
                if "added-data-files" in summary and summary["operation"] != "replace":
                    added = int(summary["added-records"])
                    self.commits.append(TableCommit(len(self.commits), snapshot["timestamp-ms"], added, last))
        return self
