"""Config providers: where the values behind ``${provider:path:key}`` come from."""
