"""What the API says about itself in OpenAPI, versions 3 and 2, made from the records of the kinds that are served.

Documents are built once and kept by the handler; nothing here reads requests or the store.
"""

from fairway.server.openapi.documents import encoded, v2_document, v2_protobuf, v3_document, v3_index
from fairway.server.openapi.protobuf import ACCEPTED as PROTOBUF_ACCEPTED
from fairway.server.openapi.protobuf import CONTENT_TYPE as PROTOBUF_CONTENT_TYPE

__all__ = [
    "PROTOBUF_ACCEPTED",
    "PROTOBUF_CONTENT_TYPE",
    "encoded",
    "v2_document",
    "v2_protobuf",
    "v3_document",
    "v3_index",
]
