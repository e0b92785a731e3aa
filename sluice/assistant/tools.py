"""The tools of the server. Their docstrings are what an assistant reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from connect.config.finding import Severity
from connect.plugins import Plugins
from rest.client import ConnectClient
from sluice.assistant.commands import CommandRunner
from sluice.assistant.errors import ToolInputError
from sluice.assistant.masking import OutputMask
from sluice.online.connectors import connector_row, describe_connector, require_sluice, select
from sluice.online.diagnosis import read_diagnosis
from sluice.online.plan import make_plan
from sluice.reference import pages
from sluice.verify.pairs import CONNECTOR_FILES
from worker.lint import check_files

_VERIFY_LIMIT_S = 3600.0
"""However long ``timeout`` is."""


class ReadTools:
    """Tools that change nothing. Each call opens its own connection; safe from any thread."""

    def __init__(
        self,
        connect: Callable[[], ConnectClient],
        runner: CommandRunner,
        mask: OutputMask,
        root: Path,
        plugins: Plugins,
    ) -> None:
        """``root`` is the folder below which tools may read files; ``plugins`` are those of this installation."""
        self._connect = connect
        self._plugins = plugins
        self._runner = runner
        self._mask = mask
        self._root = root.resolve()

    def list_connectors(self, pattern: str = "*", only_failed: bool = False) -> dict[str, Any]:
        """List connectors of the Kafka Connect cluster with state, tasks, and failed tasks, failures first. pattern: shop-*."""
        with self._connect() as client:
            expanded = client.connectors_expanded("status", "info")
        names = select(list(expanded), [pattern]) if expanded else []
        rows = [connector_row(name, expanded[name]) for name in names]
        rows = [row for row in rows if row["failed"] or not only_failed]
        return {"connectors": sorted(rows, key=lambda row: (not row["failed"], row["name"]))}

    def describe(self, name: str) -> dict[str, Any]:
        """Show state, tasks, error traces, config (secrets hidden), topics, and offsets of one connector."""
        with self._connect() as client:
            return describe_connector(client, name)

    def diagnose(self, name: str = "") -> dict[str, Any]:
        """Say what is wrong with one connector, or with all, since when, the likely cause, and the command that fixes it.

        Start here when something does not work: it also finds connectors that are RUNNING and do not move.
        """
        with self._connect() as client:
            return read_diagnosis(client, name or None).as_json()

    def plugins(self) -> dict[str, Any]:
        """List the connectors, transformations, predicates, and converters that the worker has."""
        with self._connect() as client:
            return {"plugins": client.plugins(connectors_only=False)}

    def config_history(self, name: str) -> dict[str, Any]:
        """List the earlier configurations of a connector and what changed. Only workers of Sluice keep them."""
        with self._connect() as client:
            return {"versions": require_sluice(client, lambda: client.history(name), "keeps no history")}

    def lint(self, files: list[str], strict: bool = False) -> dict[str, Any]:
        """Check worker and connector files (.properties, .json, .yaml) or folders offline; findings have file, line, and a fix.

        strict makes unknown keys errors.
        """
        paths = self.paths(files)
        self._mask.learn_files(None, paths)
        report = check_files(paths, strict=strict)
        counts = {f"{severity.value}s": report.count(severity) for severity in Severity}
        return {"files": list(report.files), **counts, "findings": [one.as_json() for one in report.findings]}

    def preview(self, file: str, records: list[Any], stages: bool = True) -> dict[str, Any]:
        """Run records through the transformations and converters of a connector file, offline, stage by stage.

        records: JSON values, either plain record values or whole records {"topic", "key", "value", "headers"}.
        """
        (path,) = self.paths([file])
        self._mask.learn_files(None, [path])
        lines = "\n".join(json.dumps(one) for one in records)
        options = ["--records", "-", *(["--stages"] if stages else [])]
        return self._runner.json(["preview", *options, "--", str(path)], stdin=lines)

    def plan(self, files: list[str], prune: bool = False) -> dict[str, Any]:
        """Show what applying connector files would change in the cluster; the worker validates the values. Changes nothing."""
        paths = self.paths(files)
        with self._connect() as client:
            self._mask.learn_files(client, paths)
            return make_plan(client, paths, prune=prune).as_json()

    def reference(self, component: str = "") -> dict[str, Any]:
        """Show every key of a component (type, default, documentation). component: worker, an alias such as JdbcSink, or a class
        name. Without it, list all components."""
        if component:
            return pages.as_json(pages.find_component(component, self._plugins))
        return {"components": component_names(self._plugins)}

    def paths(self, files: Sequence[str]) -> list[Path]:
        """Returns paths below the root. Raises ToolInputError for others."""
        if not files:
            raise ToolInputError("Give at least one file")
        found = []
        for one in files:
            path = (self._root / one).resolve()
            if not path.is_relative_to(self._root):
                raise ToolInputError(f"{one} is outside of {self._root}, the folder of this server (sluice mcp --root)")
            if not path.exists():
                raise ToolInputError(f"{one} does not exist below {self._root}")
            found.append(path)
        return found


class CommandTools:
    """Tools over commands that this installation may or may not have."""

    def __init__(self, runner: CommandRunner, read: ReadTools) -> None:
        self._runner = runner
        self._read = read

    def verify(
        self,
        connector: str = "",
        source: str = "",
        sink: str = "",
        tables: str = "",
        ignore_columns: str = "",
        sample: int = 0,
        timeout: str = "10m",
    ) -> dict[str, Any]:
        """Compare the tables of a sink with the database of its source. Changes no data.

        connector: a sink, or a source with all of its sinks; or give source and sink. Each is a name, or a file (.properties,
        .json, .yaml). tables: regular expressions of source tables (schema.table), separated by commas. sample: compare only so
        many random rows of each table.
        """
        options = {
            "source": self._connector(source),
            "sink": self._connector(sink),
            "tables": tables,
            "ignore-columns": ignore_columns,
            "sample": str(sample) if sample else "",
            "timeout": timeout,
        }
        # One word per option, and the connector after the end of options: no text from outside becomes another option.
        words = [f"--{name}={value}" for name, value in options.items() if value]
        named = ["--", self._connector(connector)] if connector else []
        return self._runner.json(["verify", *words, *named], timeout_s=_VERIFY_LIMIT_S)

    def _connector(self, given: str) -> str:
        """Returns a name, or the path of a file below the root. Raises ToolInputError for other files."""
        return str(self._read.paths([given])[0]) if given.endswith(CONNECTOR_FILES) else given

    def logs(self, name: str) -> dict[str, Any]:
        """Show recent log lines of a connector."""
        return self._runner.json(["logs", "--", name])


class ChangeTools:
    """Tools that change the cluster."""

    def __init__(self, connect: Callable[[], ConnectClient], runner: CommandRunner, read: ReadTools) -> None:
        self._connect = connect
        self._runner = runner
        self._read = read

    def apply(self, files: list[str], wait: bool = True) -> dict[str, Any]:
        """Create and update the connectors of files; with wait, until they run or fail. Call plan first."""
        paths = [str(path) for path in self._read.paths(files)]
        return self._runner.json(["apply", *(["--wait"] if wait else []), "--", *paths])

    def restart(self, name: str, only_failed: bool = False) -> dict[str, Any]:
        """Restart a connector with its tasks, or only what has FAILED."""
        return self._change(name, "will restart", lambda c: c.restart(name, include_tasks=True, only_failed=only_failed))

    def restart_task(self, name: str, task: int) -> dict[str, Any]:
        """Restart one task of a connector."""
        return self._change(name, f"task {task} will restart", lambda client: client.restart_task(name, task))

    def pause(self, name: str) -> dict[str, Any]:
        """Pause a connector: its tasks stay and wait."""
        return self._change(name, "will pause", lambda client: client.pause(name))

    def resume(self, name: str) -> dict[str, Any]:
        """Resume a connector that is paused or stopped."""
        return self._change(name, "will resume", lambda client: client.resume(name))

    def stop(self, name: str) -> dict[str, Any]:
        """Stop a connector: its tasks end. Its offsets can be changed then."""
        return self._change(name, "will stop", lambda client: client.stop(name))

    def set_offsets(self, name: str, offsets: list[dict[str, Any]], dry_run: bool = True) -> dict[str, Any]:
        """Set offsets: [{"partition": {...}, "offset": {...} or null}] as describe shows them. dry_run only shows the change.

        The connector is stopped for the change and resumed. undo_offsets restores the offsets from before.
        """
        words = ["offsets", "set", *self._options(dry_run), "--", name, "-"]
        return self._runner.json(words, stdin=json.dumps(offsets))

    def reset_offsets(self, name: str, dry_run: bool = True) -> dict[str, Any]:
        """Remove all offsets of a connector, so that it starts over. dry_run only shows the change.

        undo_offsets restores them.
        """
        return self._runner.json(["offsets", "reset", *self._options(dry_run), "--", name])

    def undo_offsets(self, name: str, dry_run: bool = True) -> dict[str, Any]:
        """Restore the offsets before the last change that was made from this machine. dry_run only shows the change."""
        return self._runner.json(["offsets", "undo", *self._options(dry_run), "--", name])

    def _options(self, dry_run: bool) -> list[str]:
        return ["--stop", *(["--dry-run"] if dry_run else [])]

    def _change(self, name: str, done: str, change: Callable[[ConnectClient], Any]) -> dict[str, Any]:
        with self._connect() as client:
            change(client)
        return {"name": name, "result": done, "next": "call describe or diagnose to see the effect"}


def component_names(plugins: Plugins) -> list[str]:
    """Returns a name of each worker and plugin, without importing any."""
    names = {desc.aliases[0] if desc.aliases else desc.class_name for desc in plugins.all()}
    return [pages.WORKER, pages.DISTRIBUTED_WORKER, *sorted(names)]
