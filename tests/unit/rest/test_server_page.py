"""docs/rest-server.md lists every mapped Apache logger and every REST key."""

from __future__ import annotations

from pathlib import Path

from worker.config.worker_config import standalone_config_def
from worker.observability.loggers import JAVA_LOGGERS

PAGE = (Path(__file__).parents[3] / "docs" / "rest-server.md").read_text("utf-8")


def test_page_lists_every_mapped_logger() -> None:
    for name, ours in JAVA_LOGGERS.items():
        assert f"| `{name}` | {', '.join(f'`{one}`' for one in ours)} |" in PAGE


def test_page_lists_every_rest_key() -> None:
    prefixes = (
        "listeners",
        "admin.listeners",
        "rest.",
        "access.control.",
        "response.http.",
        "ssl.client.auth",
        "ssl.keystore.loc",
    )
    for key in standalone_config_def().keys:
        if key.startswith(prefixes):
            assert key in PAGE, f"docs/rest-server.md does not name {key}"
