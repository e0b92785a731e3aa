"""The quickstarts by name, with the fields of Confluent's schemas of the same names.

Rows depend only on the random generator and the row number, so that equal seeds give equal rows. The rows of users, orders, and
clickstream are written in Python; the other quickstarts are annotated schemas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import orjson

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connectors.datagen.generator import RowGenerator, compile_generator
from connectors.datagen.quickstart_schemas import SCHEMAS

_FROM_MS, _TO_MS = 1_487_715_775_521, 1_519_273_364_600
_GENDERS = ("MALE", "FEMALE", "OTHER")
_REQUESTS = (
    "GET /index.html HTTP/1.1", "GET /site/user_status.html HTTP/1.1", "GET /site/login.html HTTP/1.1",
    "GET /site/user_status.html HTTP/1.1", "GET /images/track.png HTTP/1.1", "GET /images/logo-small.png HTTP/1.1",
)  # fmt: skip
_STATUSES = ("200", "302", "404", "405", "406", "407")
_BYTES = ("278", "1289", "2048", "4096", "4006", "4196", "14096")
_ADDRESSES = (
    "111.152.45.45", "111.203.236.146", "111.168.57.122", "111.249.79.93", "111.168.57.122", "111.90.225.227",
    "111.173.165.103", "111.145.8.144", "111.245.174.248", "222.152.45.45", "222.203.236.146", "222.168.57.122",
    "222.249.79.93", "222.168.57.122", "222.90.225.227", "222.173.165.103", "222.145.8.144", "222.245.174.248",
    "122.152.45.245", "122.203.236.246", "122.168.57.222", "122.249.79.233", "122.168.57.222", "122.90.225.227",
    "122.173.165.203", "122.145.8.244", "122.245.174.248", "233.152.245.45", "233.203.236.146", "233.168.257.122",
    "233.249.279.93", "233.168.257.122", "233.90.225.227", "233.173.215.103", "233.145.28.144", "233.245.174.248",
)  # fmt: skip
_AGENTS = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/59.0.3071.115 Safari/537.36",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
)


@dataclass(frozen=True, slots=True)
class Quickstart:
    """A kind of record: its default key and its generator."""

    key_field: str
    rows: RowGenerator


_USERS = Schema(
    Type.STRUCT,
    name="ksql.users",
    fields=[
        ("registertime", Schema.INT64),
        ("userid", Schema.STRING),
        ("regionid", Schema.STRING),
        ("gender", Schema.STRING),
    ],
)
_ADDRESS = Schema(
    Type.STRUCT,
    name="ksql.address",
    fields=[("city", Schema.STRING), ("state", Schema.STRING), ("zipcode", Schema.INT64)],
)
_ORDERS = Schema(
    Type.STRUCT,
    name="ksql.orders",
    fields=[
        ("ordertime", Schema.INT64),
        ("orderid", Schema.INT32),
        ("itemid", Schema.STRING),
        ("orderunits", Schema.FLOAT64),
        ("address", _ADDRESS),
    ],
)
_CLICKSTREAM = Schema(
    Type.STRUCT,
    name="clickstream.clickstream",
    fields=[
        ("ip", Schema.STRING),
        ("userid", Schema.INT32),
        ("remote_user", Schema.STRING),
        ("time", Schema.STRING),
        ("_time", Schema.INT64),
        ("request", Schema.STRING),
        ("status", Schema.STRING),
        ("bytes", Schema.STRING),
        ("referrer", Schema.STRING),
        ("agent", Schema.STRING),
    ],
)


def _below(random: Random, limit: int) -> int:
    return int(random.random() * limit)


def _time_ms(random: Random) -> int:
    return _FROM_MS + _below(random, _TO_MS - _FROM_MS)


def _user(random: Random, number: int) -> list[Any]:
    return [_time_ms(random), f"User_{1 + _below(random, 9)}", f"Region_{1 + _below(random, 9)}", _GENDERS[_below(random, 3)]]


def _order(random: Random, number: int) -> list[Any]:
    address = [f"City_{1 + _below(random, 99)}", f"State_{1 + _below(random, 99)}", 10_000 + _below(random, 90_000)]
    units = 0.1 + random.random() * 9.9
    # Order numbers have 32 bits and wrap around.
    return [_time_ms(random), number % 2**31, f"Item_{1 + _below(random, 999)}", units, Struct(_ADDRESS, address)]


def _click(random: Random, number: int) -> list[Any]:
    return [
        _ADDRESSES[_below(random, len(_ADDRESSES))],
        1 + _below(random, 40),
        "-",
        str(number * 10 + 1),
        number * 10 + 1,
        _REQUESTS[_below(random, len(_REQUESTS))],
        _STATUSES[_below(random, len(_STATUSES))],
        _BYTES[_below(random, len(_BYTES))],
        "-",
        _AGENTS[_below(random, len(_AGENTS))],
    ]


_IN_PYTHON = {
    "users": Quickstart("userid", RowGenerator(_USERS, _user)),
    "orders": Quickstart("orderid", RowGenerator(_ORDERS, _order)),
    "clickstream": Quickstart("ip", RowGenerator(_CLICKSTREAM, _click)),
}
QUICKSTARTS = (*_IN_PYTHON, *SCHEMAS)
"""The names of the quickstarts."""


@cache
def quickstart_named(name: str) -> Quickstart:
    """Returns the quickstart of that name, one of ``QUICKSTARTS``."""
    if name in _IN_PYTHON:
        return _IN_PYTHON[name]
    key_field, schema = SCHEMAS[name]
    return Quickstart(key_field, compile_generator(orjson.dumps(schema).decode()))
