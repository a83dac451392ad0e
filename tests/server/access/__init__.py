"""Users, roles, reviews and the audit log."""
