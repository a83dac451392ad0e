"""What all kinds are made of: quantities, metadata, schemas and their walker, columns, documents, field errors.

Nothing here knows a single kind.
"""
