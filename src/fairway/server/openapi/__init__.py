"""What the API says about itself in OpenAPI, versions 3 and 2, made from the records of the kinds that are served.

Documents are made once and kept by whoever serves them; nothing here reads requests or the store.
"""
