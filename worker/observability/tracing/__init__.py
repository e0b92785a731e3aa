"""OpenTelemetry traces of tasks: a trace per batch, whose context travels in record headers.

Nothing here is imported unless ``tracing.enabled`` is set, except :mod:`worker.observability.tracing.setup`, which imports the
rest when it is needed.
"""
