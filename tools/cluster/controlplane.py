"""The command lines of a control plane's programs, and the keys that they use. Both sizes of cluster share them."""

import json
import ssl
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from tools.cluster.certificates import Authority, Pair, signing_key
from tools.cluster.places import Cache

Command = list[str]
_AUDITED = "system:serviceaccount:fairway-system:fairway-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the programs listen, and how they reach each other."""

    host: str
    """Of kube-apiserver; etcd is always on loopback."""

    port: int
    etcd: int
    etcd_peer: int
    services: str
    """The range of Services' addresses."""

    names: tuple[str, ...]
    """Everything that clients call kube-apiserver, for its certificate."""

    advertised: str
    """The address that `kubernetes.default` leads to; empty where there are no pods."""

    @property
    def server(self) -> str:
        return f"https://{self.host}:{self.port}"


class ControlPlane:
    """Keys in a directory, and the command lines that use them."""

    def __init__(self, cache: Cache, directory: Path, addresses: Addresses) -> None:
        self.addresses = addresses
        self._cache = cache
        self._directory = directory
        self._keys = directory / "pki"
        self.authority = Authority(self._keys, "ca")
        self._front = Authority(self._keys, "front-proxy-ca")
        self._front_client = self._front.issue("front-proxy-client", "front-proxy-client")
        self._serving = self.authority.issue("kube-apiserver", "kube-apiserver", hosts=addresses.names)
        self._tokens = signing_key(self._keys, "service-accounts")
        self.admin = self.authority.issue("admin", "admin", ["system:masters"])

    def kubeconfig(self, name: str, user: Pair, server: str = "") -> Path:
        """A file that lets this user in, by default from where kube-apiserver is."""
        return self.authority.kubeconfig(self._directory / name, server or self.addresses.server, user)

    def etcd(self) -> Command:
        client = f"http://127.0.0.1:{self.addresses.etcd}"
        peer = f"http://127.0.0.1:{self.addresses.etcd_peer}"
        return [
            str(self._cache.binary("etcd")),
            f"--data-dir={self._directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # survives a kill of the process, and does not wait for the disk
        ]

    def kube_apiserver(self, *more: str) -> Command:
        here, keys = self.addresses, self._keys
        endpoints = [f"--advertise-address={here.advertised}"] if here.advertised else _NO_ENDPOINTS
        return [
            str(self._cache.binary("kube-apiserver")),
            f"--etcd-servers=http://127.0.0.1:{here.etcd}",
            f"--bind-address={here.host}",
            f"--secure-port={here.port}",
            *endpoints,
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.authority.pair.certificate}",
            f"--cert-dir={keys}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged",
            f"--service-cluster-ip-range={here.services}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={self._tokens.certificate}",
            f"--service-account-signing-key-file={self._tokens.key}",
            f"--requestheader-client-ca-file={self._front.pair.certificate}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={self._front_client.certificate}",
            f"--proxy-client-key-file={self._front_client.key}",
            f"--audit-policy-file={self._audit_policy()}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=100",
            "--audit-log-maxbackup=1",
            *more,
        ]

    @property
    def audit_log(self) -> Path:
        """The requests of Fairway's controller as it is installed, one JSON object a line."""
        return self._directory / "logs" / "audit.log"

    def _audit_policy(self) -> Path:
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata", "users": [_AUDITED]}, {"level": "None"}],
        }
        path = self._directory / "audit-policy.json"
        path.write_text(json.dumps(policy))
        return path

    def kube_controller_manager(self) -> Command:
        user = self.authority.issue("kube-controller-manager", "system:kube-controller-manager")
        return [
            str(self._cache.binary("kube-controller-manager")),
            *self._component("kube-controller-manager", user),
            "--use-service-account-credentials",
            f"--service-account-private-key-file={self._tokens.key}",
            f"--root-ca-file={self.authority.pair.certificate}",
            f"--cluster-signing-cert-file={self.authority.pair.certificate}",
            f"--cluster-signing-key-file={self.authority.pair.key}",
        ]

    def kube_scheduler(self) -> Command:
        user = self.authority.issue("kube-scheduler", "system:kube-scheduler")
        return [str(self._cache.binary("kube-scheduler")), *self._component("kube-scheduler", user)]

    def is_ready(self) -> bool:
        """Whether kube-apiserver answers that it is ready."""
        context = ssl.create_default_context(cafile=str(self.authority.pair.certificate))
        context.load_cert_chain(self.admin.certificate, self.admin.key)
        request = urllib.request.Request(f"{self.addresses.server}/readyz")  # noqa: S310 - https, see Addresses.server
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False

    def _component(self, name: str, user: Pair) -> Command:
        config = self.kubeconfig(f"{name}.kubeconfig", user)
        return [f"--kubeconfig={config}", "--leader-elect=false", "--secure-port=0"]


_NO_ENDPOINTS = ["--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none"]
"""Without pods nothing uses the Service `kubernetes`; the address is one that is reserved for documentation."""
