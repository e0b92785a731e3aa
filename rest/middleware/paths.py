"""Paths as Jetty and JAX-RS take them: which are refused before they are routed, and what counts of the others. Pure.

Asked of Apache's worker. A connector whose name has a slash, a percent sign, a backslash or a control character can be created
but never be addressed (recordings connector-get-encoded-slash and connector-get-encoded-percent).
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

MALFORMED = "Bad Request"
"""What is said of a path that is none: a percent sign without two digits, a NUL, more steps up than down."""

_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_UTF16 = re.compile(rb"%u[0-9a-fA-F]{4}")
_DOTS = re.compile(rb"(?:\.|%2e){1,2}", re.IGNORECASE)
_SUSPICIOUS = re.compile(rb"[\x01-\x1f\x7f\\]")
_ILLEGAL = re.compile(rb'["<>\[\\\]^`{|}]')


def path_problem(raw: bytes) -> str | None:
    """Why a path is refused, in Jetty's words; None for one that is not."""
    pieces = [segment.partition(b";") for segment in raw.split(b"/")]
    segments = [segment for segment, _, _ in pieces]
    path = b"/".join(segments)
    if _BAD_ESCAPE.search(_UTF16.sub(b"", path)) or b"%00" in path or _leaves_the_root(segments):
        return MALFORMED
    dots = [(b"%" in segment, bool(semicolon)) for segment, semicolon, _ in pieces if _DOTS.fullmatch(segment)]
    lowered = path.lower()
    decoded = unquote_to_bytes(path)
    found = {
        "Ambiguous URI path segment": any(escaped for escaped, _ in dots),
        "Ambiguous URI empty segment": b"" in segments[1:-1],
        "Ambiguous URI path separator": b"%2f" in lowered,
        "Ambiguous URI path parameter": any(parameter for _, parameter in dots),
        "Ambiguous URI path encoding": b"%25" in lowered,
        "UTF-16 encoding": _UTF16.search(path) is not None,
        "Bad UTF-8 encoding": not _is_utf8(decoded),
        "Suspicious Path Character": _SUSPICIOUS.search(decoded) is not None,
        "Illegal Path Character": _ILLEGAL.search(path) is not None,
    }
    return ", ".join(problem for problem, there in found.items() if there) or None


def routed_path(raw: bytes) -> str:
    """The path by which a request is routed: without what follows a semicolon in a segment (JAX-RS's matrix parameters)."""
    return unquote_to_bytes(b"/".join(segment.partition(b";")[0] for segment in raw.split(b"/"))).decode(errors="replace")


def _leaves_the_root(segments: list[bytes]) -> bool:
    depth = 0
    for segment in segments[1:]:
        plain = segment.lower().replace(b"%2e", b".")
        depth += {b"..": -1, b".": 0, b"": 0}.get(plain, 1)
        if depth < 0:
            return True
    return False


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
