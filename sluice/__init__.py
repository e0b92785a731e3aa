"""Sluice: Kafka Connect for Python. The command line, and the embedded broker and database for a first run."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("sluice-connect")
except PackageNotFoundError:  # imported from a checkout that was never installed
    __version__ = "0.0.0"
