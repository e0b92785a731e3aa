"""Decodes and writes records in Spark's executors; the driver, which is the sink task, commits (``spark.engine=executors``)."""
