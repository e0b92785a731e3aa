"""Generator functions as source connectors.

    @source_connector(config=Config)
    def counter(config, context):
        number = context.offset.get("next", 0)
        while True:
            yield [context.record(n, {"next": n + 1}) for n in range(number, number + 100)]
            number += 100
            yield context.wait(config.pause_s)

The decorated name is a source connector class: ``connector.class=module:counter``. The function itself is ``counter.function``.
One generator runs for each source partition, on the thread of the task. Like ``poll``, it may block for about a second between
two ``yield``.
"""

from __future__ import annotations

import inspect
import json
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast, overload

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError, RetriableError
from connect.functions.config import FunctionConfig
from connect.functions.source_context import SourceFunctionContext, Wait
from connect.functions.user_code import FAILURES, UserCode
from connect.record import SourceRecord
from connect.source import SourceTask

PARTITIONS = "task.source.partitions"
"""Key of a task configuration: its source partitions, as JSON."""
ONE_PARTITION: tuple[Mapping[str, Any], ...] = ({"source": "main"},)
LONGEST_WAIT_S = 1.0

SourceFunction = Callable[..., Iterator[Any]]
"""A generator function. Its return type may be written as Generator or, as usual if nothing is sent, as Iterator."""
Partitions = Sequence[Mapping[str, Any]] | Callable[[Any], Sequence[Mapping[str, Any]]]
_PARAMETERS = ("config", "context")


class FunctionSource(SourceConnector):
    """Base class of the connectors that :func:`source_connector` creates."""

    function: ClassVar[SourceFunction]
    """The generator function itself, for tests."""
    settings: ClassVar[FunctionConfig]
    code: ClassVar[UserCode]
    partitions: ClassVar[Partitions]
    exactly_once: ClassVar[bool | None]
    tasks: ClassVar[type[FunctionSourceTask]]

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return self.settings.config_def

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return self.settings.validate(config)

    def start(self, config: Mapping[str, str]) -> None:
        self.settings.read(config)
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return self.tasks

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        partitions = self.list_partitions(self.settings.read(self._config))
        assignments = [partitions[task::max_tasks] for task in range(min(max_tasks, len(partitions)))]
        return [{**self._config, PARTITIONS: json.dumps(assignment)} for assignment in assignments]

    def stop(self) -> None:
        """Does nothing: only tasks run."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        if self.exactly_once is None:
            return None
        return ExactlyOnceSupport.SUPPORTED if self.exactly_once else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        known = [dict(partition) for partition in self.list_partitions(self.settings.read(config))]
        for items, offset in offsets.items():
            partition = dict(items or ())
            if offset is not None and partition not in known:
                raise BadRequestError(f"{partition} is not a source partition of {self.code.name}, which has {known}")
        return True

    @classmethod
    def list_partitions(cls, config: Any) -> list[dict[str, Any]]:
        """The source partitions for a configuration. Raises ConnectError for an invalid or repeated one."""
        yielded: Any = cls.partitions
        if callable(yielded):
            try:
                yielded = list(yielded(config))
            except FAILURES as e:
                raise UserCode.of(cls.partitions).failure(e, ConnectError) from e
        known: list[dict[str, Any]] = []
        for partition in yielded:
            flat = isinstance(partition, Mapping) and all(
                isinstance(name, str) and isinstance(value, str | int | float | bool | None) for name, value in partition.items()
            )
            if not flat:
                raise ConnectError(
                    f"{cls.code.name}: {partition!r} is not a source partition, expected a flat dict of plain values"
                )
            if partition in known:
                raise ConnectError(f"{cls.code.name}: the source partition {partition!r} is listed twice")
            known.append(dict(partition))
        return known


class FunctionSourceTask(SourceTask):
    """Polls the generators of its source partitions in turn."""

    connector: ClassVar[type[FunctionSource]]

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wait: Callable[[float], object] | None = None) -> None:
        """``wait`` replaces the wait for a stop, of at most so many seconds, in tests."""
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._wait = self._stopped.wait if wait is None else wait
        self._runs: list[_PartitionRun] = []
        self._next = 0

    def start(self, config: Mapping[str, str]) -> None:
        connector = self.connector
        settings = connector.settings.read(config)
        yielded = config.get(PARTITIONS)
        partitions = connector.list_partitions(settings) if yielded is None else json.loads(yielded)
        topic = connector.settings.config_def.parse(config).get("topic")
        for partition, offset in zip(partitions, self.context.offset_reader.offsets(partitions), strict=True):
            context = SourceFunctionContext(partition, offset or {}, topic, self._stopped.is_set)
            self._runs.append(_PartitionRun(connector, settings, context))

    def poll(self) -> Sequence[SourceRecord] | None:
        soonest = self._monotonic() + LONGEST_WAIT_S
        for _ in self._runs:
            run = self._runs[self._next]
            self._next = (self._next + 1) % len(self._runs)
            if self._stopped.is_set():
                return None
            if run.resumes_at > self._monotonic():
                soonest = min(soonest, run.resumes_at)
                continue
            batch = run.step(self._monotonic)
            if batch:
                return batch
            soonest = min(soonest, run.resumes_at)
        left_s = soonest - self._monotonic()
        if left_s > 0:
            self._wait(left_s)
        return None

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        for partition, offset in offsets:
            for run in self._runs:
                if run.context.partition == partition:
                    run.context.committed = dict(offset)

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        failures = [error for run in self._runs if (error := run.close()) is not None]
        self._runs = []
        if failures:
            raise failures[0]


class _PartitionRun:
    """The generator of one source partition."""

    def __init__(self, connector: type[FunctionSource], settings: Any, context: SourceFunctionContext) -> None:
        self.context = context
        self.resumes_at = 0.0
        """On the clock of the task; infinity if the generator has ended because there is nothing more to read."""
        self._connector = connector
        self._arguments = {name: {"config": settings, "context": context}[name] for name in _read_parameters(connector.function)}
        self._generator: Generator[Any, None, None] | None = None

    def step(self, monotonic: Callable[[], float]) -> Sequence[SourceRecord] | None:
        """The next batch of the generator, or None if it has nothing now."""
        context, code = self.context, self._connector.code
        try:
            if self._generator is None:
                # source_connector accepts only generator functions.
                self._generator = cast("Generator[Any, None, None]", self._connector.function(**self._arguments))
            yielded = next(self._generator)
        except StopIteration:
            self.resumes_at = float("inf")
            return None
        except RetriableError as e:
            # The error ended the generator. The next call creates a new one, which continues after the last record.
            self._generator = None
            raise code.failure(e, ConnectError) from e
        except FAILURES as e:
            raise code.failure(e, ConnectError) from e
        unused_wait = context.take_wait()
        if isinstance(yielded, Wait):
            self.resumes_at = monotonic() + yielded.seconds
            return None
        if unused_wait is not None:
            raise ConnectError(f"{code.name} called context.wait() without yielding the result: yield context.wait(...)")
        return self._check_batch(yielded)

    def _check_batch(self, yielded: Any) -> Sequence[SourceRecord] | None:
        if yielded is None:
            return None
        batch = [yielded] if isinstance(yielded, SourceRecord) else yielded
        if not isinstance(batch, list | tuple):
            raise self._wrong_yield_error(yielded)
        for record in batch:
            if not isinstance(record, SourceRecord):
                raise self._wrong_yield_error(record)
        if batch:
            self.context.advance_to(batch[-1])
        return batch

    def _wrong_yield_error(self, yielded: Any) -> ConnectError:
        expected = "a record (context.record(value, offset)), a list of records, context.wait(seconds), or None"
        return ConnectError(f"{self._connector.code.name} yielded a value of type {type(yielded).__name__}, expected {expected}")

    def close(self) -> ConnectError | None:
        """Closes the generator at its ``yield`` (GeneratorExit), so its ``finally`` blocks run. Returns an error of those."""
        generator, self._generator = self._generator, None
        try:
            if generator is not None:
                generator.close()
        except FAILURES as e:
            failure = self._connector.code.failure(e, ConnectError)
            failure.__cause__ = e
            return failure
        return None


@overload
def source_connector(function: SourceFunction, /) -> type[FunctionSource]: ...


@overload
def source_connector(
    *,
    config: type | ConfigDef | None = None,
    partitions: Partitions = ONE_PARTITION,
    exactly_once: bool | None = None,
    version: str = "unknown",
) -> Callable[[SourceFunction], type[FunctionSource]]: ...


def source_connector(
    function: SourceFunction | None = None,
    /,
    *,
    config: type | ConfigDef | None = None,
    partitions: Partitions = ONE_PARTITION,
    exactly_once: bool | None = None,
    version: str = "unknown",
) -> Any:
    """Turns a generator function into a source connector. The function may take ``config`` and ``context``.

    It yields records (``context.record``), lists of them, ``context.wait(seconds)``, or None if there is nothing now. Each list
    is one batch: yield hundreds of records at once if there are so many. At a stop, the generator is closed at its ``yield``.
    If it returns, there is nothing more to read. After a RetriableError it is called again, and continues from
    ``context.offset``, which is after its last record.

    ``config`` is a dataclass (see :mod:`connect.functions.config`) or a ConfigDef: the function gets an instance, or a dict.
    ``partitions`` lists the source partitions, or is a function from the config to this list; they are distributed among the
    tasks. ``exactly_once`` says whether a restart at any stored offset returns exactly the records after it.

    Raises ConfigError if the function is not a generator function, or has an unknown parameter.
    """

    def decorate(function: SourceFunction) -> type[FunctionSource]:
        if not inspect.isfunction(function):
            raise ConfigError(f"source_connector decorates {function!r}; expected a generator function")
        name = f"{function.__module__}:{function.__qualname__}"
        if not inspect.isgeneratorfunction(function):
            kind = "async" if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function) else "not a generator"
            raise ConfigError(f"{name} is {kind}; expected a plain generator function, one that yields its records")
        _read_parameters(function)
        connector_class: Any = type(
            function.__name__,
            (FunctionSource,),
            {
                "__module__": function.__module__,
                "__qualname__": function.__qualname__,
                "__doc__": function.__doc__,
                "version": version,
                "function": staticmethod(function),
                "settings": FunctionConfig(name, config),
                "code": UserCode.of(function),
                "partitions": staticmethod(partitions) if callable(partitions) else tuple(partitions),
                "most_tasks": None if callable(partitions) else len(partitions),
                "exactly_once": exactly_once,
            },
        )
        connector_class.tasks = type(
            f"{function.__name__}Task", (FunctionSourceTask,), {"__module__": function.__module__, "connector": connector_class}
        )
        connector: type[FunctionSource] = connector_class
        return connector

    return decorate if function is None else decorate(function)


def _read_parameters(function: SourceFunction) -> list[str]:
    """The parameter names. Raises ConfigError for an unknown one."""
    names = list(inspect.signature(function).parameters)
    for name in names:
        if name not in _PARAMETERS:
            function_name = f"{function.__module__}:{function.__qualname__}"
            raise ConfigError(f"{function_name} has the parameter {name}; a source function may take {' and '.join(_PARAMETERS)}")
    return names
