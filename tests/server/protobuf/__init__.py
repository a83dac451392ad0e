"""Bodies in protobuf: what real programs send, and what nobody should."""
