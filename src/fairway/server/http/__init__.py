"""HTTP/1.1 and HTTP/2 for one handler: each request is an `Exchange`, whatever version it came by."""

from fairway.server.http.exchange import Exchange, Handler

__all__ = ["Exchange", "Handler"]
