"""The kubeconfig of a state directory: how kubectl and everybody else on this machine reach the server."""

import base64
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from fairway.server.access.roles import Binding, Role
from fairway.server.access.users import Users

ADMIN = "admin"
_NAME = "fairway"


def kubeconfig(url: str, user: str, token: str, authority: Path | None = None) -> dict[str, Any]:
    """The document that lets a user in; `authority` is the certificate to trust, `None` leaves that to the machine."""
    cluster: dict[str, Any] = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    context = {"cluster": _NAME, "user": user, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": _NAME, "context": context}],
        "current-context": _NAME,
    }


def write_kubeconfig(path: Path, url: str, token: str, authority: Path | None) -> None:
    """Write the administrator's kubeconfig, whole or not at all, for the owner's eyes only."""
    # As JSON, which is YAML too: kubectl reads either, and our own command line need not load a YAML reader first.
    text = json.dumps(kubeconfig(url, ADMIN, token, authority), indent=2) + "\n"
    handle, name = tempfile.mkstemp(prefix=".kubeconfig-", dir=path.parent)  # made with mode 0600
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def admin_token(path: Path, users: Users) -> str:
    """The administrator's token: the one in the kubeconfig while it is good, else a new one."""
    token = _token_in(path)
    if token:
        user = users.find(token)
        if user is not None and user.name == ADMIN:
            return token
    if users.get(ADMIN) is None:
        return users.add(ADMIN, (Binding(Role.ADMIN),))
    return users.add_token(ADMIN)


def _token_in(path: Path) -> str:
    try:
        document = yaml.safe_load(path.read_text())
        token = document["users"][0]["user"]["token"]
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        return ""
    return token if isinstance(token, str) else ""
