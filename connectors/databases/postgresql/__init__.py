"""PostgreSQL's text formats: COPY fields, arrays, dates, and times."""
