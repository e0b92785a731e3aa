"""Where connectors and their tasks run: in this process, or in processes beside it."""
