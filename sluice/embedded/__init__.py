"""The embedded parts of a first run: Java, jars, a real Apache Kafka broker and a real PostgreSQL server.

Nothing here is meant for production; production brings its own broker and database. Submodules are imported where they are
used, so that ``sluice --help`` pays for none of them.
"""
