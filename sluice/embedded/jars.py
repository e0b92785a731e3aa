"""Fetches JARs by coordinates with the Ivy inside pyspark. Once cached, they need neither network nor Ivy.

A set of JARs is a directory ``<cache>/jars/<name>-<digest of its coordinates>`` with a manifest. An atomic rename publishes the
complete directory, so a reader sees all of it or nothing. Another version of a set is another directory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import quoteattr

from connect.errors import ConfigError, ConnectError, UnreachableError
from connect.extras import require_extra
from sluice.embedded import process
from sluice.embedded.directories import cache_dir
from sluice.embedded.jar_sets import JAR_SETS, Jar, JarSet
from sluice.embedded.java import ensure_java
from worker.progress_reports import OnProgress, ignore_progress

_MANIFEST = "manifest.json"
_LOCK_TIMEOUT_S = 900.0
_NETWORK_TROUBLE = r"UnknownHost|ConnectException|Server access error|timed out|NoRouteToHost|SSLHandshake"


def folder_of(jar_set: JarSet) -> Path:
    """Returns the directory of the set, whether or not it exists."""
    coordinates = "\n".join(str(jar) for jar in jar_set.jars)
    digest = hashlib.sha256(coordinates.encode()).hexdigest()[:12]
    return cache_dir() / "jars" / f"{jar_set.name}-{digest}"


def jar_set(name: str | JarSet) -> JarSet:
    """Returns the set of that name, or the set itself. Raises `ConfigError` with the known names."""
    if isinstance(name, JarSet):
        return name
    try:
        return JAR_SETS[name]
    except KeyError:
        raise ConfigError(f"there is no jar set '{name}'; known are {', '.join(JAR_SETS)}") from None


def runs_here(name: str | JarSet) -> bool:
    """Returns whether this machine can run the set's programs."""
    return jar_set(name).machine in ("", _this_machine())


def require_machine(name: str | JarSet) -> None:
    """Raises `ConfigError` if this machine cannot run the set's programs."""
    wanted = jar_set(name)
    if not runs_here(wanted):
        raise ConfigError(f"the embedded {wanted.purpose} is for {wanted.machine}, and this machine is {_this_machine()}")


def _this_machine() -> str:
    return f"{platform.system()} {platform.machine()}"


def cached_jars(name: str | JarSet) -> list[Path] | None:
    """Returns the set's JARs, in order, if they are cached, else None. Uses no network and starts no process."""
    wanted = jar_set(name)
    folder = folder_of(wanted)
    try:
        sizes = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))["sizes"]
        paths = [folder / jar.file_name for jar in wanted.jars]
        # Sizes, not digests: this runs at every start and detects removed or truncated files, not attacks.
        complete = all(path.stat().st_size == sizes[path.name] for path in paths)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return paths if complete else None


def ensure_jars(name: str | JarSet, on_progress: OnProgress = ignore_progress) -> list[Path]:
    """Returns the set's JARs; fetches them if necessary. Safe to call from several processes: one of them fetches,
    and reports each JAR.

    Raises `UnreachableError` when the repository does not respond, `ConnectError` when a JAR cannot be fetched.
    """
    if (paths := cached_jars(name)) is not None:
        return paths
    wanted = jar_set(name)
    folder = folder_of(wanted)
    busy = f"another process has been fetching the jars of {wanted.purpose} for {_LOCK_TIMEOUT_S:g} s; see {folder.parent}"
    with process.exclusive(folder.parent / f".{wanted.name}.lock", _LOCK_TIMEOUT_S, busy):
        if (paths := cached_jars(name)) is None:
            _fetch(wanted, folder, on_progress)
            paths = cached_jars(name)
    if paths is None:
        raise ConnectError(f"the jars of {wanted.purpose} were fetched, but {folder} is not complete; remove it and try again")
    return paths


def class_path(paths: Iterable[Path]) -> str:
    return os.pathsep.join(str(path) for path in paths)


def _fetch(wanted: JarSet, folder: Path, on_progress: OnProgress) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{wanted.name}-", dir=folder.parent) as work_name:
        work = Path(work_name)
        jars = work / "jars"
        jars.mkdir()
        _write_ivy_files(wanted, work)
        _run_ivy(wanted, work, on_progress)
        missing = [str(jar) for jar in wanted.jars if not (jars / jar.file_name).is_file()]
        if missing:
            raise ConnectError(f"these jars of {wanted.purpose} were not found: {', '.join(missing)}")
        manifest = {
            "name": wanted.name,
            "jars": [str(jar) for jar in wanted.jars],
            "sizes": {jar.file_name: (jars / jar.file_name).stat().st_size for jar in wanted.jars},
        }
        (jars / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        if folder.exists():  # incomplete: files in it were removed or truncated
            shutil.rmtree(folder)
        jars.rename(folder)


def _write_ivy_files(wanted: JarSet, work: Path) -> None:
    # One resolver and a separate cache. Ivy's default chain reads the user's Maven cache first and fails on a POM whose JAR was
    # never fetched. No POMs (usepoms): the set names every JAR. Without a root, Maven Central is used.
    mirror = os.environ.get("SLUICE_MAVEN_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    # Below the work directory, so that an interrupted fetch leaves no incomplete state.
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


def _run_ivy(wanted: JarSet, work: Path, on_progress: OnProgress) -> None:
    command = [
        str(ensure_java().executable),
        *_proxy_properties(),
        f"-Duser.home={work}",
        "-jar",
        str(_ivy_jar(wanted.purpose)),
        *("-settings", str(work / "ivysettings.xml")),
        *("-ivy", str(work / "ivy.xml")),
        *("-confs", "default"),
        *("-retrieve", str(work / "jars" / "[artifact]-[revision](-[classifier]).[ext]")),
    ]
    total, done = len(wanted.jars), 0
    output: list[str] = []
    on_progress(0, total, "")
    ivy = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            if found := re.search(r"\[SUCCESSFUL \] \S+!(\S+)", line):
                done += 1
                on_progress(done, total, found.group(1))
            elif line.strip(". \n"):
                output.append(line.rstrip())
        code = ivy.wait()
    finally:
        if ivy.poll() is None:  # interrupted
            ivy.kill()
            ivy.wait()
        if ivy.stdout is not None:
            ivy.stdout.close()
    if code != 0:
        raise _failure(wanted, output)


def _failure(wanted: JarSet, output: list[str]) -> ConnectError:
    problems = [line.strip() for line in output if re.search(r"WARN|ERROR|not found|Exception", line)]
    shown = "\n".join(f"  {line}" for line in (problems or output)[:12])
    text = f"the jars of {wanted.purpose} could not be fetched:\n{shown}"
    if re.search(_NETWORK_TROUBLE, "\n".join(output)):
        fix = "Check the network. Set HTTPS_PROXY to use a proxy, SLUICE_MAVEN_REPOSITORY to use a mirror"
        return UnreachableError(f"{text}\n{fix}")
    return ConnectError(text)


def _ivy_jar(purpose: str) -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        require_extra("embedded", f"fetching the JARs of {purpose}")
        raise ConfigError("pyspark, whose Ivy fetches JARs, cannot be found; reinstall pyspark")
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise ConfigError(f"there is no Ivy jar in {Path(spec.origin).parent / 'jars'}; reinstall pyspark")
    return found[-1]


def _proxy_properties() -> list[str]:
    """Returns the proxy of HTTPS_PROXY as Java properties, since Java does not read the variable."""
    address = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    found = re.fullmatch(r"(?:https?://)?(?:[^@/]*@)?([^:/@]+):(\d+)/?", address or "")
    if not found:
        return []
    host, port = found.groups()
    return [f"-Dhttps.proxyHost={host}", f"-Dhttps.proxyPort={port}", f"-Dhttp.proxyHost={host}", f"-Dhttp.proxyPort={port}"]
