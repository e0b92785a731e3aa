"""The files of the web page, with their ETags, compressed once.

The address of a file contains a digest of all files, so that browsers keep files forever and still get new ones after an upgrade.
Files are read at the first request: a worker whose page nobody opens has none in memory.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent / "static"
INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_LATER = ("authoring/", "connector/", "lib/config_files.js", "lib/definitions.js", "lib/secrets.js", "parts/sparkline.js")
_PRELOADS, _DIGEST = "<!-- preloads -->", "{{digest}}"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file as it is sent."""

    media_type: str
    body: bytes
    gzipped: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class StaticFiles:
    """All files by their path below ``static/``, and the page that loads them."""

    digest: str
    files: dict[str, StaticFile]
    index: StaticFile


@cache
def load() -> StaticFiles:
    """Reads the files once."""
    texts = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in sorted(ROOT.rglob("*")) if path.suffix in _TYPES}
    digest = hashlib.sha256(b"".join(name.encode() + b"\0" + body for name, body in texts.items())).hexdigest()[:16]
    # The modules of the overview at once, instead of each after the one that imports it. Other pages are loaded later.
    modules = [name for name in texts if name.endswith(".js") and not name.startswith(_LATER) and name != "theme.js"]
    preloads = "\n".join(f'    <link rel="modulepreload" href="ui/static/{digest}/{name}">' for name in modules)
    index = texts.pop(INDEX).decode().replace(_PRELOADS, preloads.strip()).replace(_DIGEST, digest)
    return StaticFiles(digest, {name: _file(name, body) for name, body in texts.items()}, _file(INDEX, index.encode()))


def _file(name: str, body: bytes) -> StaticFile:
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return StaticFile(_TYPES[Path(name).suffix], body, gzip.compress(body, 9, mtime=0), etag)
