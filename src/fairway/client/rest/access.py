"""Authentication at the server of a context: headers, client certificates and trusted authorities.

Files (token, client certificate and key) are read again when they change, as rotated credentials need it; so is the
CA after a failed connection. Shared by all connections to that server, from any thread.
"""

import binascii
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from fairway.client.rest.errors import KubeconfigError
from fairway.client.rest.http import Address
from fairway.client.rest.kubeconfig import KubeContext, data_or_file, file_bytes

if TYPE_CHECKING:
    import ssl

    from fairway.client.rest.plugins import Made

_SECONDS_BEFORE_EXPIRY: Final = 5.0
_SETTLED_SECONDS: Final = 2.0
"""A file that changed more recently is read every time: a second change could leave the same time and size."""


class _Files:
    """The content of files, read again when they change."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._read: dict[str, tuple[tuple[int, int, int], bytes]] = {}

    def content(self, path: object, where: str) -> bytes:
        try:
            found = os.stat(path) if isinstance(path, str) else None  # noqa: PTH116 - for every request
        except OSError:
            found = None
        if found is None or not isinstance(path, str):
            return file_bytes(path, where)  # says what is wrong
        stamp = (found.st_ino, found.st_mtime_ns, found.st_size)
        held = self._read.get(path)
        if held is not None and held[0] == stamp:
            return held[1]
        content = file_bytes(path, where)
        if self._now() - found.st_mtime > _SETTLED_SECONDS:
            self._read[path] = stamp, content
        return content


class Access:
    """The address of a server and the credentials for it, made when they are first needed."""

    def __init__(
        self,
        context: KubeContext,
        now: Callable[[], float] = time.time,
        reread: Callable[[], KubeContext] | None = None,
    ) -> None:
        """`reread` loads the context again: a restarted server may listen elsewhere, or have another CA."""
        self.context = context
        self._reread = reread
        self._user = context.user
        self._where = f"{context.source}: user {context.user_name!r}"
        self._now = now
        self._lock = threading.Lock()
        self._files = _Files(now)
        self._made: Made | None = None
        self._address: Address | None = None
        self._pair: tuple[bytes, bytes] | None = None
        """The client certificate of `_address` and its key."""

        if self._user.get("auth-provider"):
            raise KubeconfigError(f"{self._where}: auth-provider: not supported; use exec or a token")

    @property
    def runs_plugin(self) -> bool:
        """Whether `address` and `headers` may run an exec plugin now, and so must not be called on an event loop."""
        return isinstance(self._user.get("exec"), dict) and self._is_expiring(2 * _SECONDS_BEFORE_EXPIRY)

    def address(self) -> Address:
        """Where to connect to, and how; another object when the client certificate has changed."""
        with self._lock:
            made = self._credentials()
            endpoint = self.context.endpoint
            if not endpoint.https:
                self._address = self._address or self._new_address(None)
                return self._address
            try:
                pair = self._certificate(made)
                if self._address is None or pair != self._pair:
                    self._address, self._pair = self._new_address(self._tls(pair)), pair
            except KubeconfigError:
                if self._address is None or made is not None:
                    raise  # else the files are being replaced: the certificate of before may still do
            return self._address

    def _new_address(self, tls: "ssl.SSLContext | None") -> Address:
        endpoint = self.context.endpoint
        return Address(endpoint.host, endpoint.port, tls, endpoint.server_name, endpoint.host_header)

    def headers(self) -> list[tuple[str, str]]:
        """Who one is."""
        with self._lock:
            made = self._credentials()
        headers = self._impersonation()
        token = made.token if made else self._token()
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        elif self._user.get("username"):
            pair = f"{self._user['username']}:{self._user.get('password') or ''}"
            headers.append(("Authorization", f"Basic {binascii.b2a_base64(pair.encode(), newline=False).decode()}"))
        return headers

    def renew(self) -> bool:
        """After a 401: whether the request may be repeated, because a plugin or a file may have other credentials."""
        with self._lock:
            self._made = None
            return isinstance(self._user.get("exec"), dict) or any(
                self._user.get(field) for field in ("tokenFile", "client-certificate")
            )

    def moved(self) -> bool:
        """After a failed connection: whether the server's address or credentials have changed."""
        if self._reread is None:
            return False
        try:
            context = self._reread()
        except KubeconfigError:  # it is being written, or gone: what was known is all there is
            return False
        with self._lock:
            if context == self.context:
                return False
            self.context = context
            self._user = context.user
            self._made = None
            self._address = None
            return True

    def _credentials(self) -> "Made | None":
        plugin = self._user.get("exec")
        if not isinstance(plugin, dict):
            return None
        if self._is_expiring(_SECONDS_BEFORE_EXPIRY):
            from fairway.client.rest import plugins  # noqa: PLC0415 - most users have none

            made = plugins.credentials(plugin, self.context.endpoint, self._where)
            self._checked(made.token, "exec")
            self._made = made
        return self._made

    def _is_expiring(self, seconds: float) -> bool:
        """Whether the credentials of an exec plugin are missing, or end within so many seconds."""
        made = self._made
        return made is None or (made.expires is not None and self._now() >= made.expires - seconds)

    def _token(self) -> str:
        if self._user.get("tokenFile"):
            content = self._files.content(self._user["tokenFile"], f"{self._where}: tokenFile")
            return self._checked(content.decode("latin-1").strip(), "tokenFile")
        return self._checked(self._user.get("token") or "", "token")

    def _checked(self, token: object, field: str) -> str:
        if not isinstance(token, str) or not token.isascii() or any(not "!" <= letter <= "~" for letter in token):
            raise KubeconfigError(f"{self._where}: {field}: a token is letters, digits and signs without spaces")
        return token

    def _impersonation(self) -> list[tuple[str, str]]:
        user, groups, uid = (self._user.get(field) for field in ("as", "as-groups", "as-uid"))
        extra = self._user.get("as-user-extra") or {}
        if not isinstance(extra, dict) or not all(isinstance(values, list) for values in extra.values()):
            raise KubeconfigError(f"{self._where}: as-user-extra: a mapping of names to lists is expected")
        pairs: list[tuple[str, Any]] = [("Impersonate-User", user), ("Impersonate-Uid", uid)]
        pairs += [("Impersonate-Group", group) for group in groups or ()]
        pairs += [
            (f"Impersonate-Extra-{quote(str(key), safe='')}", one) for key, values in extra.items() for one in values
        ]
        headers = [(name, str(value)) for name, value in pairs if value]
        if any(not value.isascii() or not value.isprintable() for _, value in headers):
            raise KubeconfigError(f"{self._where}: as: the name of a user or group in ASCII is expected")
        return headers

    def _tls(self, pair: tuple[bytes, bytes] | None) -> "ssl.SSLContext":
        import ssl  # noqa: PLC0415 - plain HTTP does without

        endpoint = self.context.endpoint
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not endpoint.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif endpoint.authority:
            try:
                context.load_verify_locations(cadata=endpoint.authority)
                # As Go's clients do: whatever is given counts as trusted, also a certificate that is no authority.
                context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            except (ssl.SSLError, ValueError) as error:
                where = f"{self.context.source}: certificate-authority"
                raise KubeconfigError(f"{where}: this is not a certificate in PEM") from error
        else:
            context.load_default_certs()  # slow: only for those who trust what the machine trusts
        if pair is not None:
            self._show(context, *pair)
        return context

    def _certificate(self, made: "Made | None") -> tuple[bytes, bytes] | None:
        if made and made.certificate:
            return made.certificate.encode(), made.key.encode()
        read = self._files.content
        certificate = data_or_file(self._user, "client-certificate", self._where, read)
        key = data_or_file(self._user, "client-key", self._where, read)
        if bool(certificate) != bool(key):
            missing = "client-key" if certificate else "client-certificate"
            raise KubeconfigError(f"{self._where}: {missing}: it is missing; a certificate needs its key")
        return (certificate, key) if certificate else None

    def _show(self, context: "ssl.SSLContext", certificate: bytes, key: bytes) -> None:
        """Have a certificate shown to the server. Python takes it from a file only, so there is one for a moment."""
        import tempfile  # noqa: PLC0415 - most users have a token

        handle, name = tempfile.mkstemp(prefix="fairway-")  # made with mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(key.rstrip() + b"\n" + certificate)
            context.load_cert_chain(name, password=lambda: b"")  # without it, an encrypted key asks on the terminal
        except (OSError, ValueError) as error:  # an `ssl.SSLError` is an OSError
            raise KubeconfigError(
                f"{self._where}: client-certificate, client-key: not a certificate and its key in PEM, without a "
                "passphrase"
            ) from error
        finally:
            os.unlink(name)  # noqa: PTH108 - a name, not a path
