"""The refusal of a request that the user's roles do not allow, in Kubernetes' words."""

import json

from fairway.errors import Forbidden
from fairway.server.access.roles import User, allowed, allowed_path


def authorize(
    user: User, *, verb: str, group: str, resource: str, subresource: str = "", namespace: str = "", name: str = ""
) -> None:
    """Raises `Forbidden` unless the user may do this."""
    if allowed(
        user, verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    ):
        return
    what = f"{resource}.{group}" if group else resource
    full = f"{resource}/{subresource}" if subresource else resource
    inside = name if resource == "namespaces" and not group else namespace
    where = f"in the namespace {_quoted(inside)}" if inside else "at the cluster scope"
    details: dict[str, object] = {"name": name, "group": group, "kind": resource}
    raise Forbidden(
        f"{what}{f' {_quoted(name)}' if name else ''} is forbidden: User {_quoted(user.name)} cannot {verb} "
        f"resource {_quoted(full)} in API group {_quoted(group)} {where}",
        details={key: value for key, value in details.items() if value},
    )


def authorize_path(user: User, *, verb: str, path: str) -> None:
    """The same for a path that is no object; the verb is the HTTP method in lower case."""
    if not allowed_path(user, verb=verb, path=path):
        raise Forbidden(f"forbidden: User {_quoted(user.name)} cannot {verb} path {_quoted(path)}", details={})


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
