"""Objects of Kubernetes' own kinds that arrive in protobuf, because some clients send them in nothing else.

From 1.32 on, kubectl sends the objects that it makes itself (`kubectl create namespace`, `kubectl auth can-i`; not
those it reads from files) in protobuf, and does not try again with JSON. So Fairway reads it, but answers in JSON:

- `wire` takes bytes apart, knowing nothing of kinds;
- `messages` knows which number is which field, from data that `tools/protobuf/generate.py` writes;
- `values` are the few messages that JSON shows as something other than an object;
- `decoding` puts these together.

Nothing is ever written in protobuf, and custom kinds have no such form. Nothing here does I/O besides reading the
package's own data, which happens with the first such body.
"""

from fairway.server.protobuf.decoding import CONTENT_TYPE, decode

__all__ = ["CONTENT_TYPE", "decode"]
