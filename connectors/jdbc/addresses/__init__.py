"""What a database's address says, form by form. Pure. ``connectors.jdbc.urls`` is the front."""
