"""Config tests: YAML files next to connector files, with records and expected results. Format: docs/config-tests.md."""

from sluice.config_tests.run import ConfigTestResult, format_result, format_summary, run_files

__all__ = ["ConfigTestResult", "format_result", "format_summary", "run_files"]
