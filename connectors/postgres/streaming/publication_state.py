"""What identifies a publication and what it names, to notice later that somebody has changed it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from connectors.postgres.connection import Connection

_OPTIONS = (
    "select p.oid, p.puballtables, p.pubviaroot, p.pubinsert, p.pubupdate, p.pubdelete from pg_publication p where pubname = $1"
)
_TABLES = "select r.prrelid, r.oid, {form} from pg_publication_rel r where r.prpubid = $1::oid"
_FORM = """case when r.prqual is not null or r.prattrs is not null
then left(md5(concat(r.prqual::text, '/', r.prattrs::text)), 8) end"""
_SCHEMAS = "select pnnspid, oid from pg_publication_namespace where pnpubid = $1::oid"
_OPERATIONS = ("insert", "update", "delete")
_MOST_STORED = 500
_TEXT = re.compile(r"(\d+) (a?)(r?)(i?)(u?)(d?) ([\d=.,a-f]*|\*) ([\d=,]*) (.*)", re.S)


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table that a publication names. ``entry`` is the OID of that statement: it changes if the table is removed and added.

    ``form`` changes with the row filter and the column list; it is empty without them.
    """

    entry: int
    form: str


@dataclass(frozen=True, slots=True)
class PublicationState:
    """A publication. ``tables`` are those that it names, by OID, None if unknown; ``schemas`` has OIDs of schemas and of their
    entries."""

    name: str
    oid: int
    all_tables: bool
    via_root: bool
    operations: tuple[str, ...]
    tables: Mapping[int, ListedTable] | None
    schemas: Mapping[int, int]

    def as_text(self) -> str:
        """The state in an offset. More than 500 tables are left out, to keep offsets small."""
        options = "".join(["a" * self.all_tables, "r" * self.via_root, *(name[0] for name in self.operations)])
        tables = "*"
        if self.tables is not None and len(self.tables) <= _MOST_STORED:
            tables = ",".join(f"{oid}={listed.entry}.{listed.form}" for oid, listed in sorted(self.tables.items()))
        schemas = ",".join(f"{oid}={entry}" for oid, entry in sorted(self.schemas.items()))
        return f"{self.oid} {options} {tables} {schemas} {self.name}"


def parse_state(text: str | None) -> PublicationState | None:
    """Parses the text of an offset; None if there is none, or a later release has written it."""
    found = _TEXT.fullmatch(text or "")
    if found is None:
        return None
    oid, all_tables, via_root, *letters, tables, schemas, publication = found.groups()
    listed: dict[int, ListedTable] | None = None
    if tables != "*":
        listed = {}
        for table, entry in _pairs(tables):
            number, _, form = entry.partition(".")
            listed[table] = ListedTable(int(number), form)
    operations = tuple(name for name, letter in zip(_OPERATIONS, letters, strict=True) if letter)
    entries = {schema: int(entry) for schema, entry in _pairs(schemas)}
    return PublicationState(publication, int(oid), bool(all_tables), bool(via_root), operations, listed, entries)


def _pairs(text: str) -> list[tuple[int, str]]:
    parts = [part.partition("=") for part in text.split(",") if part]
    return [(int(name), value) for name, _, value in parts]


def read_state(connection: Connection, name: str) -> PublicationState | None:
    """Reads a publication; None if it does not exist. No lock of another session delays it."""
    rows = connection.query(_OPTIONS, [name])
    if not rows:
        return None
    oid, all_tables, via_root, *published = rows[0]
    operations = tuple(o for o, flag in zip(_OPERATIONS, published, strict=True) if flag == "t")
    state = PublicationState(name, int(oid or 0), all_tables == "t", via_root == "t", operations, {}, {})
    if state.all_tables:
        return state
    has_lists = connection.server_version >= 150000
    tables = connection.query(_TABLES.format(form=_FORM if has_lists else "null"), [oid])
    schemas = connection.query(_SCHEMAS, [oid]) if has_lists else []
    return replace(
        state,
        tables={int(table or 0): ListedTable(int(entry or 0), form or "") for table, entry, form in tables},
        schemas={int(schema or 0): int(entry or 0) for schema, entry in schemas},
    )
