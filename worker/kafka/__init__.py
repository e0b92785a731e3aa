"""The one home of the Kafka client: producers, consumers, admin."""
