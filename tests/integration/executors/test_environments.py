"""Connectors with conflicting packages on one worker, each in its own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from connect.errors import BadRequestError, ConfigError, PluginNotFoundError
from tests.integration.executors.conftest import StartPool
from tests.support.waiting import WAIT_S, eventually
from worker.executor import ConnectorFacts, ConnectorSpec
from worker.model import TaskId

CONNECTOR = """
import far
from connect import ConfigDef, ConfigType, SourceConnector, SourceTask

class Far(SourceConnector):
    version = far.VERSION
    def start(self, config): self.config = dict(config)
    def task_class(self): return FarTask
    def task_configs(self, max_tasks): return [{**self.config, "made.with": far.VERSION}]
    def stop(self): pass
    def config_def(self): return ConfigDef().define("of." + far.VERSION, ConfigType.STRING, "", doc="Of this version.")

class FarTask(SourceTask):
    def start(self, config): pass
    def poll(self):
        import time
        time.sleep(0.02)
    def stop(self): pass
    def progress(self):
        import sys
        return {"far": far.VERSION, "prefix": sys.prefix}
"""


def create_environment(folder: Path, version: str) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "far.py").write_text(f"VERSION = {version!r}\n")
    (packages / "far_connector.py").write_text(CONNECTOR)
    return folder


def test_two_connectors_with_conflicting_packages_run_on_one_worker(start_pool: StartPool, tmp_path: Path) -> None:
    folders = {version: create_environment(tmp_path / f"environment-{version}", version) for version in ("1", "2")}
    pool = start_pool(plugin__path=",".join(map(str, folders.values())), task__executors="1")
    with pytest.raises(PluginNotFoundError):
        pool.executor.facts("far_connector:Near")
    assert pool.executor.facts("far_connector:Far").type == "source"  # found in any environment
    for version, folder in folders.items():
        name = f"c{version}"
        config = {"name": name, "connector.class": "far_connector:Far"}
        config |= {"task.isolation": "dedicated", "task.environment": str(folder)}
        assert pool.executor.facts("far_connector:Far", str(folder)) == ConnectorFacts("far_connector:Far", "source", None)
        answer = pool.executor.validate(config, config)
        assert answer["error_count"] == 0
        assert f"of.{version}" in {one["value"]["name"] for one in answer["configs"]}
        spec = ConnectorSpec(name, config, config)
        pool.start_connector(spec)[1].result(WAIT_S)
        (task,) = pool.executor.task_configs(name).result(WAIT_S)
        assert task["made.with"] == version
        pool.running_task(spec)
    for version, folder in folders.items():
        progress = pool.executor.progress(TaskId(f"c{version}", 0))
        assert progress is not None
        assert progress.details == {"far": version, "prefix": str(folder)}


def test_invalid_task_environment_is_rejected(start_pool: StartPool, tmp_path: Path) -> None:
    (tmp_path / "listed").mkdir()
    (tmp_path / "listed" / "pyvenv.cfg").write_text("version = 3.9.1\n")
    pool = start_pool(plugin__path=str(tmp_path / "listed"), task__executors="1")
    config = {"name": "c", "connector.class": "far_connector:Far", "task.isolation": "dedicated"}
    for environment, reason in (("other", "the worker's plugin.path does not list it"), ("listed", "it has no bin/python")):
        given = {**config, "task.environment": str(tmp_path / environment)}
        with pytest.raises(BadRequestError, match=reason):
            pool.executor.validate(given, given)
    (tmp_path / "listed" / "bin").mkdir()
    (tmp_path / "listed" / "bin" / "python").touch()
    with pytest.raises(BadRequestError, match=r"it has Python 3\.9, but this worker runs on"):
        pool.executor.validate(given, given)
    with pytest.raises(BadRequestError, match=r"it requires task\.isolation=dedicated"):
        pool.executor.validate({}, {**given, "task.isolation": "shared"})
    with pytest.raises(BadRequestError, match=r"Invalid value alone for configuration task\.isolation"):
        pool.executor.validate({}, {**given, "task.isolation": "alone"})
    start_id, started = pool.start_connector(ConnectorSpec("c", given, given))
    with pytest.raises(ConfigError, match=r"it has Python 3\.9"):
        started.result(WAIT_S)
    eventually(lambda: pool.states(start_id, "c") == ["FAILED"], "FAILED")
