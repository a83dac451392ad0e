"""Builds the cluster's programs from the Go module proxy into the cache. What is there already is kept.

Checksums are those of Go's checksum database. Two kinds of sources: Kubernetes, etcd and CoreDNS are built as
requirements of a module that is written here; the others in their own module, with their own go.mod and go.sum.
"""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.cluster import versions
from tools.cluster.machine import require, require_disk
from tools.cluster.places import Cache, ClusterError

_CONTROL_PLANE: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
GROUPS: Final = {
    "control-plane": _CONTROL_PLANE,
    "kube": (*_CONTROL_PLANE, "kubelet", "kube-proxy"),
    "dns": ("coredns",),
    "kueue": ("kueue",),
    "kuberay": ("ray-operator",),
    "yunikorn": ("yunikorn-scheduler", "yunikorn-admission-controller"),
}
"""What can be asked for by one word, from cheap to costly."""

_DISK: Final = 12
_STATIC: Final = "-s -w -linkmode external -extldflags -static"
"""For what runs in an image without libraries."""

_STAGING: Final = f"v0.{versions.KUBERNETES.removeprefix('1.')}"
"""The version of the modules that Kubernetes publishes beside its own."""

_STAMP: Final = "k8s.io/component-base/version"
_MINOR: Final = versions.KUBERNETES.split(".")[1]
_KUBERNETES_FLAGS: Final = (
    f"-s -w -X {_STAMP}.gitVersion=v{versions.KUBERNETES} -X {_STAMP}.gitMajor=1 -X {_STAMP}.gitMinor={_MINOR}"
)
"""Without the stamp it calls itself v0.0.0, and Kueue refuses to run on that."""

_COREDNS_PLUGINS: Final = ("cache", "errors", "health", "kubernetes", "log", "loop", "ready", "reload")


@dataclass(frozen=True, slots=True)
class Own:
    """A program that is built in its own module."""

    module: str
    version: str
    package: str
    flags: str = ""


_OWN: Final = {
    "kueue": Own(
        "sigs.k8s.io/kueue",
        versions.KUEUE,
        "./cmd/kueue",
        f"-X sigs.k8s.io/kueue/pkg/version.GitVersion=v{versions.KUEUE}",
    ),
    "ray-operator": Own("github.com/ray-project/kuberay/ray-operator", versions.KUBERAY, "."),
    "yunikorn-scheduler": Own("github.com/apache/yunikorn-k8shim", versions.YUNIKORN, "./pkg/cmd/shim"),
    "yunikorn-admission-controller": Own(
        "github.com/apache/yunikorn-k8shim", versions.YUNIKORN, "./pkg/cmd/admissioncontroller"
    ),
}
_MANIFESTS: Final = {"kueue": "config", "kuberay": "config", "yunikorn": "deployments"}
"""Which folder of a module's sources holds its manifests, by group."""


def programs(words: Iterable[str]) -> list[str]:
    """The programs that groups and names stand for, in the order in which they are built."""
    known = list(dict.fromkeys(name for group in GROUPS.values() for name in group))
    wanted = set()
    for word in words:
        if word not in GROUPS and word not in known:
            raise ClusterError(f"there is no group or program {word}; groups are {', '.join(GROUPS)}")
        wanted |= set(GROUPS.get(word, (word,)))
    return [name for name in known if name in wanted]


class Builder:
    """One build at a time in a cache."""

    def __init__(self, cache: Cache, say: Callable[[str], None], jobs: int = 2) -> None:
        self._cache = cache
        self._say = say
        self._jobs = jobs

    def build(self, words: Sequence[str]) -> None:
        """Build what is missing of these groups and programs."""
        names = programs(words)
        if not self._cache.missing(*names) and not self._lacking_manifests(names):
            return
        require("go", "golang, or put Go 1.26 or newer from go.dev on the PATH")
        require("gcc", "gcc libc6-dev")
        require_disk(self._cache.root, _DISK)
        self._cache.root.mkdir(parents=True, exist_ok=True)
        with (self._cache.root / "build.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with tempfile.TemporaryDirectory(dir=self._cache.root, prefix="build-") as temporary:
                for name in self._cache.missing(*names):
                    began = time.monotonic()
                    self._build(name, Path(temporary))
                    self._say(f"built {name} in {time.monotonic() - began:.0f} s")
            self._keep_manifests(names)

    def _build(self, name: str, directory: Path) -> None:
        if name in _OWN:
            own = _OWN[name]
            flags = f"{_STATIC} {own.flags}".strip()
            self._go_build(name, own.package, flags, self._source(own.module, own.version), "readonly")
        elif name == "etcd":
            module = self._module(directory / name, "go.etcd.io/etcd/server/v3", versions.ETCD)
            self._go_build(name, "go.etcd.io/etcd/server/v3", "-s -w", module, "mod")
        elif name == "coredns":
            self._go_build(name, ".", _STATIC, self._coredns(directory / name), "mod")
        else:
            module = self._kubernetes(directory / "kubernetes")
            self._go_build(name, f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_FLAGS, module, "mod")

    def _kubernetes(self, directory: Path) -> Path:
        """All its programs are built in one module."""
        if not directory.exists():
            packages = [f"k8s.io/kubernetes/cmd/{name}" for name in GROUPS["kube"] if name != "etcd"]
            self._module(directory, "k8s.io/kubernetes", versions.KUBERNETES, packages, self._staging())
            self._go(directory, "mod", "tidy", "-e")
        return directory

    def _coredns(self, directory: Path) -> Path:
        """Only with the plugins that a cluster needs, and on the Kubernetes libraries that are built anyway."""
        staging = [f"k8s.io/{module}" for module in ("api", "apimachinery", "client-go")]
        self._module(directory, "github.com/coredns/coredns", versions.COREDNS, (), staging)
        plugins = "".join(f'\t_ "github.com/coredns/coredns/plugin/{plugin}"\n' for plugin in _COREDNS_PLUGINS)
        imports = f'import (\n{plugins}\t"github.com/coredns/coredns/coremain"\n)\n'
        (directory / "main.go").write_text(f"package main\n\n{imports}\nfunc main() {{ coremain.Run() }}\n")
        self._go(directory, "mod", "tidy")
        return directory

    def _module(
        self, directory: Path, module: str, version: str, packages: Iterable[str] = (), replace: Iterable[str] = ()
    ) -> Path:
        """A module whose only purpose is to require another one, and these packages of it."""
        directory.mkdir()
        replaced = "".join(f"replace {staging} => {staging} {_STAGING}\n" for staging in replace)
        (directory / "go.mod").write_text(f"module build\n\ngo 1.24.0\n\nrequire {module} v{version}\n{replaced}")
        imports = "".join(f'import _ "{package}"\n' for package in packages or (module,))
        (directory / "tools.go").write_text(f"//go:build tools\n\npackage build\n\n{imports}")
        return directory

    def _staging(self) -> list[str]:
        """The modules that Kubernetes requires at v0.0.0, which are published under versions of their own."""
        lines = Path(self._download("k8s.io/kubernetes", versions.KUBERNETES)["GoMod"]).read_text().splitlines()
        return sorted({line.split()[0] for line in lines if line.split()[1:2] == ["v0.0.0"]})

    def _keep_manifests(self, names: Sequence[str]) -> None:
        if "kubelet" in names or "kube-apiserver" in names:
            source = self._source("k8s.io/kubernetes", versions.KUBERNETES) / "build/pause/linux/pause.c"
            _copy(source, self._cache.manifests("kubernetes") / "pause.c")
        for group in self._lacking_manifests(names):
            own = _OWN[GROUPS[group][0]]
            source = self._source(own.module, own.version) / _MANIFESTS[group]
            _copy(source, self._cache.manifests(group) / _MANIFESTS[group])

    def _lacking_manifests(self, names: Sequence[str]) -> list[str]:
        groups = [group for group in _MANIFESTS if set(GROUPS[group]) & set(names)]
        return [group for group in groups if not (self._cache.manifests(group) / _MANIFESTS[group]).exists()]

    def _source(self, module: str, version: str) -> Path:
        return Path(self._download(module, version)["Dir"])

    def _download(self, module: str, version: str) -> Any:
        return json.loads(self._go(self._cache.root, "mod", "download", "-json", f"{module}@v{version}"))

    def _go_build(self, name: str, package: str, flags: str, directory: Path, mode: str) -> None:
        target = self._cache.path(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        new = target.with_suffix(".new")
        arguments = ["build", f"-mod={mode}", f"-p={self._jobs}", f"-ldflags={flags}", "-o", str(new), package]
        self._go(directory, *arguments)
        new.rename(target)

    def _go(self, directory: Path, *arguments: str) -> str:
        environment = {**os.environ, "GOWORK": "off", "GOFLAGS": "-buildvcs=false", "CGO_ENABLED": "1"}
        command = ["nice", "-n", "10", "go", *arguments]
        ended = subprocess.run(  # noqa: S603 - versions and packages of this file
            command, cwd=directory, env=environment, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            raise ClusterError(f"`go {' '.join(arguments)}` failed in {directory}: {ended.stderr.strip()[-3000:]}")
        return ended.stdout


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
        for path in (target, *target.rglob("*")):
            path.chmod(path.stat().st_mode | 0o200)  # the module cache is read-only
    else:
        shutil.copyfile(source, target)
