"""Parses JDBC and SQLAlchemy URLs. Pure functions; the entry point is ``connectors.jdbc.urls.connection_url``."""
