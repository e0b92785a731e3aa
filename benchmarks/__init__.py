"""Benchmarks: each prints one JSON line, beside its limit in the same run. ``make bench`` runs them all."""
