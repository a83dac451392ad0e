"""A read-only image registry over an OCI image layout, on loopback inside the node.

containerd sends every pull here, whatever registry the name of the image begins with, and says which one in `?ns=`.
So `imagePullPolicy: Always` works, and an image that is made while the cluster runs is found at the next pull.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tools.cluster.oci import MANIFEST, Layout

_PATH = re.compile(r"/v2/(?P<repository>.+)/(?P<kind>manifests|blobs)/(?P<reference>[^/]+)")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    layout: Layout

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        if url.path == "/v2/":
            self._head(200, 0)
            return
        found = _PATH.fullmatch(url.path)
        digest = "" if found is None else self._digest(parse_qs(url.query).get("ns", ["docker.io"])[0], found)
        path = self.layout.blob(digest)
        if found is None or not digest or not path.is_file():
            self._head(404, 0)
            return
        is_manifest = found["kind"] == "manifests"
        with path.open("rb") as content:
            self._head(200, path.stat().st_size, MANIFEST if is_manifest else "application/octet-stream", digest)
            if with_body:
                shutil.copyfileobj(content, self.wfile, 1 << 20)

    def _digest(self, host: str, found: re.Match[str]) -> str:
        reference = found["reference"]
        if _DIGEST.fullmatch(reference):
            return reference
        entry = self.layout.images().get(f"{host}/{found['repository']}:{reference}")
        return "" if entry is None else str(entry["digest"])

    def _head(self, code: int, size: int, media_type: str = "application/json", digest: str = "") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(size))
        self.send_header("Content-Type", media_type)
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()


def handler_of(layout: Layout) -> type[BaseHTTPRequestHandler]:
    """A handler for the images of this layout."""
    return type("Handler", (_Handler,), {"layout": layout})


def main(arguments: Sequence[str]) -> None:
    """Serve the images of a directory on a port of loopback."""
    directory, port = arguments
    ThreadingHTTPServer(("127.0.0.1", int(port)), handler_of(Layout(Path(directory)))).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
