"""Membership of a worker in its group: the group protocol, assignment, and the client of Kafka's group coordinator."""
