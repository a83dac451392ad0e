"""Kubeconfig files: which servers there are, and how one is let in by them.

Files are read as kubectl reads them: of several, the first to name a context, cluster or user wins, and paths in a file
are relative to it. What would be silently ignored and change who one is, or who one talks to, is refused instead.
"""

import binascii
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from fairway.client.rest.errors import KubeconfigError

_LARGEST: Final = 4 << 20
_PATHS: Final = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
    "contexts": (),
}
_ONE: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}

IN_CLUSTER: Final = "in-cluster"
"""The context of a pod's service account; SkyPilot calls it so, too."""

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a kubelet mounts token, CA and namespace; the files are replaced before the token expires."""


class Endpoint(NamedTuple):
    """A server, as a cluster of a kubeconfig names it."""

    url: str
    https: bool
    host: str
    port: int
    base: str = ""
    """What the paths of the API begin with there, without a slash at its end."""

    authority: str = ""
    """The certificates to trust, as PEM; empty leaves that to this machine."""

    verify: bool = True
    server_name: str = ""
    plugin_config: Any = None
    """What the cluster has to say to plugins that make credentials."""

    @property
    def host_header(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class KubeContext(NamedTuple):
    """A context and what it stands for."""

    name: str
    namespace: str
    endpoint: Endpoint
    user: Mapping[str, Any]
    """As in the file, with absolute paths."""

    user_name: str
    source: str
    """The file that names it."""


class Kubeconfig:
    """What one or several files say together."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = list(paths)
        self._sections: dict[str, dict[str, tuple[dict[str, Any], Path]]] = {name: {} for name in _ONE}
        self.current = ""
        """The context to take if none is named; empty if the files do not say."""

        found = [read for path in self._paths if (read := _read(path)) is not None]
        if not found:
            raise KubeconfigError(f"{self._shown()}: there is no such file")
        for path, document in found:
            self._add(path, document)

    @property
    def names(self) -> list[str]:
        """All contexts, in the order of the files."""
        return list(self._sections["contexts"])

    def context(self, name: str = "") -> KubeContext:
        """A context by its name, the current one for an empty name; `KubeconfigError` if it cannot be used."""
        wanted = name or self.current
        if not wanted:
            raise KubeconfigError(f"{self._shown()}: no current-context; name one of {self._listed('contexts')}")
        context, path = self._entry("contexts", wanted, f"context {wanted!r}")
        cluster_name, user_name = _text(context, "cluster", path), _text(context, "user", path)
        cluster, cluster_path = self._entry("clusters", cluster_name, f"context {wanted!r}: cluster {cluster_name!r}")
        user: dict[str, Any] = {}
        if user_name:
            user, _ = self._entry("users", user_name, f"context {wanted!r}: user {user_name!r}")
        return KubeContext(
            name=wanted,
            namespace=_text(context, "namespace", path) or "default",
            endpoint=_endpoint(cluster, f"{cluster_path}: cluster {cluster_name!r}"),
            user=user,
            user_name=user_name,
            source=str(path),
        )

    def _add(self, path: Path, document: dict[str, Any]) -> None:
        current = document.get("current-context")
        if not self.current and isinstance(current, str):
            self.current = current
        for section, entries in self._sections.items():
            listed = document.get(section) or []
            if not isinstance(listed, list):
                raise KubeconfigError(f"{path}: {section}: a list is expected, not {type(listed).__name__}")
            for position, entry in enumerate(listed):
                where = f"{path}: {section}[{position}]"
                if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                    raise KubeconfigError(f"{where}: a mapping with a name is expected")
                value = entry.get(_ONE[section]) or {}
                if not isinstance(value, dict):
                    raise KubeconfigError(f"{where}.{_ONE[section]}: a mapping is expected")
                entries.setdefault(entry["name"], (_with_whole_paths(value, section, path), path))

    def _entry(self, section: str, name: str, what: str) -> tuple[dict[str, Any], Path]:
        found = self._sections[section].get(name)
        if found is None:
            raise KubeconfigError(f"{self._shown()}: there is no {what}; there is {self._listed(section)}")
        return found

    def _listed(self, section: str) -> str:
        names = list(self._sections[section])
        shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
        return shown or f"none in {section}"

    def _shown(self) -> str:
        return os.pathsep.join(str(path) for path in self._paths) or "kubeconfig"


def load(kubeconfig: Path | str) -> Kubeconfig:
    """Read a file, or several with `:` between them as in `$KUBECONFIG`; those that are not there are left out."""
    whole = Path(kubeconfig).expanduser()
    if os.pathsep not in str(kubeconfig) or whole.exists():
        return Kubeconfig([whole])
    return Kubeconfig(Path(part).expanduser() for part in str(kubeconfig).split(os.pathsep) if part)


def load_context(kubeconfig: Path | str, name: str = "") -> KubeContext:
    """A context of a kubeconfig; that of the pod's service account for none, or for `in-cluster`."""
    if str(kubeconfig) not in {"", IN_CLUSTER}:
        return load(kubeconfig).context(name)
    if name not in {"", IN_CLUSTER}:
        raise KubeconfigError(f"no kubeconfig is given, so there is no context {name!r}")
    return in_cluster()


def in_cluster(environment: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> KubeContext:
    """The service account of the pod that this process runs in; `KubeconfigError` if it does not run in one."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "")
    token, authority, namespace = (directory / name for name in ("token", "ca.crt", "namespace"))
    if not host or not port or not token.exists():
        raise KubeconfigError(
            "without a kubeconfig, the service account of a pod is used, and this process does not run in a pod with "
            f"one (KUBERNETES_SERVICE_HOST and {token}): name a kubeconfig with --kubeconfig"
        )
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    where = "service account"
    cluster = {"server": url, "certificate-authority": str(authority)}
    here = file_bytes(str(namespace), where).decode().strip() if namespace.exists() else ""
    user = {"tokenFile": str(token)}
    return KubeContext(IN_CLUSTER, here or "default", _endpoint(cluster, where), user, where, where)


def data_or_file(
    entry: Mapping[str, Any], field: str, where: str, read: Callable[[object, str], bytes] | None = None
) -> bytes:
    """What a field holds in place (`FIELD-data`, base64) or in the file that it names; empty if it does neither."""
    inline, path = entry.get(f"{field}-data"), entry.get(field)
    if inline:
        try:
            return binascii.a2b_base64(inline)
        except (binascii.Error, TypeError, ValueError):
            raise KubeconfigError(f"{where}: {field}-data: this is not base64") from None
    if not path:
        return b""
    return (read or file_bytes)(path, f"{where}: {field}")


def file_bytes(path: object, where: str) -> bytes:
    """A file that a kubeconfig names."""
    if not isinstance(path, str):
        raise KubeconfigError(f"{where}: the path of a file is expected, not {type(path).__name__}")
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{where}: {path} cannot be read: {error.strerror}") from None


def _read(path: Path) -> tuple[Path, dict[str, Any]] | None:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KubeconfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(text) > _LARGEST:
        raise KubeconfigError(f"{path}: larger than {_LARGEST >> 20} MiB, which is too large for a kubeconfig")
    document = _decoded(path, text)
    if document is None:
        return path, {}  # kubectl takes an empty file for one that says nothing
    if not isinstance(document, dict):
        raise KubeconfigError(f"{path}: a kubeconfig is a mapping, and this is {type(document).__name__}")
    return path, document


def _decoded(path: Path, text: bytes) -> Any:
    if text.lstrip()[:1] == b"{":  # as our own server writes it: JSON is YAML, and read in no time
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # YAML has such mappings too
    import yaml  # noqa: PLC0415 - not needed for the kubeconfig of our own server, and slow to import

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 - one of the two safe ones
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        last = text.count(b"\n")
        line = f":{min(mark.line, last) + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise KubeconfigError(f"{path}{line}: not YAML: {problem}") from None


def _with_whole_paths(value: dict[str, Any], section: str, path: Path) -> dict[str, Any]:
    base = path.absolute().parent
    whole = {field: str(base / value[field]) for field in _PATHS[section] if isinstance(value.get(field), str)}
    result = {**value, **{field: absolute for field, absolute in whole.items() if value[field]}}
    plugin = value.get("exec")
    if isinstance(plugin, dict) and isinstance(plugin.get("command"), str) and "/" in plugin["command"]:
        result["exec"] = {**plugin, "command": str(base / plugin["command"])}
    return result


def _text(entry: Mapping[str, Any], field: str, where: object) -> str:
    value = entry.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise KubeconfigError(f"{where}: {field}: a text is expected, not {value!r}")
    return value


def _endpoint(cluster: Mapping[str, Any], where: str) -> Endpoint:
    if cluster.get("proxy-url"):
        raise KubeconfigError(f"{where}: proxy-url: proxies are not supported; give the address of the server itself")
    url = _text(cluster, "server", where)
    if not url:
        raise KubeconfigError(f"{where}: server: it is missing, such as https://127.0.0.1:7437")
    if "@" in url:  # not shown: it may be a password
        raise KubeconfigError(f"{where}: server: there is a user in the address; write them below `users`")
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
        host = _ascii(parts.hostname or "")
    except ValueError:
        raise KubeconfigError(f"{where}: server: {url!r} is no address such as https://127.0.0.1:7437") from None
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise KubeconfigError(f"{where}: server: {url!r} is no address such as https://127.0.0.1:7437")
    https = parts.scheme == "https"
    authority = data_or_file(cluster, "certificate-authority", where)
    try:
        pem = authority.decode("ascii")
    except UnicodeDecodeError:
        raise KubeconfigError(f"{where}: certificate-authority: this is not a certificate in PEM") from None
    return Endpoint(
        url=url,
        https=https,
        host=host,
        port=port or (443 if https else 80),
        base=parts.path.rstrip("/"),
        authority=pem,
        verify=cluster.get("insecure-skip-tls-verify") is not True,
        server_name=_ascii(_text(cluster, "tls-server-name", where)),
        plugin_config=_plugin_config(cluster),
    )


def _plugin_config(cluster: Mapping[str, Any]) -> Any:
    extensions = cluster.get("extensions")
    for extension in extensions if isinstance(extensions, list) else ():
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            return extension.get("extension")
    return None


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode("ascii")
