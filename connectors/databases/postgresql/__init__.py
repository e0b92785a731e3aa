"""PostgreSQL: text forms of arrays, dates, and times."""
