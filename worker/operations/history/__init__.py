"""The config history: earlier configurations of connectors, which can be listed and restored."""
