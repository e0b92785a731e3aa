"""``connectors.dir``: a directory of connector files as the desired state."""
