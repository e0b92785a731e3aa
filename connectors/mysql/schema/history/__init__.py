"""The schema history: DDL and the tables that follow from it, by position, in Debezium's format.

Use::

    store = open_store(config.history, context.open_owned_topic)
    history = SchemaHistory(store, {"server": prefix}, config.history, config.binlog.reads_source)
    if not history.exists(): ...                                    # take a snapshot of the tables
    recovered = history.recover(stored_offset, ddl_context)         # tables, database_charsets
    history.record(offset, database, ddl, changes, ts_ms=...)       # returns when it is durable
"""
