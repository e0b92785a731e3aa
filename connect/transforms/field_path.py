"""Paths to fields: plain names (syntax V1) or dotted ones with backticks around names that have dots (V2). Source: KIP-821."""

from __future__ import annotations

from connect.errors import ConfigError


def parse_field_path(path: str, version: str) -> tuple[str, ...]:
    """The names on the way. Raises ConfigError for a backtick that is not closed.

    In V2 a backtick closes only before a dot or at the end; one that should not, has a backslash before it.
    """
    if version.upper() == "V1":
        return (path,)
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted_step(path, at)
            steps.append(step)
            continue
        dot = path.find(".", at)
        if dot < 0:
            steps.append(path[at:])
            break
        steps.append(path[at:dot])
        at = dot + 1
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted_step(path: str, backtick: int) -> tuple[str, int]:
    name = ""
    start = at = backtick + 1
    while True:
        at = path.find("`", at)
        escaped = at > 0 and path[at - 1] == "\\"
        if at < 0 or (at == len(path) - 1 and escaped):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position "
                f"{backtick} to escape it"
            )
        if at == len(path) - 1:
            return name + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            name += path[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + path[start:at], at + 2
