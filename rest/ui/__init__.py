"""The web page at ``/ui``: static files, and a proxy for clusters whose workers have no page."""
