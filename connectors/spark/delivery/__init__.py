"""From consumed records to table commits: buffering, routing, scheduling, and offsets."""
