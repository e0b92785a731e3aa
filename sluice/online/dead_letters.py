"""Dead letters of a connector: asks a worker of Sluice, or reads Kafka itself for workers of Apache Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from connect.errors import ConnectError, NotFoundError
from rest.client import ConnectClient, lacks_resource
from worker.dead_letters.letters import dead_letter_topic
from worker.progress_reports import OnProgress, ignore_progress

_PART_LETTERS = 1000


class DeadLetterAccess:
    """Answers the requests of :func:`worker.dead_letters.engine.answer` for one connector."""

    def __init__(
        self, client: ConnectClient, name: str, properties: Callable[[], dict[str, str]], worker_file: Path | None, *, local: bool
    ) -> None:
        """``properties`` returns client settings for Kafka; they are needed for workers of Apache, and with ``local``."""
        self._client = client
        self._name = name
        self._properties = properties
        self._worker_file = worker_file
        self._left = None if local else _count_left(client, name)
        self.is_local = self._left is None

    def letters(self, *, limit: int, selection: Mapping[str, Any], with_trace: bool = False) -> dict[str, Any]:
        """Returns the newest dead letters, and the size of the queue."""
        if self.is_local:
            return self._answer({"action": "list", "limit": limit, "selection": selection, "with_trace": with_trace})
        return self._client.dead_letters(self._name, limit=limit, trace=with_trace, **_query(selection))

    def causes(self, selection: Mapping[str, Any], on_progress: OnProgress = ignore_progress) -> dict[str, Any]:
        """Returns dead letters grouped by cause."""
        if self.is_local:
            return self._answer({"action": "causes", "selection": selection}, on_progress=on_progress)
        return self._client.dead_letter_causes(self._name, **_query(selection))

    def replay(
        self, request: Mapping[str, Any], edits: Mapping[str, str | None], on_progress: OnProgress, limit: int | None = None
    ) -> dict[str, Any]:
        """Checks or replays dead letters until all are done, or ``limit`` were looked at."""
        total: dict[str, Any] = {"checked": 0, "replayed": 0, "verdicts": {}, "letters": []}
        following: Mapping[str, int] = {}
        while True:
            left = (limit or 1 << 31) - total["checked"]
            # A worker answers within a request's time; here, each part would read the queue and fence a producer again.
            part = dict(request) | {"next": following, "limit": left if self.is_local else min(_PART_LETTERS, left)}
            if self.is_local:
                answer = self._answer({**part, "action": "replay"}, edits, on_progress)
            else:
                answer = self._client.replay_dead_letters(self._name, {**part, "config": dict(edits)})
            for name, count in answer["verdicts"].items():
                total["verdicts"][name] = total["verdicts"].get(name, 0) + count
            total["checked"] += answer["checked"]
            total["replayed"] += answer["replayed"]
            total["letters"] += answer["letters"]
            is_done = answer["complete"] or (limit is not None and total["checked"] >= limit)
            goal = total["checked"] if is_done else max(total["checked"] + 1, min(self._left or 0, limit or 1 << 31))
            on_progress(total["checked"], goal, "")
            if is_done:
                return {**answer, **total}
            if answer["next"] == following and not answer["checked"]:
                raise ConnectError(
                    f"The worker at {self._client.url} is too slow to read the queue {answer['topic']} within a request; use "
                    "--bootstrap-server to read it from here"
                )
            following = answer["next"]

    def _answer(
        self,
        request: Mapping[str, Any],
        edits: Mapping[str, str | None] | None = None,
        on_progress: OnProgress = ignore_progress,
    ) -> dict[str, Any]:
        from connect.config.properties import read_properties
        from connect.plugins import Plugins
        from worker.config.providers import resolve_with_worker
        from worker.config.secrets import SecretMask
        from worker.dead_letters.engine import answer
        from worker.dead_letters.reader import LetterSource

        config: Mapping[str, str | None] = {**self._client.config(self._name), **(edits or {})}
        transforms: Mapping[str, str | None] = request.get("transforms") or {}
        worker, path, mask = None, self._worker_file, SecretMask()
        if path is not None:
            properties = read_properties(str(path))
            worker, config = resolve_with_worker(properties, str(path), config, self._name, mask)
            if transforms:
                _, transforms = resolve_with_worker(properties, None, transforms, "the transformations", mask)
                request = {**request, "transforms": transforms}
        clients = self._properties()
        given = {key: value for key, value in config.items() if value is not None}
        mask.add(given)
        mask.add(transforms)
        source = LetterSource(self._name, given, worker, Plugins.discover(), clients, clients, mask)
        found = answer(source, request, on_progress=on_progress)
        # Promise 9: transformations may insert secrets of the configuration.
        return {**found, "letters": mask.mask_json(found["letters"])} if request["action"] == "replay" else found


def connectors_with_queues(client: ConnectClient) -> dict[str, str]:
    """Returns the queues of all connectors that have one, by connector."""
    found = client.connectors_expanded("info")
    topics = {name: dead_letter_topic(one.get("info", {}).get("config", {})) for name, one in sorted(found.items())}
    return {name: topic for name, topic in topics.items() if topic is not None}


def _count_left(client: ConnectClient, name: str) -> int | None:
    """Returns how many dead letters are left to replay; None if the worker does not have the resource. Raises NotFoundError for
    an unknown connector."""
    try:
        return int(client.dead_letters(name, limit=0)["left"])
    except NotFoundError as e:
        if lacks_resource(e):
            client.connector(name)
            return None
        raise


def _query(selection: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "cause": selection.get("cause"),
        "partition": selection.get("partition"),
        "offsets": selection.get("offsets"),
        "replayed": bool(selection.get("with_replayed")),
    }
