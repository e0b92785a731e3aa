"""The format of spools: durable segments of a source connector's records on a disk, from a worker to one reader.

A spool is a directory with one writer (:mod:`worker.spool`) and one reader (``connectors.spark.datasource``)::

    index.jsonl          the segments in order, each with the source offsets of its end (:mod:`connect.spool.index`)
    segment-<n>.arrow    the records of one task in Arrow's file format (:mod:`connect.spool.segments`)
    confirmed.json       the position up to which the reader has committed (:mod:`connect.spool.positions`)
    planned.json         the position up to which it has planned to read
    loaded.json          the position up to which a load was read
    status.json          the state of the writer, with its error (:mod:`connect.spool.status`)
    writer.lock          the locks of both, with process and host (:mod:`connect.spool.locks`)
    reader.lock

A segment belongs to the spool once its line in the index is durable. So the index is the offset store of the source: records
are in the spool together with their source offset, or not at all.
"""
