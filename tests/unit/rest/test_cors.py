"""Which origins may call, and which headers tell them."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from connect.errors import ConfigError
from rest.middleware.cors import CorsRules


def _rules(origins: str, methods: str = "") -> CorsRules:
    rules = CorsRules.parse(origins, methods)
    assert rules is not None
    return rules


def test_no_origins_means_no_rules() -> None:
    assert CorsRules.parse(" ", "GET") is None


@pytest.mark.parametrize(
    ("origins", "origin", "let_in"),
    [
        ("http://a.com", "http://a.com", True),
        # An origin is an expression, for Jetty as for us.
        ("http://a.com", "http://aXcom", True),
        (r"http://a\.com", "http://aXcom", False),
        (r"https://.*\.a\.com , http://b", "https://x.a.com", True),
        ("http://a.com", "http://a.com.evil.org", False),
        ("http://a.com", "http://evil.org http://a.com", True),
        ("*", "anything", True),
        ("http://a, *", "null", True),
    ],
)
def test_allowed_origins_match_whole_values(origins: str, origin: str, let_in: bool) -> None:
    assert _rules(origins).allows(origin) is let_in


def test_response_headers_of_allowed_origins() -> None:
    rules = _rules("http://a", "GET, PUT")
    vary, allowed = ("vary", "Origin"), ("access-control-allow-origin", "http://a")
    asked = Headers({"origin": "http://a", "access-control-request-method": "PUT"})
    assert rules.headers_for("GET", Headers()) == [vary]
    assert rules.headers_for("GET", Headers({"origin": "http://b"})) == [vary]
    assert rules.headers_for("GET", Headers({"origin": "http://a"})) == [vary, allowed]
    assert rules.headers_for("PUT", asked) == [vary, allowed]
    assert rules.headers_for("OPTIONS", Headers({"origin": "http://a"})) == [vary, allowed]
    assert rules.headers_for("OPTIONS", asked) == [
        vary,
        allowed,
        ("access-control-allow-methods", "GET,PUT"),
        ("access-control-allow-headers", "Content-Type"),
        ("access-control-max-age", "60"),
    ]
    assert ("access-control-allow-methods", "GET,POST,HEAD") in _rules("*").headers_for("OPTIONS", asked)


def test_invalid_origin_expression_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"access\.control\.allow\.origin: each origin is a regular expression"):
        CorsRules.parse("http://(a", "")
