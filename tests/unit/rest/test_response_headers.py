"""The rules of ``response.http.headers.config``, and what they do to an answer."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from connect.errors import ConfigError
from rest.middleware.response_headers import HeaderRule, ResponseHeadersMiddleware, parse_header_rules


def test_rules_are_separated_by_commas_unless_they_are_quoted() -> None:
    assert parse_header_rules('add X-Frame-Options: DENY, "set X-Test: a, b",SETDATE Expires: 31540000000, addDate D:-5') == (
        HeaderRule("x-frame-options", "DENY", False, False),
        HeaderRule("x-test", "a, b", True, False),
        HeaderRule("expires", "31540000000", True, True),
        HeaderRule("d", "-5", False, True),
    )
    assert parse_header_rules("  ") == ()
    assert parse_header_rules("set X-Empty:") == (HeaderRule("x-empty", "", True, False),)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("set", "Invalid format of header config 'set'"),
        ("set X: a,", "Invalid format of header config ''"),
        ("put X: a", r"Invalid header config action: 'put'. Expected one of \[set, add, setDate, addDate\]"),
        ("set X: a: b", "Invalid format of header name and header value pair 'X: a: b'"),
        ("set X", "Invalid format of header name and header value pair 'X'"),
        ("set X Y: a", "Invalid header name 'X Y'. The .* cannot contain whitespace"),
        ("set :a", "Invalid header name ''"),
        ("set X\x07: a", "characters that HTTP does not allow"),
        ("set X: a\x00b", "characters that HTTP does not allow"),
        ("setDate X: soon", "Invalid date 'soon' of header 'X'"),
    ],
)
def test_invalid_header_rule_is_a_config_error(config: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as raised:
        parse_header_rules(config)
    assert raised.value.key == "response.http.headers.config"


def test_rules_add_headers_to_responses() -> None:
    rules = parse_header_rules("add X: 1, add X: 2, add Y: 1, set Y: 2, set Content-Type: text/html, setDate D: 1000")
    app = ResponseHeadersMiddleware(PlainTextResponse("a"), rules, clock=lambda: 0.0)
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(app({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send))
    assert sent[0]["headers"] == [
        (b"content-length", b"1"),
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"x", b"1"),
        (b"x", b"2"),
        (b"y", b"2"),
        (b"d", b"Thu, 01 Jan 1970 00:00:01 GMT"),
    ]
