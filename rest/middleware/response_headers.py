"""Configured response headers: the rules of ``response.http.headers.config`` (KIP-577)."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from email.utils import formatdate

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from connect.errors import ConfigError

KEY = "response.http.headers.config"
_ACTIONS = ("set", "add", "setDate", "addDate")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header. ``replaces`` discards values of earlier rules; the value of a date is its distance from now in ms."""

    name: str
    value: str
    replaces: bool
    is_date: bool

    def text(self, now_s: float) -> str:
        return formatdate(now_s + int(self.value) / 1000, usegmt=True) if self.is_date else self.value


def parse_header_rules(config: str) -> tuple[HeaderRule, ...]:
    """Parses the rules. Raises ConfigError in Kafka's words."""
    if not config.strip():
        return ()
    rows = list(csv.reader([config.replace("\n", " ")], skipinitialspace=True, escapechar="\\"))
    return tuple(_parse_rule(text.strip()) for text in rows[0])


def _parse_rule(text: str) -> HeaderRule:
    action, _, header = text.partition(" ")
    if not header.strip():
        raise _invalid(f"Invalid format of header config '{text}'. Expected: '[action] [header name]:[header value]'")
    known = next((known for known in _ACTIONS if known.lower() == action.lower()), None)
    if known is None:
        raise _invalid(f"Invalid header config action: '{action}'. Expected one of [{', '.join(_ACTIONS)}]")
    name, colon, value = (part.strip() for part in header.partition(":"))
    if not colon or ":" in value:
        raise _invalid(
            f"Invalid format of header name and header value pair '{header.strip()}'. Expected: '[header name]:[header value]'"
        )
    if not name or any(c.isspace() for c in name):
        raise _invalid(f"Invalid header name '{name}'. The '[header name]' cannot contain whitespace")
    if not _TOKEN.fullmatch(name) or _UNSAFE.search(value):
        raise _invalid(f"Invalid header '{name}: {value}'. It has characters that HTTP does not allow there")
    is_date = known.endswith("Date")
    if is_date and not re.fullmatch(r"-?\d{1,15}", value):
        raise _invalid(f"Invalid date '{value}' of header '{name}'. Expected: milliseconds from now")
    return HeaderRule(name.lower(), value, known.startswith("set"), is_date)


def _invalid(message: str) -> ConfigError:
    return ConfigError(message, key=KEY)


class ResponseHeadersMiddleware:
    """Adds the headers to every response, including errors. Headers that a response sets itself, such as Content-Type, win."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule], clock: Callable[[], float] = time.time) -> None:
        self.app = app
        self._rules = rules
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                own = set(headers.keys())
                now = self._clock()
                for rule in self._rules:
                    if rule.name in own:
                        continue
                    if rule.replaces:
                        headers[rule.name] = rule.text(now)
                    else:
                        headers.append(rule.name, rule.text(now))
            await send(message)

        await self.app(scope, receive, send_with_headers)
