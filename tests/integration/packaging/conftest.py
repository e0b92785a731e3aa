"""The wheel, and an environment that has only the wheel and the packages that it requires."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from scripts.build_release import ROOT, read_project, required_distributions
from tests.support.waiting import WAIT_S


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120, stdout=subprocess.DEVNULL)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def base_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment as ``pip install sluice-connect`` without extras creates it. Its packages are links to those of this
    environment, so that nothing is downloaded."""
    folder = tmp_path_factory.mktemp("base") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=WAIT_S)
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*install, *options, str(wheel)], check=True, timeout=120)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (installed,) = importlib.metadata.distributions(name="sluice-connect", path=[str(packages)])
    for distribution in required_distributions(installed.requires or (), read_project(ROOT)):
        _link(distribution, packages)
    return folder


def _link(distribution: importlib.metadata.Distribution, packages: Path) -> None:
    for file in distribution.files or ():
        if file.parts[0] == ".." or "__pycache__" in file.parts:
            continue
        link = packages / file
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            os.symlink(Path(str(distribution.locate_file(file))).resolve(), link)
