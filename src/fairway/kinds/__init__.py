"""What the API serves: every kind with its names, versions, schema, columns and rules, declared once."""
