"""Security of the REST API: authentication, roles, masking of secrets, and the audit log."""
