"""Jars by coordinates: fetched once with the Ivy inside pyspark, then plain files that need neither network nor Ivy.

A set of jars is a folder ``<cache>/jars/<name>-<digest of its coordinates>`` with a manifest. The folder appears by one
rename when it is complete, so a reader sees all of it or nothing, and another version of a set is another folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from connect.errors import ConfigError, ConnectError, UnreachableError
from sluice.embedded import locations, process
from sluice.embedded.jarsets import JAR_SETS, Jar, JarSet
from sluice.embedded.java import ensure_java

_MANIFEST = "manifest.json"
_LOCK_TIMEOUT_S = 900.0
_NETWORK_TROUBLE = r"UnknownHost|ConnectException|Server access error|timed out|NoRouteToHost|SSLHandshake"

Progress = Callable[[int, int, str], None]
"""Called with (jars done, jars of the set, the jar at hand). From the calling thread."""


def _no_progress(done: int, total: int, jar: str) -> None:
    """Nobody looks."""


def folder_of(jar_set: JarSet) -> Path:
    """Where the set lies, or will lie."""
    coordinates = "\n".join(str(jar) for jar in jar_set.jars)
    digest = hashlib.sha256(coordinates.encode()).hexdigest()[:12]
    return locations.cache_dir() / "jars" / f"{jar_set.name}-{digest}"


def jar_set(name: str | JarSet) -> JarSet:
    """The set of that name; a set itself is returned as it is. Raises `ConfigError` that lists the known ones."""
    if isinstance(name, JarSet):
        return name
    try:
        return JAR_SETS[name]
    except KeyError:
        raise ConfigError(f"there is no jar set '{name}'; known are {', '.join(JAR_SETS)}") from None


def cached_jars(name: str | JarSet) -> list[Path] | None:
    """The set's jars if they are here, in the order of the set, else None. Touches no network and starts nothing."""
    wanted = jar_set(name)
    folder = folder_of(wanted)
    try:
        sizes = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["sizes"]
        paths = [folder / jar.file_name for jar in wanted.jars]
        # Sizes, not digests: this runs at every start, and guards against a cleaned or cut file, not against an attacker.
        complete = all(path.stat().st_size == sizes[path.name] for path in paths)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return paths if complete else None


def ensure_jars(name: str | JarSet, progress: Progress = _no_progress) -> list[Path]:
    """The set's jars, fetched now unless they are here. Safe to call from many processes at once: one of them fetches.

    Raises `UnreachableError` when the repository does not answer, `ConnectError` when it answers but a jar cannot be had.
    """
    if (paths := cached_jars(name)) is not None:
        return paths
    wanted = jar_set(name)
    folder = folder_of(wanted)
    busy = f"another process has been fetching the jars of {wanted.purpose} for {_LOCK_TIMEOUT_S:g} s; see {folder.parent}"
    with process.exclusive(folder.parent / f".{wanted.name}.lock", _LOCK_TIMEOUT_S, busy):
        if (paths := cached_jars(name)) is None:
            _fetch(wanted, folder, progress)
            paths = cached_jars(name)
    if paths is None:
        raise ConnectError(f"the jars of {wanted.purpose} were fetched, but {folder} is not complete; remove it and try again")
    return paths


def class_path(paths: Iterable[Path]) -> str:
    return os.pathsep.join(str(path) for path in paths)


def _fetch(wanted: JarSet, folder: Path, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{wanted.name}-", dir=folder.parent) as work_name:
        work = Path(work_name)
        jars = work / "jars"
        jars.mkdir()
        _write_ivy_files(wanted, work)
        _run_ivy(wanted, work, progress)
        missing = [str(jar) for jar in wanted.jars if not (jars / jar.file_name).is_file()]
        if missing:
            raise ConnectError(f"these jars of {wanted.purpose} were not found: {', '.join(missing)}")
        manifest = {
            "name": wanted.name,
            "jars": [str(jar) for jar in wanted.jars],
            "sizes": {jar.file_name: (jars / jar.file_name).stat().st_size for jar in wanted.jars},
        }
        (jars / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if folder.exists():  # incomplete: somebody removed or cut files in it
            shutil.rmtree(folder)
        jars.rename(folder)


def _write_ivy_files(wanted: JarSet, work: Path) -> None:
    # One resolver and a cache of our own. Ivy's default chain asks the user's Maven cache first and fails on a pom whose jar
    # was never fetched. No poms at all (usepoms): the set names every jar. No root given means Maven Central.
    mirror = os.environ.get("SLUICE_MAVEN_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    # Below the work folder, so that a fetch that was cut off leaves nothing half-known to the next one.
    (work / "ivysettings.xml").write_text(
        f"""<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={quoteattr(str(work / "ivy"))}/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
""",
        encoding="utf-8",
    )
    dependencies = "\n".join(_dependency(jar) for jar in wanted.jars)
    (work / "ivy.xml").write_text(
        f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="sluice" module="{wanted.name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
""",
        encoding="utf-8",
    )


def _dependency(jar: Jar) -> str:
    plain = f'org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" conf="default->*" transitive="false"'
    if not jar.classifier:
        return f"    <dependency {plain}/>"
    artifact = f'<artifact name="{jar.artifact}" type="{jar.extension}" ext="{jar.extension}" m:classifier="{jar.classifier}"/>'
    return f"    <dependency {plain}>{artifact}</dependency>"


def _run_ivy(wanted: JarSet, work: Path, progress: Progress) -> None:
    command = [
        str(ensure_java().executable),
        *_proxy_properties(),
        f"-Duser.home={work}",
        "-jar",
        str(_ivy_jar()),
        *("-settings", str(work / "ivysettings.xml")),
        *("-ivy", str(work / "ivy.xml")),
        *("-confs", "default"),
        *("-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    total, done = len(wanted.jars), 0
    said: list[str] = []
    progress(0, total, "")
    ivy = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            if found := re.search(r"\[SUCCESSFUL \] \S+!(\S+)", line):
                done += 1
                progress(done, total, found.group(1))
            elif line.strip(". \n"):
                said.append(line.rstrip())
        code = ivy.wait()
    finally:
        if ivy.poll() is None:  # interrupted
            ivy.kill()
            ivy.wait()
        if ivy.stdout is not None:
            ivy.stdout.close()
    if code != 0:
        raise _failure(wanted, said)


def _failure(wanted: JarSet, said: list[str]) -> ConnectError:
    problems = [line.strip() for line in said if re.search(r"WARN|ERROR|not found|Exception", line)]
    shown = "\n".join(f"  {line}" for line in (problems or said)[:12])
    text = f"the jars of {wanted.purpose} could not be fetched:\n{shown}"
    if re.search(_NETWORK_TROUBLE, "\n".join(said)):
        fix = "Check the network; behind a proxy set HTTPS_PROXY, behind a mirror set SLUICE_MAVEN_REPOSITORY to its address"
        return UnreachableError(f"{text}\n{fix}")
    return ConnectError(text)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "pyspark is not installed, and the Ivy jar inside it is what fetches jars; install sluice-connect again"
        )
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise ConfigError(f"there is no Ivy jar in {Path(spec.origin).parent / 'jars'}; install pyspark again")
    return found[-1]


def _proxy_properties() -> list[str]:
    """Java does not read HTTPS_PROXY; say it in its own words."""
    address = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    found = re.fullmatch(r"(?:https?://)?(?:[^@/]*@)?([^:/@]+):(\d+)/?", address or "")
    if not found:
        return []
    host, port = found.groups()
    return [f"-Dhttps.proxyHost={host}", f"-Dhttps.proxyPort={port}", f"-Dhttp.proxyHost={host}", f"-Dhttp.proxyPort={port}"]
