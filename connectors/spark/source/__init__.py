"""The Spark source: lake tables become topics."""
