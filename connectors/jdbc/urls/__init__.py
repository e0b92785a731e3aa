"""What a database's address says, form by form. Pure. ``connectors.jdbc.urls.connection_url`` is the front."""
