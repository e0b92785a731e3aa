"""A function as a sink connector: one that takes a batch, or a generator that is sent one batch after the other.

    @sink_connector(config=Config)
    def totals(records, config):       # called with each batch; when it returns, the batch is delivered
        ...

    @sink_connector(config=Config)
    def lines(config):                 # a generator: set-up, batches, tear-down
        with open(config.path, "a") as file:
            while True:
                records = yield
                file.writelines(f"{record.value}\\n" for record in records)
                file.flush()

The name is a class then, as any other sink connector: ``connector.class=module:totals``. The function itself is
``totals.function``. Everything runs on the task's thread.
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
    """What :func:`sink_connector` derives its classes from."""

    function: ClassVar[SinkFunction]
    """The function itself, for tests."""
    settings: ClassVar[FunctionConfig]
    code: ClassVar[UserCode]
    tasks: ClassVar[type[FunctionSinkTask]]

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return self.settings.table

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
        """Nothing runs beside the tasks."""


class FunctionSinkTask(SinkTask):
    """Hands batches to the function, or to its generator."""

    connector: ClassVar[type[FunctionSink]]

    def __init__(self) -> None:
        self._generator: Generator[None, list[SinkRecord], None] | None = None
        self._unflushed: Offsets = {}
        """For a generator, which may hold records back: per partition the first offset since the last flush."""

    def start(self, config: Mapping[str, str]) -> None:
        function = self.connector.function
        self._code = self.connector.code
        offered = {"config": self.connector.settings.read(config), "context": self.context}
        wanted = _read_parameters(function)
        self._arguments = {name: offered[name] for name in wanted if name in offered}
        self._is_generator = inspect.isgeneratorfunction(function)
        self._takes = next((name for name in wanted if name not in offered), "records")
        if self._is_generator:
            self._running()

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        if self._is_generator:
            self._send(records)
            return
        given = [plain_copy(record.value) for record in records] if self._takes == "values" else list(records)
        try:
            answer = self.connector.function(**{self._takes: given}, **self._arguments)
        except FAILURES as e:
            raise self._code.failure(e, ConnectError) from e
        if answer is not None:
            found = f"{self._code.name} returned a value of type {type(answer).__name__}"
            raise ConnectError(f"{found}, expected nothing: when it returns, its batch is delivered")

    def _send(self, records: Sequence[SinkRecord]) -> None:
        held = dict(self._unflushed)
        for record in records:
            place = TopicPartition(record.original_topic, record.original_partition)
            if place not in self._unflushed:
                self._unflushed[place] = record.offset
        try:
            self._deliver(list(records))
        except RetriableError:
            # The generator has ended by that, and with it whatever it held back of earlier batches: they are read again.
            if held:
                self.context.offset(held)
            raise

    def _deliver(self, batch: list[SinkRecord]) -> None:
        generator = self._running()
        try:
            answer = generator.send(batch)
        except StopIteration as e:
            self._generator = None
            raise ConnectError(
                f"{self._code.name} has ended; a sink's generator takes batches (records = yield) until closed"
            ) from e
        except FAILURES as e:
            self._generator = None
            raise self._code.failure(e, ConnectError) from e
        self._check(answer)

    def _running(self) -> Generator[None, list[SinkRecord], None]:
        """The generator, at its ``yield``; made anew when the last one has ended by an error."""
        if self._generator is None:
            try:
                generator = self.connector.function(**self._arguments)
                answer = next(generator)
            except StopIteration as e:
                raise ConnectError(
                    f"{self._code.name} ended before it took a batch; it needs a loop around records = yield"
                ) from e
            except FAILURES as e:
                raise self._code.failure(e, ConnectError) from e
            self._generator = generator
            self._check(answer)
        return self._generator

    def _check(self, answer: object) -> None:
        if answer is not None:
            found = f"{self._code.name} yielded a value of type {type(answer).__name__}"
            raise ConnectError(f"{found}, expected nothing: a sink takes what yield gives (records = yield)")

    def pre_commit(self, offsets: Offsets) -> Offsets:
        if not self._is_generator or not self._unflushed:
            return offsets
        if self._generator is None:
            # It has ended by an error. What it held back is about to come again, and is not to be committed (promise 2).
            return {place: min(offset, self._unflushed.get(place, offset)) for place, offset in offsets.items()}
        self._deliver([])
        self._unflushed = {}
        return offsets

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        for place in partitions:
            self._unflushed.pop(place, None)

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
    """Makes a function a sink connector.

    A plain function takes ``records`` (a list of SinkRecord) or ``values`` (their values, dicts for structs), and may take
    ``config`` and ``context`` (:class:`connect.sink.SinkTaskContext`). When it returns, the batch is delivered and durable. It
    may raise RetriableError to be given the same batch again.

    A generator function takes ``config`` and ``context``, and gets its batches, lists of SinkRecord, from ``yield``. What comes
    before the loop is set-up; at the end it is closed where it stands (GeneratorExit), so ``with`` and ``finally`` tear down. It
    may hold records back; an empty batch, which comes before each commit of offsets, means: deliver everything now, durably.
    When it raises RetriableError it is called anew, and gets again all since the last commit.

    Records may come again after a crash. ``config`` is as for :func:`~connect.functions.source.source_connector`; ``most_tasks``
    is the highest number of tasks that makes sense, 1 for a sink that writes one file.

    Raises ConfigError when the function asks for what there is not.
    """

    def decorate(function: SinkFunction) -> type[FunctionSink]:
        if not inspect.isfunction(function):
            raise ConfigError(f"sink_connector decorates {function!r}; expected a function")
        name = f"{function.__module__}:{function.__qualname__}"
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(f"{name} is async; expected a plain function, or a plain generator function")
        _read_parameters(function)
        made: Any = type(
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
        tasks = type(f"{function.__name__}Task", (FunctionSinkTask,), {"__module__": function.__module__, "connector": made})
        made.tasks = tasks
        connector: type[FunctionSink] = made
        return connector

    return decorate if function is None else decorate(function)


def _read_parameters(function: SinkFunction) -> list[str]:
    """The parameters it asks for, by name. Raises ConfigError when there is no such thing, or nothing to take batches with."""
    names = list(inspect.signature(function).parameters)
    name = f"{function.__module__}:{function.__qualname__}"
    generator = inspect.isgeneratorfunction(function)
    offered = _PARAMETERS[2:] if generator else _PARAMETERS
    for one in names:
        if one not in offered:
            hint = " (a generator gets its records from yield)" if generator and one in _PARAMETERS else ""
            raise ConfigError(f"{name} asks for {one}; a sink function gets {', '.join(offered)}{hint}")
    if not generator and sum(one in names for one in ("records", "values")) != 1:
        raise ConfigError(f"{name} takes {', '.join(names) or 'nothing'}; a sink function takes records or values, one of them")
    return names
