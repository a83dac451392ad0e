"""The images of the cluster, made from built binaries, Debian packages and this tree's wheel.

Their names are those that the manifests ask for, so the manifests stay as they are published. An image is made again
when its recipe changed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from tools.cluster import versions
from tools.cluster.machine import mirror, require, require_root
from tools.cluster.oci import Config, Layout
from tools.cluster.places import ROOT, Cache, ClusterError

_HUB: Final = "docker.io"
_KUBERNETES: Final = "registry.k8s.io"
_PACKAGES: Final = "python3,python3-pip,python3-venv,ca-certificates,curl,procps"
_SITE: Final = f"usr/local/lib/python{versions.PYTHON}/dist-packages"
FAIRWAY_IMAGE: Final = f"{_HUB}/library/fairway"
DOCS_IMAGE: Final = "registry.example.com/fairway"
"""Its name in the docs, whose commands are run as they are written."""
_MOST_TREES: Final = 4
"""Of so many different trees the images are kept."""

_ON_PYTHON: Final = {"fairway", "ray"}
_OF_TREE: Final = re.compile(rf"{FAIRWAY_IMAGE}:tree-[0-9a-f]{{12}}")
_FAIRWAY_USER: Final = "65532"
_RAY_ENVIRONMENT: Final = [
    "HOME=/home/ray",
    "RAY_USAGE_STATS_ENABLED=0",
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT=300",
]
"""The dashboard gives its modules 30 s to start, which is too short on a node that shares two cores."""

_WGET: Final = """#!/bin/sh
# wget --tries 1 -T SECONDS -q -O- URL
exec curl --silent --fail --max-time "$4" "$7"
"""
"""As KubeRay's probes of Ray before 2.53 call it; the Python image has curl."""


class Images:
    """Recipes by name: `make` makes those that are asked for."""

    def __init__(self, cache: Cache, say: Callable[[str], None]) -> None:
        self._cache = cache
        self._say = say
        self._layout = Layout(cache.images)
        self._recipes: dict[str, Callable[[Path], None]] = {
            "pause": self._pause,
            "busybox": self._busybox,
            "python": self._python,
            "coredns": self._coredns,
            "kueue": self._kueue,
            "fairway": self._fairway,
            "kuberay": self._kuberay,
            "yunikorn": self._yunikorn,
            "ray": self._ray,
        }

    @property
    def names(self) -> list[str]:
        return list(self._recipes)

    def make(self, names: Iterable[str]) -> None:
        """Make these images where they are missing or made by another recipe."""
        wanted = list(names)
        for name in wanted:
            if name not in self._recipes:
                raise ClusterError(f"there is no image {name}; there are {', '.join(self._recipes)}")
        below = {"python"} if _ON_PYTHON & set(wanted) else set()
        for name in [name for name in self._recipes if name in below.union(wanted)]:
            with self._layout.locked(), tempfile.TemporaryDirectory(dir=self._cache.root, prefix="image-") as temporary:
                Path(temporary).chmod(0o755)
                self._recipes[name](Path(temporary))

    def _pause(self, root: Path) -> None:
        names = [f"{_KUBERNETES}/pause:{versions.PAUSE}"]
        if self._is_made(names, versions.PAUSE):
            return
        require("gcc", "gcc libc6-dev")
        source = self._cache.manifests("kubernetes") / "pause.c"
        command = ["gcc", "-Os", "-static", f"-DVERSION={versions.PAUSE}", "-o", str(root / "pause"), str(source)]
        subprocess.run(command, check=True)  # noqa: S603
        self._add(names, root, Config(entrypoint=["/pause"]), versions.PAUSE)

    def _busybox(self, root: Path) -> None:
        names = [f"{_HUB}/library/busybox:{tag}" for tag in ("latest", versions.BUSYBOX)]
        if not self._is_made(names, versions.BUSYBOX):
            self._busybox_root(root)
            self._add(names, root, Config(command=["sh"]), versions.BUSYBOX)

    def _python(self, root: Path) -> None:
        recipe = f"{versions.DEBIAN} {_PACKAGES}"
        names = [f"{_HUB}/library/python:{versions.PYTHON}{variant}" for variant in ("", "-slim")]
        if self._is_made(names, recipe):
            return
        require_root("making the root file system of the python image")
        require("debootstrap", "debootstrap")
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", versions.DEBIAN, str(root), mirror()]
        log = self._cache.root / "debootstrap.log"
        with log.open("wb") as output:
            if subprocess.run(command, stdout=output, stderr=output, check=False).returncode:  # noqa: S603
                raise ClusterError(f"debootstrap failed; {log} ends with:\n{log.read_text(errors='replace')[-1500:]}")
        for leftover in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(root / leftover)
        (root / "usr/bin/python").symlink_to("python3")
        self._add(names, root, Config(command=["python3"]), recipe)

    def _coredns(self, root: Path) -> None:
        self._binary(root, "coredns", [f"{_KUBERNETES}/coredns/coredns:v{versions.COREDNS}"], "/coredns")

    def _kueue(self, root: Path) -> None:
        self._binary(root, "kueue", [f"{_KUBERNETES}/kueue/kueue:v{versions.KUEUE}"], "/manager", "65532:65532")

    def _kuberay(self, root: Path) -> None:
        names = [f"quay.io/kuberay/operator:{tag}" for tag in (f"v{versions.KUBERAY}", "nightly")]
        self._binary(root, "ray-operator", names, "/manager", "65532:65532")

    def _yunikorn(self, root: Path) -> None:
        for kind, program in (("scheduler", "yunikorn-scheduler"), ("admission", "yunikorn-admission-controller")):
            self._binary(root / kind, program, [f"{_HUB}/apache/yunikorn:{kind}-{versions.YUNIKORN}"], f"/{program}")

    def _ray(self, root: Path) -> None:
        names = [f"{_HUB}/rayproject/ray:{versions.RAY}"]
        recipe = f"{versions.RAY} {_WGET} {_RAY_ENVIRONMENT}"
        if self._is_made(names, recipe):
            return
        self._install(root, f"ray[default]=={versions.RAY}")
        self._script(root, "ray", "ray.scripts.scripts")
        wget = root / "usr/local/bin/wget"
        wget.write_text(_WGET)
        wget.chmod(0o755)
        (root / "home/ray").mkdir(parents=True)
        self._compile(root)
        self._add_to_python(
            names, root, Config(command=["bash"], environment=_RAY_ENVIRONMENT, directory="/home/ray"), recipe
        )

    def _fairway(self, root: Path) -> None:
        """This tree's wheel on the Python image, for the controller's Deployment."""
        recipe = _tree()
        names = [f"{FAIRWAY_IMAGE}:{tag}" for tag in ("latest", _own_version())]
        names += [f"{DOCS_IMAGE}:{_own_version()}", fairway_image()]
        if self._is_made(names, recipe):
            return
        with tempfile.TemporaryDirectory() as wheels:
            _pip("wheel", "--no-deps", "--wheel-dir", wheels, str(ROOT))
            [wheel] = Path(wheels).glob("*.whl")
            self._install(root, str(wheel), "--constraint", str(ROOT / "constraints.txt"))
        self._script(root, "fairway", "fairway.cli.main")
        home = root / "home/fairway"
        home.mkdir(parents=True)
        os.chown(home, int(_FAIRWAY_USER), int(_FAIRWAY_USER))
        config = Config(
            entrypoint=["/usr/local/bin/fairway"],
            environment=["HOME=/home/fairway", "PYTHONUNBUFFERED=1"],
            user=f"{_FAIRWAY_USER}:{_FAIRWAY_USER}",
            directory="/home/fairway",
        )
        trees = [name for name in self._layout.images() if _OF_TREE.fullmatch(name) and name not in names]
        self._add_to_python(names, root, config, recipe, trees[: 1 - _MOST_TREES])

    def _binary(self, root: Path, program: str, names: list[str], path: str, user: str = "") -> None:
        """A static binary with busybox beside it, so that one can look inside with `kubectl exec`."""
        binary = self._cache.binary(program)
        recipe = _digest([binary])
        if self._is_made(names, recipe):
            return
        self._busybox_root(root)
        shutil.copy2(binary, root / path.lstrip("/"))
        self._add(names, root, Config(entrypoint=[path], user=user), recipe)

    def _busybox_root(self, root: Path) -> None:
        busybox = require("busybox", "busybox-static")
        for folder in ("bin", "etc/ssl/certs", "tmp", "proc", "sys", "dev", "var", "root"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        (root / "tmp").chmod(0o1777)
        shutil.copy2(busybox, root / "bin/busybox")
        listed = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout  # noqa: S603
        for applet in set(listed.split()) - {"busybox"}:
            (root / "bin" / applet).symlink_to("busybox")
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
        (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
        authorities = Path("/etc/ssl/certs/ca-certificates.crt")
        if authorities.exists():
            shutil.copy2(authorities, root / "etc/ssl/certs")

    def _install(self, root: Path, *wanted: str) -> None:
        """Packages for the image's Python, whatever Python runs this."""
        machine = os.uname().machine
        platforms = [f"--platform={tag}_{machine}" for tag in ("manylinux2014", "manylinux_2_28", "manylinux_2_34")]
        for_image = ["--only-binary=:all:", "--implementation=cp", f"--python-version={versions.PYTHON}", *platforms]
        _pip("install", "--no-compile", f"--target={root / _SITE}", *for_image, *wanted)

    def _compile(self, root: Path) -> None:
        """Bytecode, if this Python's fits: a Ray node is seven Python processes, and each would compile the sources."""
        if "{}.{}".format(*sys.version_info) == versions.PYTHON:
            mode = ["-q", "--invalidation-mode", "unchecked-hash", "-s", str(root)]
            command = [sys.executable, "-m", "compileall", *mode, str(root / _SITE)]
            subprocess.run(command, check=False, capture_output=True)  # noqa: S603 - some sources are for other Pythons

    def _script(self, root: Path, name: str, module: str) -> None:
        script = root / "usr/local/bin" / name
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!/usr/bin/python3\nimport sys\nfrom {module} import main\nsys.exit(main())\n")
        script.chmod(0o755)

    def _is_made(self, names: list[str], recipe: str) -> bool:
        return all(self._layout.has(name, recipe) for name in names)

    def _add(self, names: list[str], root: Path, config: Config, recipe: str) -> None:
        self._layout.add(names, [self._layout.layer(root)], config, recipe)
        self._say(f"image {names[0]}")

    def _add_to_python(
        self, names: list[str], root: Path, config: Config, recipe: str, forget: Sequence[str] = ()
    ) -> None:
        below = self._layout.layers(f"{_HUB}/library/python:{versions.PYTHON}")
        self._layout.add(names, [*below, self._layout.layer(root)], config, recipe, forget)
        self._say(f"image {names[0]}")


def fairway_image() -> str:
    """The image `fairway` under a name that no other tree has: a node keeps what it pulled under the others."""
    return f"{FAIRWAY_IMAGE}:tree-{_tree()[:12]}"


def _tree() -> str:
    return _digest([ROOT / "pyproject.toml", ROOT / "constraints.txt", *sorted((ROOT / "src").rglob("*.py"))])


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        raise ClusterError(f"pip {arguments[0]} failed: {ended.stderr.strip()[-1500:]}")


def _digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as content:
            total.update(f"{path.name}\0".encode() + hashlib.file_digest(content, "sha256").digest())
    return total.hexdigest()


def _own_version() -> str:
    import tomllib  # noqa: PLC0415

    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
