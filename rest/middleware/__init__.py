"""Layers in front of the routes: Jetty compatibility, CORS, headers, authentication."""
