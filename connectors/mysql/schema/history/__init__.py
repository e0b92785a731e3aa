"""The schema history: DDL and the tables that follow from it, by position, in Debezium's format.

Use::

    settings = SchemaHistorySettings.parse(config)
    history = SchemaHistory(open_store(config, context.open_owned_topic), {"server": prefix}, settings, PositionComparison(...))
    if not history.exists(): ...                                    # take a snapshot of the tables
    recovered = history.recover(stored_offset, ddl_context)         # tables, database_charsets
    history.record(offset, database, ddl, changes, ts_ms=...)       # returns when it is durable
"""
