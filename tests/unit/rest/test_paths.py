"""Which paths are refused before they are routed. The words are those of Apache's worker, asked path by path."""

from __future__ import annotations

import pytest

from rest.middleware.jetty_compat import path_problem, routed_path


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/connectors/%2e", "Ambiguous URI path segment"),
        ("/connectors/.%2E", "Ambiguous URI path segment"),
        ("//connectors", "Ambiguous URI empty segment"),
        ("/connectors/;x/status", "Ambiguous URI empty segment"),
        ("/connectors/a%2fb", "Ambiguous URI path separator"),
        ("/connectors/a/..;x", "Ambiguous URI path parameter"),
        ("/connectors/%2e;x", "Ambiguous URI path segment, Ambiguous URI path parameter"),
        ("/connectors/a%25", "Ambiguous URI path encoding"),
        ("/connectors/a%u0041", "UTF-16 encoding"),
        ("/connectors/%C3%28", "Bad UTF-8 encoding"),
        ("/connectors/%ED%A0%80", "Bad UTF-8 encoding"),
        ("/connectors/a%09b", "Suspicious Path Character"),
        ("/connectors/a%5cb", "Suspicious Path Character"),
        ("/connectors/a%2f%5c", "Ambiguous URI path separator, Suspicious Path Character"),
        ("/connectors/a\\b", "Suspicious Path Character, Illegal Path Character"),
        ("/connectors/{a}", "Illegal Path Character"),
        ("/connectors/x^", "Illegal Path Character"),
        ("/connectors/%zz", "Bad Request"),
        ("/connectors/%", "Bad Request"),
        ("/connectors/a%00b", "Bad Request"),
        ("/connectors/../../x", "Bad Request"),
        ("/..", "Bad Request"),
    ],
)
def test_ambiguous_path_is_rejected(path: str, problem: str) -> None:
    assert path_problem(path.encode()) == problem


@pytest.mark.parametrize(
    ("path", "routed"),
    [
        ("/", "/"),
        ("/connectors/", "/connectors/"),
        ("/connectors/;x", "/connectors/"),
        ("/connectors;x=1/a;y/status", "/connectors/a/status"),
        ("/connectors/a%3By", "/connectors/a;y"),
        ("/connectors/a;%zz%2f", "/connectors/a"),
        ("/connectors/%20", "/connectors/ "),
        ("/connectors/%C2%80", "/connectors/\x80"),
        ("/connectors/é+b", "/connectors/é+b"),
        ("/connectors/%7Bc%7D", "/connectors/{c}"),
        ("/connectors/..", "/connectors/.."),
        ("/connectors/%2e%2ex", "/connectors/..x"),
        ("/connectors/./", "/connectors/./"),
    ],
)
def test_path_is_routed_without_matrix_parameters(path: str, routed: str) -> None:
    assert path_problem(path.encode()) is None
    assert routed_path(path.encode()) == routed
