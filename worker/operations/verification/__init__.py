"""The schedule of ``sluice verify``: connectors with ``verify.interval.ms`` are verified by the worker that runs them."""
