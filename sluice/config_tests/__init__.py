"""Config tests: YAML files beside connector files, with what these make of records. Their format: docs/config-tests.md."""

from sluice.config_tests.run import Result, run_files, summary, text_of

__all__ = ["Result", "run_files", "summary", "text_of"]
