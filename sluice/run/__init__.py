"""The commands that run a worker: connect-standalone and connect-distributed."""
