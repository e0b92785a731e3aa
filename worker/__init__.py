"""The engine: runs tasks, standalone or distributed; offsets, configs, statuses, membership, executors."""
