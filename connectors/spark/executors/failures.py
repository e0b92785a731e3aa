"""Says what a failed job means: which host lacks what, and what to do."""

from __future__ import annotations

import re

from connect.errors import ConnectError, RetriableError
from connectors.spark.errors import APPLICATION_ENDED, explain

_HOST = re.compile(r"Lost task \S+ in stage \S+ \(TID \d+\) \((\S+) executor (\S+?)\)")
_NOTE = re.compile(r"\(on host (\S+) with Python (\S+)\)")
"""What an executor adds to its errors: Spark leaves its own words out if it knows the error of Python."""
_MODULE = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_LIBRARY = re.compile(r"ImportError: (.+)")
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\][^\n]*?version:? (\d+\.\d+)\.? than that in driver:? (\d+\.\d+)")
_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_RETRIABLE = re.compile(r"^connect\.errors\.RetriableError: (.+)", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last)"
_PYTHON = re.compile(r"^(?:[\w]+\.)*[\w]*(?:Error|Exception|Interrupt)(?:: .+)?$", re.MULTILINE)
_PASSING = (
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "Executor heartbeat timed out",
    "Remote RPC client disassociated",
    "Worker unexpectedly exited",
    "Master removed our application",
    "FetchFailed",
    "SPARK_JOB_CANCELLED",
)
"""Spark's own words. After a traceback of Python they may be those of a record."""
_SHIP = (
    "install sluice-connect with the worker's version of Python on every host, and set spark.conf.spark.pyspark.python to that "
    "Python, or ship a packed environment with spark.conf.spark.archives=<file>#environment and "
    "spark.conf.spark.pyspark.python=./environment/bin/python; spark.conf.spark.submit.pyFiles ships packages of pure Python. "
    "spark.engine=worker needs no Python in the cluster"
)


def explain_job_failure(text: str, doing: str, java_trace: str = "") -> ConnectError:
    """The error for the text of Spark's exception; RetriableError if the job may succeed later. If Python failed before it ran
    anything of ours, only the trace of Java names the host."""
    found = _HOST.search(text) or _HOST.search(java_trace)
    noted = _NOTE.search(text)
    host = f"executor {found[2]} on host {found[1]}" if found else f"an executor on host {noted[1]}" if noted else "Spark"
    if module := _MODULE.search(text):
        package = module[1].partition(".")[0]
        owner = " (a part of sluice-connect)" if package in ("connect", "connectors", "worker") else ""
        return ConnectError(f"{doing}: the Python of {host} lacks the package {package}{owner}: {_SHIP}")
    if versions := _VERSIONS.search(text):
        return ConnectError(
            f"{doing}: {host} has Python {versions[1]}, and the worker has {versions[2]}; both must have the same minor version: "
            f"{_SHIP}"
        )
    if program := _PROGRAM.search(text):
        return ConnectError(f"{doing}: {host} has no Python at {program[1]}: {_SHIP}")
    if library := _LIBRARY.search(text):
        return ConnectError(f"{doing}: the Python of {host} cannot import a package: {library[1]}; {_SHIP}")
    if any(sign in text for sign in APPLICATION_ENDED):
        return explain(RuntimeError(text), doing)
    if retriable := _RETRIABLE.search(text):
        return RetriableError(f"{doing}: {host}: {retriable[1]}")
    if _TRACEBACK not in text and any(sign in text for sign in _PASSING):
        return RetriableError(f"{doing}: {host}: {_first_line(text)}")
    python = _PYTHON.findall(text)
    return ConnectError(f"{doing}: {host}: {python[-1] if python else _first_line(text)}")


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    said = [line for line in lines if not line.startswith("An error occurred while calling")]
    line = (said or lines or ["unknown error"])[0].removeprefix(": ")
    return line if len(line) <= 500 else line[:497] + "..."
