"""Folders and virtual environments of ``plugin.path``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from connect.plugins import Kind, Plugins
from worker.config.plugin_path import extend_python_path, find_environments

ROOT = Path(__file__).parents[4]


def test_a_class_in_a_folder_of_the_plugin_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "far_plugin.py").write_text(
        "from connect.transforms.api import Transformation\n\nclass Same(Transformation):\n"
        "    def apply(self, record):\n        return record\n"
    )
    assert extend_python_path([str(tmp_path), str(tmp_path)]) == []
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    desc = Plugins.discover().resolve(Kind.TRANSFORMATION, "far_plugin:Same")
    assert Plugins.discover().load(desc).__name__ == "Same"


def test_a_virtual_environment_in_the_plugin_path_is_left_to_connectors_that_ask_for_it(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    assert extend_python_path([str(tmp_path)]) == []
    assert str(tmp_path) not in sys.path
    assert find_environments([str(tmp_path), str(tmp_path.parent)]) == [tmp_path]


def test_packages_installed_into_a_folder_bring_their_entry_points(tmp_path: Path) -> None:
    info = tmp_path / "far-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[connect.transforms]\nFarSame = far_plugin:Same\n")
    program = (
        "import sys; from worker.config.plugin_path import extend_python_path; extend_python_path([sys.argv[1]]);"
        "from connect.plugins import Kind, Plugins; print(Plugins.discover().resolve(Kind.TRANSFORMATION, 'FarSame').path)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "far_plugin:Same"
