"""Request paths by the rules of Jetty and JAX-RS: which are rejected before routing, and how the others are routed. Pure.

Tested against Apache's worker. A connector whose name contains a slash, percent sign, backslash, or control character can be
created but not addressed (recordings connector-get-encoded-slash and connector-get-encoded-percent).
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

MALFORMED = "Bad Request"
"""The reason for an invalid path: a percent sign without two digits, a NUL, more steps up than down."""

_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_UTF16 = re.compile(rb"%u[0-9a-fA-F]{4}")
_DOTS = re.compile(rb"(?:\.|%2e){1,2}", re.IGNORECASE)
_SUSPICIOUS = re.compile(rb"[\x01-\x1f\x7f\\]")
_ILLEGAL = re.compile(rb'["<>\[\\\]^`{|}]')


def path_problem(raw: bytes) -> str | None:
    """Returns the reason for rejecting a path, in Jetty's words, or None."""
    pieces = [segment.partition(b";") for segment in raw.split(b"/")]
    segments = [segment for segment, _, _ in pieces]
    path = b"/".join(segments)
    if _BAD_ESCAPE.search(_UTF16.sub(b"", path)) or b"%00" in path or _leaves_root(segments):
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
    return ", ".join(problem for problem, present in found.items() if present) or None


def routed_path(raw: bytes) -> str:
    """Returns the path for routing, without JAX-RS's matrix parameters (after a semicolon in a segment)."""
    return unquote_to_bytes(b"/".join(segment.partition(b";")[0] for segment in raw.split(b"/"))).decode(errors="replace")


def _leaves_root(segments: list[bytes]) -> bool:
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
