"""The Chromium that browser tests start: an installed one, or Debian's package."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from connect.errors import ConfigError
from tests.support.waiting import WAIT_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser

VARIABLE = "SLUICE_CHROMIUM"
"""Names the executable."""
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_PACKAGE = "chromium"
TIMEOUT_MS = WAIT_S * 1000
"""For each step of a page: the machine's load decides how long it takes."""
_ARGUMENTS = (
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> Path | None:
    """Returns the executable, if there is one."""
    for name in filter(None, (os.environ.get(VARIABLE), *_NAMES)):
        if (found := shutil.which(name)) is not None:
            return Path(found)
    return None


def require_chromium() -> Path:
    """Returns the executable. Raises ConfigError that says how to install it."""
    found = find_chromium()
    if found is None:
        raise ConfigError(
            f"Browser tests need Chromium: install it (apt-get install {_PACKAGE}), or name its executable in {VARIABLE}. "
            "'make test' installs it when it runs as root with apt-get"
        )
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """Starts a browser without a window, and sets the time limit of expectations. The caller sets that of pages."""
    from playwright.sync_api import expect, sync_playwright  # fetching needs no Playwright

    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=require_chromium(), args=list(_ARGUMENTS))
        yield browser
        browser.close()


def ensure_chromium() -> Path:
    """Returns the executable; installs Debian's package as root if there is none. Raises ConfigError if it cannot."""
    if find_chromium() is None and os.geteuid() == 0 and shutil.which("apt-get") is not None:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (("update",), ("install", "--yes", "--no-install-recommends", _PACKAGE)):
            done = subprocess.run(
                ["apt-get", "--quiet", *arguments], env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                raise ConfigError(f"apt-get {' '.join(arguments)} failed: {lines[-1] if lines else done.returncode}")
    return require_chromium()
