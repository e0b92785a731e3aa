"""Incremental snapshots: tables read in chunks while changes are streamed."""
