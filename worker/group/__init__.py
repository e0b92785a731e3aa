"""Membership of a worker in its group: what members say to each other, who gets which work, and the seat at Kafka's table."""
