"""``sluice docs``: reference pages, generated from the components' ConfigDefs."""

from __future__ import annotations

from pathlib import Path

import click

from sluice.cli.output import emit, notice, print_json, schema_option


@click.command()
@click.argument("component", required=False)
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write the pages of all of Sluice's components into DIR; remove generated pages of components that no longer exist.",
)
@schema_option
def docs(component: str | None, folder: Path | None, output: str) -> None:
    """Show every key of COMPONENT: type, default, valid values, documentation. Without COMPONENT, list all components.

    COMPONENT is 'worker', a name in the list, or any name that a configuration may use: an alias, a Java class, or a Python
    path such as package.module:Class.
    """
    from connect.plugins import Plugins
    from sluice.reference import pages

    plugins = Plugins.discover()
    if folder is not None:
        if component is not None:
            raise click.UsageError("--write takes no COMPONENT: it writes all pages")
        _write(folder, pages.pages(plugins), output)
    elif component is not None:
        found = pages.find_component(component, plugins)
        if output == "json":
            print_json(pages.as_json(found))
        elif output == "json-schema":
            from sluice.reference.json_schema import json_schema

            print_json(json_schema(found))
        else:
            click.echo(pages.page(found, markdown=False), nl=False)
    elif output == "json-schema":
        raise click.UsageError("-o json-schema needs a COMPONENT")
    else:
        known = pages.components(plugins, distribution=None)
        rows = [[one.name, one.kind, ", ".join(one.names)] for one in known]
        value = [{"name": one.name, "kind": one.kind, "names": list(one.names)} for one in known]
        emit(output, value, ["name", "kind", "names"], rows)


def _write(folder: Path, pages: dict[str, str], output: str) -> None:
    from connect.errors import ConnectError
    from sluice.reference.pages import MARK

    try:
        folder.mkdir(parents=True, exist_ok=True)
        gone = [one for one in sorted(folder.glob("*.md")) if one.name not in pages and MARK in one.read_text("utf-8")]
        for one in gone:
            one.unlink()
        for name, text in pages.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as e:
        raise ConnectError(f"cannot write pages into {folder}: {e.strerror or e}") from e
    if output == "json":
        print_json({"folder": str(folder), "written": sorted(pages), "removed": [one.name for one in gone]})
    else:
        notice(f"{len(pages)} pages written into {folder}" + (f", {len(gone)} removed" if gone else ""))
