"""The door: the REST API over the herder, and later the pages it serves."""
