"""Bodies of ``GET /connectors?expand=...``.

Monitoring asks for the statuses of all connectors every few seconds. So the JSON of each status is kept until the status changes,
and a body is put together from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from connect.errors import NotFoundError
from rest.responses import connector_info_json, connector_status_json, json_bytes
from rest.security.access import access_of
from rest.security.masking import shown_info
from worker.herder import ConnectorReader
from worker.model import ConnectorStatus

_STATUS, _INFO = "status", "info"


@dataclass(frozen=True, slots=True)
class _StatusJson:
    status: ConnectorStatus
    json: bytes
    member: bytes
    """The member of the body if it has statuses only."""


class ExpandedConnectors:
    """Connectors with their status, configuration, or both. Safe for use from any thread; may block for plugins."""

    def __init__(self, herder: ConnectorReader) -> None:
        self._herder = herder
        # Without a lock: a status is compared with the one that its JSON is of.
        self._known: dict[str, _StatusJson] = {}

    def body(self, request: Request, kinds: Sequence[str]) -> bytes:
        """Returns the connectors that the caller may view, with members of these kinds in this order. Other kinds are ignored,
        as are connectors that are deleted in the meantime."""
        connectors = self._herder.connectors()
        names = access_of(request).visible(connectors)
        wanted = [kind for kind in dict.fromkeys(kinds) if kind in (_STATUS, _INFO)]
        statuses = self._statuses(connectors, names) if _STATUS in wanted else ()
        if wanted == [_STATUS]:
            return b"{%b}" % b",".join([one.member for one in statuses])
        found: dict[str, Mapping[str, bytes]] = {_STATUS: {one.status.name: one.json for one in statuses}}
        if _INFO in wanted:
            found[_INFO] = self._infos(names, request)
        parts = {kind: found[kind] for kind in wanted}
        members = [_member(name, {kind: jsons[name] for kind, jsons in parts.items()}) for name in names if _in_all(name, parts)]
        return b"{%b}" % b",".join(members)

    def _statuses(self, connectors: Sequence[str], names: Sequence[str]) -> list[_StatusJson]:
        known = self._known
        if len(known) > len(connectors):
            remaining = frozenset(connectors)
            for name in [name for name in list(known) if name not in remaining]:
                known.pop(name, None)
        found = []
        for status in self._herder.connector_statuses(names):
            one = known.get(status.name)
            if one is None or (one.status is not status and one.status != status):
                text = json_bytes(connector_status_json(status))
                one = known[status.name] = _StatusJson(status, text, _member(status.name, {_STATUS: text}))
            found.append(one)
        return found

    def _infos(self, names: Sequence[str], request: Request) -> Mapping[str, bytes]:
        found = {}
        for name in names:
            try:
                info = self._herder.connector_info(name)
            except NotFoundError:
                continue
            found[name] = json_bytes(connector_info_json(shown_info(info, request)))
        return found


def _member(name: str, parts: Mapping[str, bytes]) -> bytes:
    inner = b",".join([b'"%b":%b' % (kind.encode(), text) for kind, text in parts.items()])
    return b"%b:{%b}" % (json_bytes(name), inner)


def _in_all(name: str, parts: Mapping[str, Mapping[str, bytes]]) -> bool:
    return all(name in jsons for jsons in parts.values())
