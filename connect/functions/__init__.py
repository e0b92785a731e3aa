"""Plain Python functions as connectors, transformations, and predicates."""
