"""The web page: its files, and the sessions of those who look at it. All it shows comes from the API."""

from fairway.server.page.page import WebPage

__all__ = ["WebPage"]
