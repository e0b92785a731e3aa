"""The internal topics of a distributed worker as three stores: configurations, statuses, source offsets."""
