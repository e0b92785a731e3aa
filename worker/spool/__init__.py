"""Runs one source connector with all of its tasks into a spool (:mod:`connect.spool`): ``python -m worker.spool``.

Connector, tasks, converters, transformations, and error handling are those of a worker. Only the producer
(:mod:`worker.spool.producer`) and the offset store (:mod:`worker.spool.offset_store`) differ.
"""
