"""The connectors follow the files of ``connectors.dir``; doubtful cases change nothing."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from connect.errors import BadRequestError, NotFoundError
from tests.support.waiting import WAIT_S
from worker.model import ConnectorFileState, Origin, TargetState
from worker.operations.connectors_dir.plan import DesiredConnector, Step, plan
from worker.operations.connectors_dir.sync import ConnectorDirectory, HerderTarget
from worker.operations.history.memory import MemoryHistory

Config = Mapping[str, str | None]
NOW = 1_700_000_000.0


class Target:
    def __init__(self) -> None:
        self.there: dict[str, dict[str, str | None]] = {}
        self.files: set[str] = set()
        self.done: list[tuple[object, ...]] = []
        self.leads = True
        self.refusal: str | None = None
        self.adds: dict[str, str] = {}
        self.has_put = threading.Event()

    def applies_files(self) -> bool:
        return self.leads

    def configs(self) -> Mapping[str, Config]:
        return self.there

    def managed(self) -> Collection[str]:
        return self.files

    def put(self, name: str, config: Config, target_state: TargetState | None) -> None:
        self.done.append(("put", name, target_state))
        if self.refusal is not None:
            raise BadRequestError(self.refusal)
        self.there[name] = {**config, **self.adds}
        self.files.add(name)
        self.has_put.set()

    def adopt(self, name: str, config: Config) -> None:
        self.done.append(("adopt", name))
        self.files.add(name)

    def delete(self, name: str) -> None:
        self.done.append(("delete", name))
        if name not in self.there:
            raise NotFoundError(name)
        del self.there[name]
        self.files.discard(name)


class Scene:
    """A directory that is scanned on request. Files are old by default."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = Target()
        self.now_s = 0.0
        self.directory = ConnectorDirectory(folder, self.target, lambda: self.now_s, lambda: NOW)

    def write(self, file: str, text: str, *, age_s: float = 10.0) -> None:
        path = self.folder / file
        path.write_text(text)
        os.utime(path, (NOW - age_s, NOW - age_s))

    def sync(self) -> list[tuple[object, ...]]:
        """Returns what one scan did."""
        self.target.done.clear()
        self.directory.sync()
        return list(self.target.done)

    def states(self) -> list[tuple[str, str | None, str]]:
        return [(file.file, file.connector, file.state) for file in self.directory.files()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_connectors_are_created_changed_and_deleted_with_their_files(scene: Scene) -> None:
    scene.write("a.properties", "name=a\nx=1\n")
    scene.write("b.json", json.dumps({"name": "b", "config": {"x": 2}, "initial_state": "stopped"}))
    scene.write("notes.txt", "name=c\n")
    scene.write(".hidden.properties", "name=d\n")
    assert scene.sync() == [("put", "a", None), ("put", "b", TargetState.STOPPED)]
    assert scene.target.there == {"a": {"name": "a", "x": "1"}, "b": {"name": "b", "x": "2"}}
    assert scene.states() == [("a.properties", "a", "applied"), ("b.json", "b", "applied")]
    assert scene.sync() == []
    scene.write("a.properties", "name=a\nx=3\n", age_s=5)
    assert scene.sync() == [("put", "a", None)]
    (scene.folder / "b.json").unlink()
    assert scene.sync() == [("delete", "b")]
    (scene.folder / "a.properties").unlink()
    assert scene.sync() == [("delete", "a")]
    assert scene.sync() == []


class ConfigMapVolume:
    """Writes a directory as Kubernetes does for a ConfigMap: links to ``..data``, which is a link to the current version."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.version = 0

    def publish(self, files: Mapping[str, str], *, clean: bool = True) -> None:
        """Replaces all files at once. Without ``clean``, the links of removed files dangle, as for a moment in a pod."""
        self.version += 1
        current = self.folder / f"..2026_11_26_10_00_00.{self.version}"
        current.mkdir()
        for name, text in files.items():
            (current / name).write_text(text)
            os.utime(current / name, (NOW - 10, NOW - 10))  # all versions are as old as each other
        (self.folder / "..data_tmp").symlink_to(current.name)
        (self.folder / "..data_tmp").rename(self.folder / "..data")
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        if clean:
            self.remove_dangling_links()

    def remove_dangling_links(self) -> None:
        for link in self.folder.iterdir():
            if link.is_symlink() and not link.exists():
                link.unlink()


def test_directory_of_a_config_map_is_followed(scene: Scene) -> None:
    volume = ConfigMapVolume(scene.folder)
    volume.publish({"a.properties": "name=a\nx=1\n", "b.json": '{"name": "b", "x": "1"}', "notes.txt": "no connector"})
    assert scene.sync() == [("put", "a", None), ("put", "b", None)]
    assert scene.states() == [("a.properties", "a", "applied"), ("b.json", "b", "applied")]
    assert scene.sync() == []
    # The same size and time: only the file behind the links is another one.
    volume.publish({"a.properties": "name=a\nx=2\n", "b.json": '{"name": "b", "x": "1"}'})
    assert scene.sync() == [("put", "a", None)]
    assert scene.target.there["a"] == {"name": "a", "x": "2"}
    volume.publish({"a.properties": "name=a\nx=2\n"}, clean=False)
    assert scene.sync() == []
    volume.remove_dangling_links()
    assert scene.sync() == [("delete", "b")]
    volume.publish({})
    assert scene.sync() == [("delete", "a")]


def test_file_that_has_just_changed_waits_for_the_next_scan(scene: Scene) -> None:
    scene.write("a.properties", "name=a\n", age_s=0.1)
    assert scene.sync() == []
    assert scene.states() == [("a.properties", None, "pending")]
    scene.write("a.properties", "name=a\nx=1\n", age_s=0)
    assert scene.sync() == []
    assert scene.sync() == [("put", "a", None)]


def test_unreadable_file_changes_nothing_and_is_logged_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.write("a.json", '{"name": "a", "x": "1"}')
    scene.write("b.json", '{"name": "b"}')
    scene.sync()
    scene.write("a.json", '{"name": "a", "x', age_s=5)
    (scene.folder / "b.json").unlink()
    # The file is known to describe a; b has no file any more.
    assert scene.sync() == [("delete", "b")]
    assert scene.sync() == []
    (file,) = scene.directory.files()
    assert (file.connector, file.state) == ("a", "invalid")
    assert file.error is not None
    assert "not JSON" in file.error
    assert len([r for r in caplog.records if "ignoring a.json until it can be read" in r.getMessage()]) == 1
    scene.write("a.json", '{"name": "a", "x": "2"}', age_s=4)
    assert scene.sync() == [("put", "a", None)]


def test_nothing_is_deleted_while_a_file_was_never_readable(scene: Scene) -> None:
    scene.target.there["a"] = {"name": "a"}
    scene.target.files.add("a")
    scene.write("a.json", "{")
    scene.write("b.json", '{"name": "b"}')
    assert scene.sync() == [("put", "b", None)]
    (scene.folder / "a.json").unlink()
    assert scene.sync() == [("delete", "a")]


def test_temporarily_dangling_link_deletes_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    there, away = scene.folder / "mounted", scene.folder / "unmounted"
    there.mkdir()
    scene.write("mounted/a.json", '{"name": "a", "x": "1"}')
    (scene.folder / "a.json").symlink_to(there / "a.json")
    assert scene.sync() == [("put", "a", None)]
    there.rename(away)
    assert scene.sync() == []
    assert scene.sync() == []
    (file,) = scene.directory.files()
    assert (file.connector, file.state, file.error) == ("a", "invalid", "it is a dangling link")
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "connectors.dir: ignoring a.json until it can be read: it is a dangling link"
    ]
    away.rename(there)
    assert scene.sync() == []
    assert scene.states() == [("a.json", "a", "applied")]
    (scene.folder / "a.json").unlink()
    assert scene.sync() == [("delete", "a")]


def test_two_files_for_one_connector_are_both_rejected_and_logged_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.write("a.json", '{"name": "a", "x": "1"}')
    scene.sync()
    scene.write("b.json", '{"name": "a", "x": "2"}')
    assert scene.sync() == []
    assert scene.sync() == []
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "connectors.dir: Connector a is described by several files: a.json, b.json. It stays unchanged until only one of them is "
        "left"
    ]
    for file in scene.directory.files():
        assert file.state == "invalid"
        assert file.error is not None
        assert "described by several files: a.json, b.json" in file.error
    (scene.folder / "a.json").unlink()
    assert scene.sync() == [("put", "a", None)]
    assert scene.target.there["a"]["x"] == "2"


def test_connector_without_a_file_is_unchanged_until_a_file_names_it(scene: Scene) -> None:
    scene.target.there = {"rest": {"name": "rest"}, "other": {"name": "other"}}
    scene.write("a.properties", "name=a\n")
    assert scene.sync() == [("put", "a", None)]
    scene.write("rest.properties", "name=rest\n")
    assert scene.sync() == [("adopt", "rest")]
    (scene.folder / "rest.properties").unlink()
    assert scene.sync() == [("delete", "rest")]
    assert "other" in scene.target.there


def test_connector_that_was_changed_elsewhere_is_restored(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene.write("a.properties", "name=a\nx=1\n")
    scene.sync()
    scene.target.there["a"] = {"name": "a", "x": "9"}
    assert scene.sync() == [("put", "a", None)]
    assert "updated connector a, which was changed elsewhere, from a.properties" in caplog.text
    del scene.target.there["a"]
    assert scene.sync() == [("put", "a", None)]


def test_keys_that_the_worker_adds_are_not_a_difference(scene: Scene) -> None:
    scene.target.adds = {"added": "by the worker"}
    scene.write("a.properties", "name=a\n")
    assert scene.sync() == [("put", "a", None)]
    assert scene.sync() == []


def test_rejected_file_is_logged_once_and_retried_with_backoff(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.target.refusal = "no class"
    scene.write("a.properties", "name=a\n")
    assert scene.sync() == [("put", "a", None)]
    assert scene.directory.files() == [ConnectorFileState("a.properties", "a", "failed", "no class")]
    tries = []
    for second in range(1, 40):
        scene.now_s = float(second)
        if scene.sync():
            tries.append(second)
    assert tries == [2, 6, 14, 30]
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1
    scene.write("a.properties", "name=a\nx=1\n", age_s=5)
    assert scene.sync() == [("put", "a", None)]
    scene.target.refusal = None
    scene.now_s = 1000
    scene.sync()
    assert scene.states() == [("a.properties", "a", "applied")]


def test_only_the_leader_applies_its_files(scene: Scene) -> None:
    scene.target.leads = False
    scene.write("a.properties", "name=a\n")
    assert scene.sync() == []
    assert scene.states() == [("a.properties", "a", "waiting")]
    scene.target.leads = True
    assert scene.sync() == [("put", "a", None)]


def test_missing_directory_deletes_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.write("a.properties", "name=a\n")
    scene.sync()
    away = scene.folder.with_name("away")
    scene.folder.rename(away)
    assert scene.sync() == []
    assert scene.sync() == []
    assert scene.directory.files()[0].state == "invalid"
    # An empty one in its place is what an unmount leaves.
    scene.folder.mkdir()
    assert scene.sync() == []
    assert "is empty, but was not before" in caplog.text
    scene.folder.rmdir()
    away.rename(scene.folder)
    assert scene.sync() == []
    (scene.folder / "a.properties").unlink()
    assert scene.sync() == [("delete", "a")]


def test_empty_directory_at_startup_deletes_nothing(scene: Scene) -> None:
    scene.target.there["a"] = {"name": "a"}
    scene.target.files.add("a")
    assert scene.sync() == []


def test_deletions_come_first() -> None:
    desired = [DesiredConnector("n", "new", {"name": "new"}, None, "1")]
    steps = plan(desired, {"old": {}}, {"old", "gone"}, claimed=(), may_delete=True)
    assert [(one.step, one.name) for one in steps] == [(Step.DELETE, "old"), (Step.CREATE, "new")]


def test_thread_scans_and_ends_when_closed(scene: Scene) -> None:
    scene.write("a.properties", "name=a\n")
    scene.directory.start()
    assert scene.target.has_put.wait(WAIT_S)
    scene.directory.close()
    assert "connectors-dir" not in [thread.name for thread in threading.enumerate()]


def test_herder_gets_the_origin_of_changes() -> None:
    calls: list[tuple[object, ...]] = []
    history = MemoryHistory(5)
    target = HerderTarget(
        lambda *put: calls.append(put), lambda *deleted: calls.append(deleted), lambda: {"a": {}}, history, lambda: False
    )
    target.put("a", {"x": "1"}, TargetState.PAUSED)
    target.delete("b")
    target.adopt("c", {"name": "c"})
    assert calls == [(Origin.DIRECTORY, "a", {"x": "1"}, TargetState.PAUSED), (Origin.DIRECTORY, "b")]
    assert (target.managed(), target.configs(), target.applies_files()) == ({"c"}, {"a": {}}, False)
