"""Conflicts between writers of one table."""

from __future__ import annotations


class CommitConflict(Exception):
    """Another writer committed something that this commit depends on. Nothing was committed."""


class TableNotLocked(Exception):
    """The catalog did not lock the table for this commit. Nothing was committed."""
