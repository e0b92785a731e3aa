"""The REST API over the herder, its server, and its client."""
