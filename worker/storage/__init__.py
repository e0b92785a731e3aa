"""The stores of configs, statuses, and source offsets: in internal topics, or for offsets in a file."""
