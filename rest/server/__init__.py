"""The HTTP server: listeners, connections, TLS, and thread pools."""
