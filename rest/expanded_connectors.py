"""Bodies of ``GET /connectors?expand=...``.

Monitoring asks for the statuses of all connectors every few seconds. So the JSON of each status and configuration is kept until
it changes, and a body is put together from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from starlette.requests import Request

from connect.errors import NotFoundError
from rest.responses import connector_info_json, connector_status_json, json_bytes
from rest.security.access import Access, access_of
from rest.security.masking import shown_info
from worker.herder import ConnectorReader
from worker.model import ConnectorInfo, ConnectorStatus

_STATUS, _INFO = "status", "info"

S = TypeVar("S", ConnectorStatus, ConnectorInfo)


@dataclass(frozen=True, slots=True)
class _Part(Generic[S]):
    """The status or configuration of a connector, and its JSON."""

    source: S
    start: bytes
    """The beginning of the connector's member."""
    text: bytes = field(repr=False)
    """The part itself, with its name."""
    member: bytes = field(repr=False)
    """The whole member, if the body has parts of this kind only."""


class ExpandedConnectors:
    """Connectors with their status, configuration, or both. Safe for use from any thread; may block for plugins."""

    def __init__(self, herder: ConnectorReader) -> None:
        self._herder = herder
        # Without locks: a part is compared with the one that its JSON is of.
        self._known_statuses: dict[str, _Part[ConnectorStatus]] = {}
        self._known_infos: dict[str, _Part[ConnectorInfo]] = {}

    def body(self, request: Request, kinds: Sequence[str]) -> bytes:
        """Returns the connectors that the caller may view, with members of these kinds in this order. Other kinds are ignored,
        as are connectors that are deleted in the meantime."""
        connectors, access = self._herder.connectors(), access_of(request)
        names = access.visible(connectors)
        for known in (self._known_statuses, self._known_infos):
            _forget_deleted(known, connectors)
        wanted = [kind for kind in dict.fromkeys(kinds) if kind in (_STATUS, _INFO)]
        found = [self._statuses(names) if kind == _STATUS else self._infos(names, request, access) for kind in wanted]
        match found:
            case []:
                members = [b"%b:{}" % json_bytes(name) for name in names]
            case [parts]:
                members = [one.member for one in parts]
            case [first, second]:
                others = {one.source.name: one.text for one in second}
                members = [
                    b"%b%b,%b}" % (one.start, one.text, others[one.source.name]) for one in first if one.source.name in others
                ]
        return b"{%b}" % b",".join(members)

    def _statuses(self, names: Sequence[str]) -> list[_Part[ConnectorStatus]]:
        known, found = self._known_statuses, []
        for status in self._herder.connector_statuses(names):
            one = known.get(status.name)
            if one is None or (one.source is not status and one.source != status):
                one = known[status.name] = _part(_STATUS, status, connector_status_json(status))
            found.append(one)
        return found

    def _infos(self, names: Sequence[str], request: Request, access: Access) -> list[_Part[ConnectorInfo]]:
        known, found = self._known_infos, []
        sees_all = access.sees_all_secrets()
        for name in names:
            try:
                info = self._herder.connector_info(name)
            except NotFoundError:
                continue
            if not sees_all and not access.sees_secrets(name):
                # Not kept: which values are hidden depends on the caller, and on the plugins that are known.
                shown = shown_info(info, request)
                found.append(_part(_INFO, shown, connector_info_json(shown)))
                continue
            one = known.get(name)
            if one is None or not _is_same(one.source, info):
                one = known[name] = _part(_INFO, info, connector_info_json(info))
            found.append(one)
        return found


def _part(kind: str, source: S, content: Mapping[str, Any]) -> _Part[S]:
    start, text = b"%b:{" % json_bytes(source.name), b'"%b":%b' % (kind.encode(), json_bytes(content))
    return _Part(source, start, text, b"%b%b}" % (start, text))


def _is_same(known: ConnectorInfo, info: ConnectorInfo) -> bool:
    # The order of the keys is shown too.
    return known == info and list(known.config) == list(info.config)


def _forget_deleted(known: dict[str, Any], connectors: Sequence[str]) -> None:
    if len(known) > len(connectors):
        remaining = frozenset(connectors)
        for name in [name for name in list(known) if name not in remaining]:
            known.pop(name, None)
