"""Finds errors and likely mistakes in worker and connector configurations, offline.

``sluice lint`` runs :func:`check_files`; :func:`check_connector` checks a configuration from elsewhere. REST validation
(:mod:`worker.validation`) checks the values. Lint adds findings that validation has no place for: keys that nothing reads, and
combinations that work but lose or duplicate records.
"""

from worker.lint.codes import CODES, Code
from worker.lint.connector import check_connector
from worker.lint.files import LintReport, check_files
from worker.lint.worker import check_worker

__all__ = ["CODES", "Code", "LintReport", "check_connector", "check_files", "check_worker"]
