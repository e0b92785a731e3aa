"""One package or module per database: catalog, types, SQL, and the driver's fastest ways to read and write."""
