"""Creates the executor that the worker's config asks for."""

from __future__ import annotations

from connect.addresses import install_address_rules
from connect.paths import install_path_rules
from connect.plugin_rules import install_plugin_rules
from connect.plugins import Plugins
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import Executor, ExecutorListener, WorkerServices
from worker.observability.tracing.setup import check_tracing, start_tracing


def make_executor(
    config: WorkerConfig,
    plugins: Plugins | None,
    services: WorkerServices,
    listener: ExecutorListener,
    mask: SecretMask,
) -> Executor:
    """Returns a pool of processes, or with ``task.executors=0`` an executor on threads, which needs this process's plugins.

    Raises MissingExtraError or ConfigError if tasks are to be traced and cannot be.
    """
    check_tracing(config)
    install_address_rules(config.address_rules)
    install_path_rules(config.path_rules)
    install_plugin_rules(config.plugin_rules)
    # Only the one that is needed is imported: tasks need a large part of the worker's modules, the control process does not.
    if config.task_executors == 0:
        from worker.executors.local import LocalExecutor

        allowed = (plugins or Plugins.discover()).restricted(config.plugin_rules)
        tracing = start_tracing(config, mask)
        return LocalExecutor(config, allowed, services, listener, mask, tracing=tracing, checks_stalls=True)
    from worker.executors.pool import ExecutorPool

    return ExecutorPool(config, services, listener, mask)
