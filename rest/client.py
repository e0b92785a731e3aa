"""A small typed client of the REST API, for the command line, the demo and tests.

It stands on ``http.client``: importing httpx costs a command more than the call itself, and a proxy from the environment has no
business between an operator and a worker.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from connect.errors import AlreadyExistsError, BadRequestError, ConfigError, ConnectError, NotFoundError, UnreachableError

DEFAULT_URL = "http://localhost:8083"
_ERRORS: dict[int, type[ConnectError]] = {400: BadRequestError, 404: NotFoundError, 409: AlreadyExistsError}
_POLL_S = 0.05
_NOT_REPEATABLE = ("POST", "PATCH")
"""These go over a new connection, so that none is sent twice because an idle one was closed."""


class ConnectClient:
    """Calls one worker. Not for use by several threads at once.

    Every call raises NotFoundError (404), AlreadyExistsError (409), BadRequestError (400), ConnectError (any other error answer,
    with the worker's own message) or UnreachableError (no worker answers at the address).
    """

    def __init__(self, url: str = DEFAULT_URL, *, timeout_s: float = 95.0) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"Invalid worker address {url}: expected http://host:port")
        self.url = f"{parts.scheme}://{parts.netloc}"
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), timeout=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection; the next call opens a new one."""
        self._connection.close()

    # --- worker

    def server_info(self) -> dict[str, Any]:
        return self._dict("GET", "/")

    def health(self) -> dict[str, Any]:
        """``status`` and ``message``; also when the worker is not healthy."""
        status, body = self.send("GET", "/health")
        if not isinstance(body, dict) or "status" not in body:
            raise ConnectError(_message_of(status, body))
        return body

    def wait_until_up(self, timeout_s: float = 30.0) -> None:
        """Returns when the worker answers as healthy. Raises UnreachableError after the time."""

        def is_up() -> bool:
            try:
                return bool(self.health()["status"] == "healthy")
            except UnreachableError:
                return False

        if not _wait(is_up, timeout_s):
            raise UnreachableError(f"No healthy worker at {self.url} within {timeout_s:g} s")

    # --- connectors

    def connectors(self) -> list[str]:
        return list(self._call("GET", "/connectors"))

    def connectors_expanded(self, *kinds: str) -> dict[str, Any]:
        """All connectors with ``status`` and/or ``info``."""
        return self._dict("GET", "/connectors", query=[("expand", kind) for kind in kinds or ("status", "info")])

    def connector(self, name: str) -> dict[str, Any]:
        return self._dict("GET", _path(name))

    def config(self, name: str) -> dict[str, str | None]:
        return self._dict("GET", _path(name, "config"))

    def create(self, name: str, config: Mapping[str, Any], *, initial_state: str | None = None) -> dict[str, Any]:
        """Creates; raises AlreadyExistsError when the name is taken. ``initial_state``: RUNNING, PAUSED or STOPPED."""
        body: dict[str, Any] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        return self._dict("POST", "/connectors", body)

    def put_config(self, name: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Creates the connector, or replaces its configuration."""
        return self._dict("PUT", _path(name, "config"), dict(config))

    def patch_config(self, name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        return self._dict("PATCH", _path(name, "config"), dict(changes))

    def delete(self, name: str) -> None:
        self._call("DELETE", _path(name))

    def status(self, name: str) -> dict[str, Any]:
        return self._dict("GET", _path(name, "status"))

    def tasks(self, name: str) -> list[dict[str, Any]]:
        return list(self._call("GET", _path(name, "tasks")))

    def pause(self, name: str) -> None:
        self._call("PUT", _path(name, "pause"))

    def resume(self, name: str) -> None:
        self._call("PUT", _path(name, "resume"))

    def stop(self, name: str) -> None:
        self._call("PUT", _path(name, "stop"))

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> dict[str, Any] | None:
        """The plan of what is restarted; None for the connector alone."""
        flags = [("includeTasks", _flag(include_tasks)), ("onlyFailed", _flag(only_failed))]
        plan = self._call("POST", _path(name, "restart"), query=flags)
        return plan if isinstance(plan, dict) else None

    def restart_task(self, name: str, task: int) -> None:
        self._call("POST", _path(name, "tasks", str(task), "restart"))

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return list(self._dict("GET", _path(name, "offsets"))["offsets"])

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Changes offsets of a stopped connector, entries as :meth:`offsets` gives them; an offset None forgets a partition. The
        worker's sentence about it."""
        body = {"offsets": [dict(entry) for entry in offsets]}
        return str(self._dict("PATCH", _path(name, "offsets"), body)["message"])

    def reset_offsets(self, name: str) -> str:
        """Forgets all offsets of a stopped connector."""
        return str(self._dict("DELETE", _path(name, "offsets"))["message"])

    def topics(self, name: str) -> list[str]:
        """The topics that the connector has used."""
        return list(self._dict("GET", _path(name, "topics"))[name]["topics"])

    def reset_topics(self, name: str) -> None:
        self._call("PUT", _path(name, "topics", "reset"))

    # --- Sluice's own

    def history(self, name: str) -> list[dict[str, Any]]:
        """The versions of a connector's configuration: ``version``, ``at``, ``origin``, and the keys that changed."""
        return list(self._call("GET", f"/sluice{_path(name, 'history')}"))

    def config_version(self, name: str, version: int) -> dict[str, str | None] | None:
        """One of them; None where the connector was deleted."""
        answer = self._call("GET", f"/sluice{_path(name, 'history', str(version))}")
        return None if answer is None else dict(answer)

    def rollback(self, name: str, version: int) -> dict[str, Any]:
        """Gives the connector an earlier configuration, and creates it when it was deleted."""
        return self._dict("POST", f"/sluice{_path(name, 'rollback')}", query=[("version", str(version))])

    def connector_files(self) -> list[dict[str, Any]]:
        """The files of ``connectors.dir`` and what became of them."""
        return list(self._call("GET", "/sluice/connectors-dir"))

    def progress(self, name: str) -> list[dict[str, Any]]:
        """Live numbers of the tasks that run on this worker."""
        return list(self._dict("GET", f"/sluice{_path(name, 'progress')}")["tasks"])

    def wait_for(self, name: str, state: str = "RUNNING", *, timeout_s: float = 30.0, tasks: int | None = None) -> dict[str, Any]:
        """The status once connector and all tasks are in the state.

        With ``tasks`` there must be exactly so many of them; without it, at least one when the state is RUNNING.

        Raises ConnectError with the trace as soon as something FAILED that was not waited for, or after the time with the
        last status.
        """
        last: dict[str, Any] = {}

        def is_there() -> bool:
            nonlocal last
            try:
                last = self.status(name)
            except NotFoundError:
                return False
            if state != "FAILED":
                _raise_failure(name, last)
            return _has_reached(last, state, tasks)

        if not _wait(is_there, timeout_s):
            raise ConnectError(f"Connector {name} is not {state} after {timeout_s:g} s: {json.dumps(last) or 'no status'}")
        return last

    # --- plugins

    def plugins(self, *, connectors_only: bool = True) -> list[dict[str, str]]:
        return list(self._call("GET", "/connector-plugins", query=[("connectorsOnly", _flag(connectors_only))]))

    def plugin_config(self, plugin: str) -> list[dict[str, Any]]:
        return list(self._call("GET", f"/connector-plugins/{quote(plugin, safe='')}/config"))

    def validate(self, config: Mapping[str, Any], plugin: str | None = None) -> dict[str, Any]:
        """The whole validation answer; ``plugin`` defaults to the configuration's ``connector.class``."""
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
        """One exchange: status and body, parsed where it is JSON, None where it is empty. Raises UnreachableError only."""
        target = f"{path}?{urlencode(query)}" if query else path
        sent = {"Accept": "application/json", **(headers or {})}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        answer, text = self._exchange(method, target, payload, sent)
        if not text:
            return answer.status, None
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def _exchange(
        self, method: str, target: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if method in _NOT_REPEATABLE:
            self._connection.close()
        reused = self._connection.sock is not None
        try:
            self._connection.request(method, target, payload, dict(headers))
            answer = self._connection.getresponse()
            return answer, answer.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as e:
            self._connection.close()
            # Most likely an idle connection that the worker closed: send it again, on a new one.
            if reused:
                return self._exchange(method, target, payload, headers)
            raise UnreachableError(f"The worker at {self.url} closed the connection") from e
        except TimeoutError as e:
            self._connection.close()
            raise UnreachableError(f"The worker at {self.url} did not answer within {self._connection.timeout:g} s") from e
        except (OSError, http.client.HTTPException) as e:
            self._connection.close()
            raise UnreachableError(f"No worker answers at {self.url}: {e}. Is it running, and is the address right?") from e

    def _call(self, method: str, path: str, body: Any = None, *, query: Sequence[tuple[str, str]] = ()) -> Any:
        status, answer = self.send(method, path, body, query=query)
        if status >= 400:
            raise _ERRORS.get(status, ConnectError)(_message_of(status, answer))
        return answer

    def _dict(self, method: str, path: str, body: Any = None, *, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        answer = self._call(method, path, body, query=query)
        if not isinstance(answer, dict):
            raise ConnectError(f"{method} {path} at {self.url} did not answer with a JSON object; is it a Connect worker?")
        return answer


def _path(name: str, *rest: str) -> str:
    return "/".join(("/connectors", quote(name, safe=""), *rest))


def _flag(value: bool) -> str:
    return "true" if value else "false"


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


def _wait(is_true: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
