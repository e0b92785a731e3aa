"""Delta tables: reads their log, writes their files, and commits through Delta's own transaction."""
