"""One module a database: its catalogue, types, SQL forms, and its driver's fastest ways to read and write."""
