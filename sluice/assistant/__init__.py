"""``sluice mcp``: a server of the Model Context Protocol, through which assistants look at Connect clusters and check configs."""
