"""The shop's databases: one module for each kind, and what the demo needs to know about them."""
