"""The main job on embedded parts, from start to proof: PostgreSQL -> Kafka -> Delta tables."""
