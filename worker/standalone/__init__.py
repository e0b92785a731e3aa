"""The standalone worker: configs and statuses in memory, source offsets in a file."""
