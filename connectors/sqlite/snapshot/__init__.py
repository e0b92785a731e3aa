"""Snapshots: tables that are read in the order of their keys, between changes."""
