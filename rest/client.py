"""A small typed client of the REST API, for the command line, the demo, and tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote

from connect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    UnreachableError,
)
from rest.answers import as_config, as_levels, as_list, as_object
from rest.credentials import ClientCredentials
from rest.polling import wait_until
from rest.transport import HttpTransport

T = TypeVar("T")

DEFAULT_URL = "http://localhost:8083"
_ERRORS: dict[int, type[ConnectError]] = {
    400: BadRequestError,
    401: ForbiddenError,
    403: ForbiddenError,
    404: NotFoundError,
    409: AlreadyExistsError,
}


class ConnectClient:
    """Sends requests to one worker. Not thread-safe.

    Every method raises NotFoundError (404), AlreadyExistsError (409), BadRequestError (400), ForbiddenError (401 and 403),
    ConnectError (any other error response, with the worker's message), or UnreachableError (no worker responds at the address).
    """

    def __init__(self, url: str = DEFAULT_URL, *, timeout_s: float = 95.0, credentials: ClientCredentials | None = None) -> None:
        """``credentials`` are read at the first request. Raises ConfigError for a malformed address or unusable TLS files."""
        self._credentials = credentials
        self._transport = HttpTransport(url, timeout_s, credentials)
        self.url = self._transport.url

    def at(self, url: str, *, timeout_s: float) -> ConnectClient:
        """Returns a client of another worker of the cluster, with the same credentials."""
        return ConnectClient(url, timeout_s=timeout_s, credentials=self._credentials)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; the next call opens a new one."""
        self._transport.close()

    # --- worker

    def server_info(self) -> dict[str, Any]:
        return self._dict("GET", "/")

    def health(self) -> dict[str, Any]:
        """Returns ``status`` and ``message``, also for an unhealthy worker."""
        status, body = self.send("GET", "/health")
        if not isinstance(body, dict) or "status" not in body:
            raise ConnectError(_message_of(status, body))
        return body

    def wait_until_up(self, timeout_s: float = 30.0) -> None:
        """Returns once the worker is healthy. Raises UnreachableError after the time."""

        def is_up() -> bool:
            try:
                return bool(self.health()["status"] == "healthy")
            except UnreachableError:
                return False

        if not wait_until(is_up, timeout_s):
            raise UnreachableError(f"No healthy worker at {self.url} within {timeout_s:g} s")

    # --- connectors

    def connectors(self) -> list[str]:
        return self._list("GET", "/connectors", str)

    def connectors_expanded(self, *kinds: str) -> dict[str, Any]:
        """Returns all connectors with ``status`` and/or ``info``."""
        return self._dict("GET", "/connectors", query=[("expand", kind) for kind in kinds or ("status", "info")])

    def connector(self, name: str) -> dict[str, Any]:
        return self._dict("GET", _path(name))

    def config(self, name: str) -> dict[str, str | None]:
        path = _path(name, "config")
        return as_config(self._dict("GET", path), f"GET {path} at {self.url}")

    def create(self, name: str, config: Mapping[str, Any], *, initial_state: str | None = None) -> dict[str, Any]:
        """Creates a connector. ``initial_state``: RUNNING, PAUSED, or STOPPED. Raises AlreadyExistsError if the name is taken."""
        body: dict[str, Any] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        return self._dict("POST", "/connectors", body)

    def put_config(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Creates the connector or replaces its configuration."""
        return self._dict("PUT", _path(name, "config"), dict(config))

    def patch_config(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        return self._dict("PATCH", _path(name, "config"), dict(changes))

    def delete(self, name: str) -> None:
        self._call("DELETE", _path(name))

    def status(self, name: str) -> dict[str, Any]:
        return self._dict("GET", _path(name, "status"), has=("connector", "tasks"))

    def tasks(self, name: str) -> list[dict[str, Any]]:
        return self._list("GET", _path(name, "tasks"), dict)

    def pause(self, name: str) -> None:
        self._call("PUT", _path(name, "pause"))

    def resume(self, name: str) -> None:
        self._call("PUT", _path(name, "resume"))

    def stop(self, name: str) -> None:
        self._call("PUT", _path(name, "stop"))

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> dict[str, Any] | None:
        """Restarts a connector. Returns the plan, or None if only the connector instance restarts."""
        flags = [("includeTasks", _flag(include_tasks)), ("onlyFailed", _flag(only_failed))]
        plan = self._call("POST", _path(name, "restart"), query=flags)
        return plan if isinstance(plan, dict) else None

    def restart_task(self, name: str, task: int) -> None:
        self._call("POST", _path(name, "tasks", str(task), "restart"))

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return list(self._dict("GET", _path(name, "offsets"), has=("offsets",))["offsets"])

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Changes offsets of a stopped connector, as returned by :meth:`offsets`; the offset None removes a partition. Returns
        the worker's message."""
        body = {"offsets": [dict(entry) for entry in offsets]}
        return str(self._dict("PATCH", _path(name, "offsets"), body, has=("message",))["message"])

    def reset_offsets(self, name: str) -> str:
        """Resets all offsets of a stopped connector. Returns the worker's message."""
        return str(self._dict("DELETE", _path(name, "offsets"), has=("message",))["message"])

    def topics(self, name: str) -> list[str]:
        """Returns the topics that the connector has used."""
        return list(self._dict("GET", _path(name, "topics"), has=(name,))[name]["topics"])

    def reset_topics(self, name: str) -> None:
        self._call("PUT", _path(name, "topics", "reset"))

    # --- Sluice's own resources

    def history(self, name: str) -> list[dict[str, Any]]:
        """Returns the versions of a connector's configuration: ``version``, ``at``, ``origin``, and the changed keys."""
        return self._list("GET", f"/sluice{_path(name, 'history')}", dict)

    def config_version(self, name: str, version: int) -> dict[str, str | None] | None:
        """Returns one version; None if it is a deletion."""
        path = f"/sluice{_path(name, 'history', str(version))}"
        source = f"GET {path} at {self.url}"
        answer = self._call("GET", path)
        return None if answer is None else as_config(as_object(answer, source), source)

    def rollback(self, name: str, version: int) -> dict[str, Any]:
        """Restores an earlier configuration; recreates a deleted connector."""
        return self._dict("POST", f"/sluice{_path(name, 'rollback')}", query=[("version", str(version))])

    def session(self) -> dict[str, Any]:
        """Returns who the worker takes this client for: ``subject``, ``groups``, ``roles``."""
        return self._dict("GET", "/sluice/auth/session", has=("subject", "groups", "roles"))

    def connector_files(self) -> list[dict[str, Any]]:
        """Returns the files of ``connectors.dir`` and their states."""
        return self._list("GET", "/sluice/connectors-dir", dict)

    def progress(self, name: str) -> list[dict[str, Any]]:
        """Returns live figures of the tasks that run on this worker."""
        return list(self._dict("GET", f"/sluice{_path(name, 'progress')}", has=("tasks",))["tasks"])

    def logs(
        self,
        name: str,
        *,
        after: str = "",
        limit: int = 100,
        level: str = "",
        task: int | None = None,
        since_ms: int = 0,
        wait_ms: int = 0,
    ) -> dict[str, Any]:
        """Returns recent log ``lines`` of a connector from all workers; continue after ``next``. Waits for the first line."""
        given = {
            "after": after,
            "limit": limit,
            "level": level,
            "task": "" if task is None else task,
            "since_ms": since_ms,
            "wait_ms": wait_ms,
        }
        query = [(key, str(value)) for key, value in given.items() if value != ""]
        return self._dict("GET", f"/sluice{_path(name, 'logs')}", query=query, has=("lines", "next", "unavailable"))

    def diagnosis(self, name: str | None = None) -> dict[str, Any]:
        """Returns ``problems`` of a connector, or of all, and ``unseen``: what the worker could not look at."""
        path = "/sluice/diagnosis" if name is None else f"/sluice{_path(name, 'diagnosis')}"
        return self._dict("GET", path, has=("problems", "unseen"))

    def dead_letters(self, name: str, **query: Any) -> dict[str, Any]:
        """Returns the newest dead letters (``letters``) and the size of the queue. The query: limit, cause, partition, offsets,
        replayed, trace."""
        return self._dict("GET", f"/sluice{_path(name, 'dead-letters')}", query=_query_of(query), has=("left",))

    def dead_letter_causes(self, name: str, **query: Any) -> dict[str, Any]:
        """Returns dead letters grouped by cause. The query: partition, offsets, replayed."""
        return self._dict("GET", f"/sluice{_path(name, 'dead-letters', 'causes')}", query=_query_of(query))

    def replay_dead_letters(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Checks or replays dead letters; repeat with ``next`` until the answer is ``complete``."""
        return self._dict("POST", f"/sluice{_path(name, 'dead-letters', 'replay')}", dict(request))

    def signal(self, name: str, type_: str, data: Mapping[str, Any] | None = None, *, signal_id: str | None = None) -> str:
        """Sends a signal to the connector's tasks on this worker; returns its ID."""
        body = {"id": signal_id, "type": type_, "data": None if data is None else dict(data)}
        return str(self._dict("POST", f"/sluice{_path(name, 'signals')}", body)["id"])

    def verification(self, name: str) -> dict[str, Any]:
        """Returns the last result of ``sluice verify`` that this worker has. Raises NotFoundError if there is none."""
        return self._dict("GET", f"/sluice{_path(name, 'verification')}")

    def store_verification(self, name: str, result: Mapping[str, Any]) -> None:
        """Stores a result of ``sluice verify``, without values of rows."""
        self._call("POST", f"/sluice{_path(name, 'verification')}", dict(result))

    def wait_for(self, name: str, state: str = "RUNNING", *, timeout_s: float = 30.0, tasks: int | None = None) -> dict[str, Any]:
        """Waits until the connector and all its tasks are in the state; returns the status.

        ``tasks`` is the expected number of tasks; by default, RUNNING needs at least one.

        Raises ConnectError with the trace as soon as something has unexpectedly FAILED, or with the last status after the time.
        """
        last: dict[str, Any] = {}

        def has_state() -> bool:
            nonlocal last
            try:
                last = self.status(name)
            except NotFoundError:
                return False
            if state != "FAILED":
                _raise_failure(name, last)
            return _has_reached(last, state, tasks)

        if not wait_until(has_state, timeout_s):
            raise ConnectError(f"Connector {name} is not {state} after {timeout_s:g} s: {json.dumps(last) or 'no status'}")
        return last

    # --- loggers

    def loggers(self) -> dict[str, Any]:
        """Returns ``level`` and ``last_modified`` of loggers by name."""
        return as_levels(self._dict("GET", "/admin/loggers"), f"GET /admin/loggers at {self.url}")

    def set_logger(self, name: str, level: str, *, cluster: bool = False) -> list[str]:
        """Sets the level of a logger and of those below it, on this worker or on all. Returns the loggers that this worker has
        changed."""
        path = f"/admin/loggers/{quote(name, safe='')}"
        if not cluster:
            return self._list("PUT", path, str, {"level": level})
        answer = self._call("PUT", path, {"level": level}, query=[("scope", "cluster")])
        return answer if isinstance(answer, list) else []  # old workers do not know the scope, and answer

    # --- plugins

    def plugins(self, *, connectors_only: bool = True) -> list[dict[str, str]]:
        return self._list("GET", "/connector-plugins", dict, query=[("connectorsOnly", _flag(connectors_only))])

    def plugin_config(self, plugin: str) -> list[dict[str, Any]]:
        return self._list("GET", f"/connector-plugins/{quote(plugin, safe='')}/config", dict)

    def validate(self, config: Mapping[str, Any], plugin: str | None = None) -> dict[str, Any]:
        """Returns the whole validation result; ``plugin`` defaults to the configuration's ``connector.class``."""
        name = plugin or str(config.get("connector.class") or "")
        return self._dict("PUT", f"/connector-plugins/{quote(name, safe='')}/config/validate", dict(config))

    # --- transport

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Sends one request. Returns status and body: parsed if it is JSON, None if empty. Raises only UnreachableError."""
        return self._transport.send(method, path, body, query=query, headers=headers)

    def _call(self, method: str, path: str, body: Any = None, *, query: Sequence[tuple[str, str]] = ()) -> Any:
        status, answer = self.send(method, path, body, query=query)
        if status >= 400:
            raise _ERRORS.get(status, ConnectError)(self._refusal(status, answer))
        return answer

    def _refusal(self, status: int, answer: Any) -> str:
        message = _message_of(status, answer)
        if status != 401:
            return message
        if self._transport.has_credentials:
            return f"The worker at {self.url} does not accept the credentials: {message}"
        return (
            f"The worker at {self.url} needs credentials: set SLUICE_CONNECT_TOKEN, or SLUICE_CONNECT_USER and "
            "SLUICE_CONNECT_PASSWORD, or store where they are with sluice context set"
        )

    def _dict(
        self, method: str, path: str, body: Any = None, *, query: Sequence[tuple[str, str]] = (), has: Sequence[str] = ()
    ) -> dict[str, Any]:
        return as_object(self._call(method, path, body, query=query), f"{method} {path} at {self.url}", has)

    def _list(self, method: str, path: str, of: type[T], body: Any = None, *, query: Sequence[tuple[str, str]] = ()) -> list[T]:
        return as_list(self._call(method, path, body, query=query), f"{method} {path} at {self.url}", of)


def _path(name: str, *rest: str) -> str:
    return "/".join(("/connectors", quote(name, safe=""), *rest))


def _query_of(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = {key: _flag(value) if isinstance(value, bool) else value for key, value in values.items()}
    return [(key, str(value)) for key, value in found.items() if value is not None and value != ""]


def _flag(value: bool) -> str:
    return "true" if value else "false"


def lacks_resource(error: NotFoundError) -> bool:
    """Whether the worker does not have the resource itself, as Apache's workers, rather than what it names."""
    return error.message in ("HTTP 404 Not Found", "HTTP 404")


def _message_of(status: int, answer: Any) -> str:
    if isinstance(answer, dict) and "message" in answer:
        return str(answer["message"])
    return f"HTTP {status}"


def _has_reached(status: Mapping[str, Any], state: str, tasks: int | None) -> bool:
    states = [task["state"] for task in status["tasks"]]
    if tasks is not None and len(states) != tasks:
        return False
    if status["connector"]["state"] != state:
        # A task that FAILED leaves its connector RUNNING.
        return state == "FAILED" and "FAILED" in states
    if state == "RUNNING" and tasks is None and not states:
        return False
    return state in ("STOPPED", "FAILED") or all(found == state for found in states)


def _raise_failure(name: str, status: Mapping[str, Any]) -> None:
    for what, found in (("Connector", status["connector"]), *((f"Task {t['id']} of", t) for t in status["tasks"])):
        if found["state"] == "FAILED":
            raise ConnectError(f"{what} {name} FAILED: {found.get('trace', 'no trace')}")
