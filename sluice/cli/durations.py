"""Durations on the command line: ``30s``, ``5m``, ``1h``, ``1d``."""

from __future__ import annotations

import re

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration_s(text: str) -> float | None:
    """Returns a duration in seconds; None for a text that is none."""
    found = _DURATION.fullmatch(text.strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2]]


def duration_option(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The callback of an option that takes a duration, or seconds as a number alone. The command gets seconds."""
    if value is None:
        return None
    seconds = parse_duration_s(value if value[-1:].isalpha() else f"{value}s")
    if not seconds:
        raise click.BadParameter(f"'{value}' is not a positive duration, such as 30s, 5m, or 1d", ctx, parameter)
    return seconds
