"""Metrics of a worker and its tasks, and the page that Prometheus reads."""
