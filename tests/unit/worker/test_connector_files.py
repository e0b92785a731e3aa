"""A directory of connector files as desired state, over a herder that notes what it is told."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from connect.errors import BadRequestError, NotFoundError
from worker.model import ConnectorFileState, Origin, TargetState
from worker.operations.connectors_dir.plan import Step, Wanted, plan
from worker.operations.connectors_dir.sync import ConnectorDirectory
from worker.operations.connectors_dir.target import FilesTarget
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
    """A directory that is looked at by hand. Files are old, unless it is said otherwise."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.target = Target()
        self.now_s = 0.0
        self.directory = ConnectorDirectory(folder, self.target, lambda: self.now_s, lambda: NOW)

    def write(self, file: str, text: str, *, age_s: float = 10.0) -> None:
        path = self.folder / file
        path.write_text(text)
        os.utime(path, (NOW - age_s, NOW - age_s))

    def look(self) -> list[tuple[object, ...]]:
        """What was done in one look."""
        self.target.done.clear()
        self.directory.look()
        return list(self.target.done)

    def states(self) -> list[tuple[str, str | None, str]]:
        return [(file.file, file.connector, file.state) for file in self.directory.files()]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_connectors_are_created_changed_and_deleted_as_files_are(scene: Scene) -> None:
    scene.write("a.properties", "name=a\nx=1\n")
    scene.write("b.json", json.dumps({"name": "b", "config": {"x": 2}, "initial_state": "stopped"}))
    scene.write("notes.txt", "name=c\n")
    scene.write(".hidden.properties", "name=d\n")
    assert scene.look() == [("put", "a", None), ("put", "b", TargetState.STOPPED)]
    assert scene.target.there == {"a": {"name": "a", "x": "1"}, "b": {"name": "b", "x": "2"}}
    assert scene.states() == [("a.properties", "a", "applied"), ("b.json", "b", "applied")]
    assert scene.look() == []
    scene.write("a.properties", "name=a\nx=3\n", age_s=5)
    assert scene.look() == [("put", "a", None)]
    (scene.folder / "b.json").unlink()
    assert scene.look() == [("delete", "b")]
    (scene.folder / "a.properties").unlink()
    assert scene.look() == [("delete", "a")]
    assert scene.look() == []


def test_a_file_that_has_just_changed_is_left_for_the_next_look(scene: Scene) -> None:
    scene.write("a.properties", "name=a\n", age_s=0.1)
    assert scene.look() == []
    assert scene.states() == [("a.properties", None, "pending")]
    scene.write("a.properties", "name=a\nx=1\n", age_s=0)
    assert scene.look() == []
    assert scene.look() == [("put", "a", None)]


def test_a_file_that_cannot_be_read_changes_nothing_and_is_told_of_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.write("a.json", '{"name": "a", "x": "1"}')
    scene.write("b.json", '{"name": "b"}')
    scene.look()
    scene.write("a.json", '{"name": "a", "x', age_s=5)
    (scene.folder / "b.json").unlink()
    # The file is known to be about a: b is nobody's any more.
    assert scene.look() == [("delete", "b")]
    assert scene.look() == []
    (file,) = scene.directory.files()
    assert (file.connector, file.state) == ("a", "invalid")
    assert file.error is not None
    assert "not JSON" in file.error
    assert len([r for r in caplog.records if "a.json is left as it is until it can be read" in r.getMessage()]) == 1
    scene.write("a.json", '{"name": "a", "x": "2"}', age_s=4)
    assert scene.look() == [("put", "a", None)]


def test_nothing_is_deleted_while_it_is_unknown_what_a_file_is_about(scene: Scene) -> None:
    scene.target.there["a"] = {"name": "a"}
    scene.target.files.add("a")
    scene.write("a.json", "{")
    scene.write("b.json", '{"name": "b"}')
    assert scene.look() == [("put", "b", None)]
    (scene.folder / "a.json").unlink()
    assert scene.look() == [("delete", "a")]


def test_a_link_that_leads_nowhere_for_a_while_deletes_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    there, away = scene.folder / "mounted", scene.folder / "unmounted"
    there.mkdir()
    scene.write("mounted/a.json", '{"name": "a", "x": "1"}')
    (scene.folder / "a.json").symlink_to(there / "a.json")
    assert scene.look() == [("put", "a", None)]
    there.rename(away)
    assert scene.look() == []
    assert scene.look() == []
    (file,) = scene.directory.files()
    assert (file.connector, file.state, file.error) == ("a", "invalid", "it is a link to nothing")
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "connectors.dir: a.json is left as it is until it can be read: it is a link to nothing"
    ]
    away.rename(there)
    assert scene.look() == []
    assert scene.states() == [("a.json", "a", "applied")]
    (scene.folder / "a.json").unlink()
    assert scene.look() == [("delete", "a")]


def test_two_files_of_one_name_are_both_refused_and_told_of_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.write("a.json", '{"name": "a", "x": "1"}')
    scene.look()
    scene.write("b.json", '{"name": "a", "x": "2"}')
    assert scene.look() == []
    assert scene.look() == []
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "connectors.dir: Connector a is described by several files: a.json, b.json. It is left as it is until one of them is gone"
    ]
    for file in scene.directory.files():
        assert file.state == "invalid"
        assert file.error is not None
        assert "described by several files: a.json, b.json" in file.error
    (scene.folder / "a.json").unlink()
    assert scene.look() == [("put", "a", None)]
    assert scene.target.there["a"]["x"] == "2"


def test_a_connector_that_no_file_made_is_left_alone_until_a_file_names_it(scene: Scene) -> None:
    scene.target.there = {"rest": {"name": "rest"}, "other": {"name": "other"}}
    scene.write("a.properties", "name=a\n")
    assert scene.look() == [("put", "a", None)]
    scene.write("rest.properties", "name=rest\n")
    assert scene.look() == [("adopt", "rest")]
    (scene.folder / "rest.properties").unlink()
    assert scene.look() == [("delete", "rest")]
    assert "other" in scene.target.there


def test_a_connector_that_was_changed_elsewhere_is_put_back(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene.write("a.properties", "name=a\nx=1\n")
    scene.look()
    scene.target.there["a"] = {"name": "a", "x": "9"}
    assert scene.look() == [("put", "a", None)]
    assert "connector a, which was changed elsewhere, is again as its file says (a.properties)" in caplog.text
    del scene.target.there["a"]
    assert scene.look() == [("put", "a", None)]


def test_what_the_worker_makes_of_a_file_is_no_difference(scene: Scene) -> None:
    scene.target.adds = {"added": "by the worker"}
    scene.write("a.properties", "name=a\n")
    assert scene.look() == [("put", "a", None)]
    assert scene.look() == []


def test_what_is_refused_is_told_of_once_and_tried_again_ever_more_seldom(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.target.refusal = "no class"
    scene.write("a.properties", "name=a\n")
    assert scene.look() == [("put", "a", None)]
    assert scene.directory.files() == [ConnectorFileState("a.properties", "a", "failed", "no class")]
    tries = []
    for second in range(1, 40):
        scene.now_s = float(second)
        if scene.look():
            tries.append(second)
    assert tries == [2, 6, 14, 30]
    assert len([r for r in caplog.records if r.levelno == logging.ERROR]) == 1
    scene.write("a.properties", "name=a\nx=1\n", age_s=5)
    assert scene.look() == [("put", "a", None)]
    scene.target.refusal = None
    scene.now_s = 1000
    scene.look()
    assert scene.states() == [("a.properties", "a", "applied")]


def test_only_the_leader_applies_its_files(scene: Scene) -> None:
    scene.target.leads = False
    scene.write("a.properties", "name=a\n")
    assert scene.look() == []
    assert scene.states() == [("a.properties", "a", "waiting")]
    scene.target.leads = True
    assert scene.look() == [("put", "a", None)]


def test_a_directory_that_is_gone_deletes_nothing(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.write("a.properties", "name=a\n")
    scene.look()
    away = scene.folder.with_name("away")
    scene.folder.rename(away)
    assert scene.look() == []
    assert scene.look() == []
    assert scene.directory.files()[0].state == "invalid"
    # An empty one in its place is what an unmount leaves.
    scene.folder.mkdir()
    assert scene.look() == []
    assert "is empty, and was not when it was seen last" in caplog.text
    scene.folder.rmdir()
    away.rename(scene.folder)
    assert scene.look() == []
    (scene.folder / "a.properties").unlink()
    assert scene.look() == [("delete", "a")]


def test_an_empty_directory_at_the_start_deletes_nothing(scene: Scene) -> None:
    scene.target.there["a"] = {"name": "a"}
    scene.target.files.add("a")
    assert scene.look() == []


def test_deletions_come_first() -> None:
    wanted = [Wanted("n", "new", {"name": "new"}, None, "1")]
    steps = plan(wanted, {"old": {}}, {"old", "gone"}, claimed=(), may_delete=True)
    assert [(one.step, one.name) for one in steps] == [(Step.DELETE, "old"), (Step.CREATE, "new")]


def test_the_thread_looks_and_ends_when_it_is_closed(scene: Scene) -> None:
    scene.write("a.properties", "name=a\n")
    scene.directory.start()
    assert scene.target.has_put.wait(10)
    scene.directory.close()
    assert "connectors-dir" not in [thread.name for thread in threading.enumerate()]


def test_a_herder_is_told_where_changes_come_from() -> None:
    told: list[tuple[object, ...]] = []
    history = MemoryHistory(5)
    target = FilesTarget(
        lambda *put: told.append(put), lambda *gone: told.append(gone), lambda: {"a": {}}, history, lambda: False
    )
    target.put("a", {"x": "1"}, TargetState.PAUSED)
    target.delete("b")
    target.adopt("c", {"name": "c"})
    assert told == [(Origin.DIRECTORY, "a", {"x": "1"}, TargetState.PAUSED), (Origin.DIRECTORY, "b")]
    assert (target.managed(), target.configs(), target.applies_files()) == ({"c"}, {"a": {}}, False)
