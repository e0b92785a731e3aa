"""Benchmarks: each prints one JSON line with its result and a baseline measured in the same run. ``make bench`` runs them all."""
