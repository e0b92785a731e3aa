"""The executor that a worker's settings ask for."""

from __future__ import annotations

from connect.plugins import Plugins
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import Executor, ExecutorListener, WorkerServices


def make_executor(
    config: WorkerConfig,
    plugins: Plugins | None,
    services: WorkerServices,
    listener: ExecutorListener,
    mask: SecretMask,
) -> Executor:
    """Processes, or with ``task.executors=0`` threads of this process, which need the plugins of this process."""
    # Only the one that is wanted is imported: what tasks need is a good part of what a worker is made of, and a control process
    # does without it.
    if config.task_executors == 0:
        from worker.executors.local import LocalExecutor

        return LocalExecutor(config, plugins or Plugins.discover(), services, listener, mask)
    from worker.executors.pool import ExecutorPool

    return ExecutorPool(config, services, listener, mask)
