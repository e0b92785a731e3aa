"""The plugs: one package per system. Each imports `connect` and is found by name at run time."""
