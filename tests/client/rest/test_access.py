"""Who one is, and whom one trusts: headers, and real TLS in both directions."""

import base64
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from client.rest.scripted import Scripted, answer, write_kubeconfig
from fairway.client.rest import KubeconfigError, Rest, Unreachable, open_rest
from fairway.client.rest.access import Access
from fairway.client.rest.kubeconfig import Endpoint, KubeContext, in_cluster
from fairway.server.certificates import Certificate, own_certificate


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        pytest.param({}, [], id="nobody"),
        pytest.param({"token": "fw_abc"}, ["Authorization: Bearer fw_abc"], id="a token"),
        pytest.param(
            {"username": "ann", "password": "pw"}, ["Authorization: Basic YW5uOnB3"], id="a name and a password"
        ),
        pytest.param(
            {"token": "t", "as": "ben", "as-groups": ["a", "b"], "as-uid": "7", "as-user-extra": {"x/y": ["1", "2"]}},
            ["Impersonate-User: ben", "Impersonate-Uid: 7", "Impersonate-Group: a", "Impersonate-Group: b",
             "Impersonate-Extra-x%2Fy: 1", "Impersonate-Extra-x%2Fy: 2", "Authorization: Bearer t"],
            id="in the name of somebody else",
        ),
    ],
)  # fmt: skip
def test_who_one_is_goes_with_the_request(user: dict[str, Any], sent: list[str]) -> None:
    with Scripted([answer()]) as server:
        server.rest(user).get("/api")

        lines = server.requests[0].decode().split("\r\n")
        assert [line for line in lines if line.startswith(("Authorization", "Impersonate"))] == sent


def test_a_token_file_is_read_anew_for_every_request(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with Scripted([answer(), answer()]) as server:
        rest = server.rest({"tokenFile": str(path), "token": "ignored"})
        for token in ("one\n", "two\n"):
            path.write_text(token)
            rest.get("/api")

        assert [b"Bearer one" in server.requests[0], b"Bearer two" in server.requests[1]] == [True, True]


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        pytest.param({"token": "a b"}, "token: a token is letters", id="a space in a token"),
        pytest.param({"token": "a\r\nX: y"}, "token: a token is letters", id="a line break in a token"),
        pytest.param({"token": 5}, "token: a token is letters", id="a number for a token"),
        pytest.param({"tokenFile": "/nowhere"}, "tokenFile: /nowhere cannot be read: No such file", id="no token file"),
        pytest.param({"tokenFile": 5}, "tokenFile: the path of a file is expected", id="a number for a file"),
        pytest.param({"as": "b\r\nX: y"}, "as: the name of a user", id="a line break in a name"),
        pytest.param({"as-user-extra": {"a": "b"}}, "as-user-extra: a mapping of names to lists", id="extras"),
    ],
)
def test_credentials_that_cannot_be_sent_are_one_clear_sentence(user: dict[str, Any], sentence: str) -> None:
    with Scripted([answer()]) as server, pytest.raises(KubeconfigError) as raised:
        server.rest(user).get("/api")

    assert str(raised.value).startswith("kubeconfig: user 'tester': ")
    assert sentence in str(raised.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return own_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1", datetime.now(UTC))


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """What somebody shows who is let in by a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ann")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("person")
    pem = serialization.Encoding.PEM
    (folder / "certificate").write_bytes(made.public_bytes(pem))
    (folder / "key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return Certificate(folder / "certificate", folder / "key", folder / "certificate")


class TlsServer:
    """Answers one request over TLS, and tells who asked."""

    def __init__(self, certificate: Certificate, lets_in: Certificate | None) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.certificate, certificate.key)
        if lets_in is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(lets_in.authority)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listening.getsockname()[1]}"
        self.shown: list[bool] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        plain, _ = self._listening.accept()
        with plain:
            try:
                stream = self._context.wrap_socket(plain, server_side=True)
            except OSError:
                return
            with stream:
                stream.recv(65536)
                self.shown.append(bool(stream.getpeercert()))
                stream.sendall(answer(b'{"a": 1}'))

    def close(self) -> None:
        self._thread.join(5)
        self._listening.close()


@pytest.fixture
def tls(certificate: Certificate, person: Certificate, request: pytest.FixtureRequest) -> Iterator[TlsServer]:
    server = TlsServer(certificate, person if getattr(request, "param", False) else None)
    yield server
    server.close()


def opened(tmp_path: Path, url: str, cluster: dict[str, Any], user: dict[str, Any]) -> Rest:
    path = write_kubeconfig(
        tmp_path / "kubeconfig",
        clusters=[{"name": "one", "cluster": {"server": url, **cluster}}],
        users=[{"name": "ann", "user": user}],
    )
    return open_rest(path)


def trusted(certificate: Certificate) -> dict[str, Any]:
    return {"certificate-authority-data": base64.b64encode(certificate.authority.read_bytes()).decode()}


def test_the_authority_that_is_given_is_trusted(tls: TlsServer, certificate: Certificate, tmp_path: Path) -> None:
    with opened(tmp_path, tls.url, trusted(certificate), {}) as rest:
        assert rest.get("/api") == {"a": 1}


def test_nobody_else_is(tls: TlsServer, certificate: Certificate, tmp_path: Path) -> None:
    other = own_certificate(tmp_path / "other", "127.0.0.1", datetime.now(UTC))

    with pytest.raises(Unreachable, match="has an untrusted certificate: "):
        opened(tmp_path, tls.url, trusted(other), {}).get("/api")


def test_without_an_authority_the_machine_decides(tls: TlsServer, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="has an untrusted certificate: "):
        opened(tmp_path, tls.url, {}, {}).get("/api")


def test_the_name_on_the_certificate_counts(tls: TlsServer, certificate: Certificate, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"untrusted certificate: .*other\.example"):
        opened(tmp_path, tls.url, {**trusted(certificate), "tls-server-name": "other.example"}, {}).get("/api")


def test_another_name_is_asked_for_where_the_kubeconfig_says_so(
    tls: TlsServer, certificate: Certificate, tmp_path: Path
) -> None:
    with opened(tmp_path, tls.url, {**trusted(certificate), "tls-server-name": "localhost"}, {}) as rest:
        assert rest.get("/api") == {"a": 1}


def test_who_wants_to_trusts_anybody(tls: TlsServer, tmp_path: Path) -> None:
    with opened(tmp_path, tls.url, {"insecure-skip-tls-verify": True}, {}) as rest:
        assert rest.get("/api") == {"a": 1}


@pytest.mark.parametrize("tls", [True], indirect=True)
@pytest.mark.parametrize("inline", [True, False], ids=["in the kubeconfig", "in files"])
def test_a_certificate_of_ones_own_is_shown(
    tls: TlsServer,
    certificate: Certificate,
    person: Certificate,
    inline: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
) -> None:
    files = {"client-certificate": person.certificate, "client-key": person.key}
    user = (
        {f"{field}-data": base64.b64encode(path.read_bytes()).decode() for field, path in files.items()}
        if inline
        else {field: str(path) for field, path in files.items()}
    )
    before = set(os.listdir("/tmp"))  # noqa: S108, PTH208 - where a key must not stay

    with opened(tmp_path, tls.url, trusted(certificate), user) as rest:
        assert rest.get("/api") == {"a": 1}

    assert tls.shown == [True]
    assert not [name for name in set(os.listdir("/tmp")) - before if name.startswith("fairway-")]  # noqa: S108, PTH208


@pytest.mark.parametrize("tls", [True], indirect=True)
def test_who_shows_none_is_not_let_in(tls: TlsServer, certificate: Certificate, tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        opened(tmp_path, tls.url, trusted(certificate), {}).get("/api")


@pytest.mark.parametrize(
    ("cluster", "user", "sentence"),
    [
        pytest.param({"certificate-authority-data": "eA=="}, {}, "authority: this is not", id="no authority"),
        pytest.param({}, {"client-key-data": "eA=="}, "client-certificate: it is missing", id="a key alone"),
        pytest.param(
            {}, {"client-key-data": "eA==", "client-certificate-data": "eA=="}, "not a certificate and", id="no pair"
        ),
    ],
)  # fmt: skip
def test_certificates_that_are_none_are_one_clear_sentence(
    cluster: dict[str, Any], user: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(KubeconfigError) as raised:
        opened(tmp_path, "https://127.0.0.1:1", cluster, user).get("/api")

    assert sentence in str(raised.value)


def test_plain_http_where_tls_is_expected_says_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with listening.accept()[0] as stream:
                stream.recv(65536)
                stream.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(Unreachable, match=r"does not answer: (wrong version number|record layer failure)"):
            opened(tmp_path, url, {"insecure-skip-tls-verify": True}, {}).get("/api")
        thread.join()


def access_of(user: dict[str, Any], now: Callable[[], float] = time.time) -> Access:
    endpoint = Endpoint("https://127.0.0.1:1", https=True, host="127.0.0.1", port=1)
    return Access(KubeContext("here", "default", endpoint, user, "ann", "kubeconfig"), now)


def test_a_rotated_client_certificate_makes_another_address_and_half_a_rotation_does_not(
    person: Certificate, certificate: Certificate, tmp_path: Path
) -> None:
    shown, key = tmp_path / "certificate", tmp_path / "key"
    shown.write_bytes(person.certificate.read_bytes())
    key.write_bytes(person.key.read_bytes())
    access = access_of({"client-certificate": str(shown), "client-key": str(key)})
    first = access.address()
    assert access.address() is first, "connections are kept by it"

    shown.write_bytes(certificate.certificate.read_bytes())
    assert access.address() is first, "the certificate does not belong to the key yet"
    shown.unlink()
    assert access.address() is first
    shown.write_bytes(certificate.certificate.read_bytes())
    key.write_bytes(certificate.key.read_bytes())
    assert access.address() is not first
    assert access.renew(), "after a 401 a file may have another certificate"


def test_a_file_is_read_once_while_it_does_not_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    access = access_of({"tokenFile": str(token)}, lambda: time.time() + 60)
    assert access.headers() == [("Authorization", "Bearer one")]
    with monkeypatch.context() as patched:
        patched.setattr("fairway.client.rest.access.file_bytes", None)
        assert access.headers() == [("Authorization", "Bearer one")]
    os.replace(token.with_name("token").rename(tmp_path / "old"), tmp_path / "older")  # noqa: PTH105
    token.write_text("two")  # as a kubelet does it: another file in its place
    assert access.headers() == [("Authorization", "Bearer two")]


def test_the_service_account_of_a_pod(tmp_path: Path, certificate: Certificate) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeconfigError, match="does not run in a pod with one"):
        in_cluster(environment, tmp_path)
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "ca.crt").write_bytes(certificate.authority.read_bytes())
    (tmp_path / "namespace").write_text("team\n")
    with pytest.raises(KubeconfigError, match="--kubeconfig"):
        in_cluster({}, tmp_path)

    context = in_cluster(environment, tmp_path)
    access = Access(context, reread=lambda: in_cluster(environment, tmp_path))

    assert (context.name, context.namespace, context.endpoint.url) == ("in-cluster", "team", "https://10.0.0.1:443")
    assert access.headers() == [("Authorization", "Bearer one")]
    (tmp_path / "token").write_text("two\n")
    assert access.headers() == [("Authorization", "Bearer two")]
    first = access.address()
    assert not access.moved()
    (tmp_path / "ca.crt").write_bytes(certificate.certificate.read_bytes())
    assert access.moved(), "the CA was rotated"
    assert access.address() is not first
    assert in_cluster({**environment, "KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).endpoint.host == "fd00::1"


@pytest.mark.parametrize(
    ("kubeconfig", "name", "sentence"),
    [
        pytest.param("", "", "does not run in a pod", id="none"),
        pytest.param("in-cluster", "in-cluster", "does not run in a pod", id="as a context of the command line"),
        pytest.param("", "prod", "there is no context 'prod'", id="a context of no file"),
    ],
)
def test_no_kubeconfig_means_the_service_account(
    kubeconfig: str, name: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match=sentence):
        open_rest(kubeconfig, name)
