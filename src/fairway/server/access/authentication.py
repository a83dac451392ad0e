"""From the header of a request to the user who sent it."""

from fairway.errors import Unauthorized
from fairway.server.access.roles import ANONYMOUS, User
from fairway.server.access.users import Users


def authenticate(users: Users, authorization: str | None) -> User:
    """The user with the bearer token in this `Authorization` header; without one, somebody unknown.

    A token that is wrong, revoked or expired is refused even where nobody needs one: whoever sends it wants to know.
    """
    scheme, _, token = (authorization or "").strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        return ANONYMOUS
    user = users.find(token)
    if user is None:
        raise Unauthorized("Unauthorized")
    return user
