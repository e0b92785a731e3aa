"""The check engine: what is wrong, doubtful or worth knowing about configurations, without a broker or anything else outside.

``sluice lint`` shows its findings for files; whatever takes configurations in another way asks :func:`check_connector`. It is
here and not in the command line, for REST and the UI may ask too. Values are judged by the tables and rules of REST validation
(:mod:`worker.validation`); what is added is what validation has no place for: keys that nobody reads, and combinations that
work but lose something.
"""

from worker.lint.codes import CODES, Code
from worker.lint.connector import check_connector
from worker.lint.files import Report, check_files
from worker.lint.worker import check_worker

__all__ = ["CODES", "Code", "Report", "check_connector", "check_files", "check_worker"]
