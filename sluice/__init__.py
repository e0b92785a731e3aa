"""Sluice: Kafka Connect for Python. The command line, and an embedded broker and database for first runs."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("sluice-connect")
except PackageNotFoundError:  # imported from a checkout that is not installed
    __version__ = "0.0.0"
