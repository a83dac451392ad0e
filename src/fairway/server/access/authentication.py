"""From the header of a request to the user who sent it."""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

from fairway.errors import Unauthorized
from fairway.server.access.roles import ANONYMOUS, User
from fairway.server.access.users import Token, Users

_LOOK_EVERY_SECONDS: Final = 0.02
"""A user who is removed is refused after this long at the latest."""


class Authentication:
    """Who sends which `Authorization` header."""

    def __init__(self, users: Users, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._monotonic = monotonic
        self._looked_at = -1.0

    def user(self, header: bytes) -> User:
        """The user with the bearer token in this header; without one, the anonymous user.

        A token that is wrong, revoked or expired is refused even where none is needed: its sender wants to
        know.
        """
        return self.identify(header)[0]

    def identify(self, header: bytes) -> tuple[User, Token | None]:
        """The same with what is kept of the token; `None` for the anonymous user."""
        self.generation()
        return self._found(header.decode("latin-1"))

    def generation(self) -> int:
        """Another number whenever the users have changed."""
        now = self._monotonic()
        if now - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._looked_at = now
            self._users.refresh()
        return self._users.generation

    def expires(self, header: bytes) -> datetime | None:
        """When the token in this header expires, if it ever does; `Unauthorized` if it is no longer accepted."""
        _, token = self._found(header.decode("latin-1"))
        return token.expires if token is not None else None

    def _found(self, authorization: str) -> tuple[User, Token | None]:
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS, None
        found = self._users.kept(token)
        if found is None:
            self._users.refresh()  # the token may be newer than the last look
            found = self._users.kept(token)
        if found is None:
            raise Unauthorized("Unauthorized")
        return found
