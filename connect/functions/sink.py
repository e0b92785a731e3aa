"""Functions as sink connectors: a function is called with each batch, or a generator gets each batch from ``yield``.

    @sink_connector(config=Config)
    def totals(records, config):       # called with each batch, which is delivered when it returns
        ...

    @sink_connector(config=Config)
    def lines(config):                 # a generator: setup, batches, cleanup
        with open(config.path, "a") as file:
            while True:
                records = yield
                file.writelines(f"{record.value}\\n" for record in records)
                file.flush()

The decorated name is a sink connector class: ``connector.class=module:totals``. The function itself is ``totals.function``.
Everything runs on the thread of the task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from typing import Any, ClassVar, overload

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import SinkConnector
from connect.errors import ConfigError, ConnectError, RetriableError
from connect.functions.config import FunctionConfig
from connect.functions.schemas import plain_copy
from connect.functions.user_code import FAILURES, UserCode
from connect.record import SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTask

SinkFunction = Callable[..., Any]
_PARAMETERS = ("records", "values", "config", "context")


class FunctionSink(SinkConnector):
    """Base class of the connectors that :func:`sink_connector` creates."""

    function: ClassVar[SinkFunction]
    """The function itself, for tests."""
    settings: ClassVar[FunctionConfig]
    code: ClassVar[UserCode]
    tasks: ClassVar[type[FunctionSinkTask]]

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return self.settings.config_def

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return self.settings.validate(config)

    def start(self, config: Mapping[str, str]) -> None:
        self.settings.read(config)
        self._config = dict(config)

    def task_class(self) -> type[SinkTask]:
        return self.tasks

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config) for _ in range(min(max_tasks, self.most_tasks or max_tasks))]

    def stop(self) -> None:
        """Does nothing: only tasks run."""


class FunctionSinkTask(SinkTask):
    """Passes batches to the function or its generator."""

    connector: ClassVar[type[FunctionSink]]

    def __init__(self) -> None:
        self._generator: Generator[None, list[SinkRecord], None] | None = None
        self._unflushed: Offsets = {}
        """The first offset since the last flush, per partition. Used for generators, which may buffer records."""

    def start(self, config: Mapping[str, str]) -> None:
        function = self.connector.function
        self._code = self.connector.code
        offered = {"config": self.connector.settings.read(config), "context": self.context}
        parameters = _read_parameters(function)
        self._arguments = {name: offered[name] for name in parameters if name in offered}
        self._is_generator = inspect.isgeneratorfunction(function)
        self._takes = next((name for name in parameters if name not in offered), "records")
        if self._is_generator:
            self._get_generator()

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        if self._is_generator:
            self._send(records)
            return
        given = [plain_copy(record.value) for record in records] if self._takes == "values" else list(records)
        try:
            result = self.connector.function(**{self._takes: given}, **self._arguments)
        except FAILURES as e:
            raise self._code.failure(e, ConnectError) from e
        if result is not None:
            found = f"{self._code.name} returned a value of type {type(result).__name__}"
            raise ConnectError(f"{found}, expected None: the batch is delivered when it returns")

    def _send(self, records: Sequence[SinkRecord]) -> None:
        buffered = dict(self._unflushed)
        for record in records:
            topic_partition = TopicPartition(record.original_topic, record.original_partition)
            if topic_partition not in self._unflushed:
                self._unflushed[topic_partition] = record.offset
        try:
            self._deliver(list(records))
        except RetriableError:
            # The error ended the generator, so the records that it buffered are lost and must be consumed again.
            if buffered:
                self.context.offset(buffered)
            raise

    def _deliver(self, batch: list[SinkRecord]) -> None:
        generator = self._get_generator()
        try:
            result = generator.send(batch)
        except StopIteration as e:
            self._generator = None
            raise ConnectError(
                f"{self._code.name} has ended; the generator of a sink must take batches (records = yield) until it is closed"
            ) from e
        except FAILURES as e:
            self._generator = None
            raise self._code.failure(e, ConnectError) from e
        self._check_result(result)

    def _get_generator(self) -> Generator[None, list[SinkRecord], None]:
        """Returns the generator, suspended at ``yield``; creates a new one if an error ended the last one."""
        if self._generator is None:
            try:
                generator = self.connector.function(**self._arguments)
                result = next(generator)
            except StopIteration as e:
                raise ConnectError(f"{self._code.name} ended before it took a batch; it must loop over records = yield") from e
            except FAILURES as e:
                raise self._code.failure(e, ConnectError) from e
            self._generator = generator
            self._check_result(result)
        return self._generator

    def _check_result(self, result: object) -> None:
        if result is not None:
            found = f"{self._code.name} yielded a value of type {type(result).__name__}"
            raise ConnectError(f"{found}, expected None: a sink takes batches from yield (records = yield)")

    def pre_commit(self, offsets: Offsets) -> Offsets:
        if not self._is_generator or not self._unflushed:
            return offsets
        if self._generator is None:
            # Promise 2: an error ended it, and the records that it buffered will be consumed again, so they are not committed.
            return {
                topic_partition: min(offset, self._unflushed.get(topic_partition, offset))
                for topic_partition, offset in offsets.items()
            }
        self._deliver([])
        self._unflushed = {}
        return offsets

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        for topic_partition in partitions:
            self._unflushed.pop(topic_partition, None)

    def close(self) -> None:
        generator, self._generator = self._generator, None
        if generator is not None:
            try:
                generator.close()
            except FAILURES as e:
                raise self._code.failure(e, ConnectError) from e


@overload
def sink_connector(function: SinkFunction, /) -> type[FunctionSink]: ...


@overload
def sink_connector(
    *, config: type | ConfigDef | None = None, most_tasks: int | None = None, version: str = "unknown"
) -> Callable[[SinkFunction], type[FunctionSink]]: ...


def sink_connector(
    function: SinkFunction | None = None,
    /,
    *,
    config: type | ConfigDef | None = None,
    most_tasks: int | None = None,
    version: str = "unknown",
) -> Any:
    """Turns a function into a sink connector.

    A plain function takes ``records`` (a list of SinkRecord) or ``values`` (their values, with dicts for structs), and may take
    ``config`` and ``context`` (:class:`connect.sink.SinkTaskContext`). When it returns, the batch must be delivered durably. It
    may raise RetriableError to get the same batch again.

    A generator function takes ``config`` and ``context``, and gets batches, lists of SinkRecord, from ``yield``. Code before the
    loop is the setup; at the end, the generator is closed at its ``yield`` (GeneratorExit), so ``with`` and ``finally`` clean up.
    It may buffer records; an empty batch, sent before each offset commit, asks it to deliver everything durably. After a
    RetriableError it is called again, and gets all records since the last commit again.

    Records may be repeated after a crash. ``config`` is as for :func:`~connect.functions.source.source_connector`; ``most_tasks``
    is the maximum number of useful tasks, 1 for a sink that writes one file.

    Raises ConfigError if the function has an unknown parameter.
    """

    def decorate(function: SinkFunction) -> type[FunctionSink]:
        if not inspect.isfunction(function):
            raise ConfigError(f"sink_connector decorates {function!r}; expected a function")
        name = f"{function.__module__}:{function.__qualname__}"
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(f"{name} is async; expected a plain function, or a plain generator function")
        _read_parameters(function)
        connector_class: Any = type(
            function.__name__,
            (FunctionSink,),
            {
                "__module__": function.__module__,
                "__qualname__": function.__qualname__,
                "__doc__": function.__doc__,
                "version": version,
                "function": staticmethod(function),
                "settings": FunctionConfig(name, config),
                "code": UserCode.of(function),
                "most_tasks": most_tasks,
            },
        )
        members = {"__module__": function.__module__, "connector": connector_class}
        tasks = type(f"{function.__name__}Task", (FunctionSinkTask,), members)
        connector_class.tasks = tasks
        connector: type[FunctionSink] = connector_class
        return connector

    return decorate if function is None else decorate(function)


def _read_parameters(function: SinkFunction) -> list[str]:
    """The parameter names. Raises ConfigError for an unknown one, or if there is none for the batches."""
    names = list(inspect.signature(function).parameters)
    name = f"{function.__module__}:{function.__qualname__}"
    generator = inspect.isgeneratorfunction(function)
    offered = _PARAMETERS[2:] if generator else _PARAMETERS
    for one in names:
        if one not in offered:
            hint = " (a generator gets its records from yield)" if generator and one in _PARAMETERS else ""
            raise ConfigError(f"{name} has the parameter {one}; a sink function may take {', '.join(offered)}{hint}")
    if not generator and sum(one in names for one in ("records", "values")) != 1:
        raise ConfigError(f"{name} takes {', '.join(names) or 'nothing'}; a sink function takes either records or values")
    return names
