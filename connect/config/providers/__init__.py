"""Config providers: sources of the values of references ``${provider:path:key}``."""
