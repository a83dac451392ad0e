"""The command: `python -m tools.cluster COMMAND`."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tools.cluster.apiserver import ApiServer
from tools.cluster.build import GROUPS, Builder
from tools.cluster.images import Images
from tools.cluster.install import INSTALLERS, dns
from tools.cluster.lifecycle import DEFAULT_NAME, Place, RunningCluster, down, kubectl_path, up
from tools.cluster.machine import install_packages, require_node
from tools.cluster.oci import Config, Layout
from tools.cluster.places import ROOT, Cache, ClusterError

_CPUS = 16
_MARKED = {
    (False, False): "not kuberay and not yunikorn",
    (True, False): "kuberay and not yunikorn",
    (False, True): "yunikorn and not kuberay",
    (True, True): "yunikorn",
}
"""Which tests run with KubeRay and YuniKorn."""

_NODE_IMAGES = ("pause", "busybox", "python", "coredns", "fairway")


def _api(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="fairway-api-") as temporary:
        directory = options.directory or Path(temporary)
        with ApiServer(
            directory, port=options.port, controllers=options.controllers, scheduler=options.scheduler
        ) as api:
            print(f"export KUBECONFIG={api.kubeconfig}", flush=True)
            signal.pause()


def _build(options: argparse.Namespace) -> None:
    Builder(Cache.default(), _say).build(options.what or ["kube", "dns", "kueue"])


def _packages(_: argparse.Namespace) -> None:
    install_packages(_say)
    require_node()


def _images(options: argparse.Namespace) -> None:
    cache = Cache.default()
    cache.root.mkdir(parents=True, exist_ok=True)
    Images(cache, _say).make(options.what or [*_NODE_IMAGES, "kueue"])


def _image(options: argparse.Namespace) -> None:
    layout = Layout(Cache.default().images)
    config = Config(command=shlex.split(options.command))
    with layout.locked():
        below = layout.layers(options.base) if options.base else []
        layout.add([options.name], [*below, layout.layer(options.directory)], config, "by hand")


def _up(options: argparse.Namespace) -> None:
    extras = [name for name in INSTALLERS if getattr(options, name)]
    cluster = _start(options.name, extras, port=options.port, cpus=options.cpus)
    print(f"export KUBECONFIG={cluster.kubeconfig}")


def _start(name: str, extras: Sequence[str], *, port: int = 0, cpus: int = _CPUS) -> RunningCluster:
    cache = Cache.default()
    place = Place(name, cache)
    install_packages(_say)
    require_node()
    Builder(cache, _say).build(["kube", "dns", *extras])
    Images(cache, _say).make([*_NODE_IMAGES, *extras, *(["ray"] if "kuberay" in extras else [])])
    began = time.monotonic()
    cluster = up(place, _say, port=port, cpus=cpus)
    dns(place)
    _say(f"{time.monotonic() - began:5.1f} s  DNS ready")
    for extra in extras:
        INSTALLERS[extra](place)
        _say(f"{time.monotonic() - began:5.1f} s  {extra} ready")
    return cluster


def _test(options: argparse.Namespace) -> int:
    """Run the tests; a cluster that is started for them is removed in the end, whatever happens."""
    place = Place(options.name, Cache.default())
    Builder(place.cache, _say).build(["kube" if options.kubelet else "control-plane"])
    which = _MARKED[options.kuberay, options.yunikorn]
    if not options.kubelet:
        which = "not kubelet"
    environment = {**os.environ, "FAIRWAY_CLUSTER_NAME": place.name, "KUBECTL": kubectl_path()}
    command = [sys.executable, "-m", "pytest", "-m", which, *(options.tests or ["tests/cluster"])]
    started = options.kubelet and place.process() is None
    try:
        if started:
            _start(place.name, [name for name in INSTALLERS if getattr(options, name, False)])
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode  # noqa: S603
    finally:
        _down_tests(place)
        if started:
            down(place)


def _down(options: argparse.Namespace) -> None:
    if options.with_tests:
        _down_tests(Place(options.name, Cache.default()))
    down(Place(options.name, Cache.default()))
    _say(f"nothing is left of the cluster {options.name}")


def _down_tests(place: Place) -> None:
    """Remove the clusters that tests started and could not remove, because they were killed."""
    for directory in place.directory.parent.glob(f"{place.name}-test-*"):
        down(Place(directory.name, place.cache))


def _status(_: argparse.Namespace) -> None:
    cache = Cache.default()
    for directory in sorted((cache.root / "clusters").glob("*")):
        place = Place(directory.name, cache)
        print(f"{place.name}\t{'down, not removed' if place.process() is None else place.kubeconfig}")


def _shell(options: argparse.Namespace) -> int:
    command = RunningCluster.find(options.name).shell(*(options.command or ["bash"]))
    return subprocess.run(command, check=False).returncode  # noqa: S603


def _say(line: str) -> None:
    print(f"cluster: {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("up", help="start a one-node cluster; builds what is missing first")
    command.add_argument("--name", default=DEFAULT_NAME, help="several clusters run beside each other (%(default)s)")
    command.add_argument("--port", type=int, default=0, help="of kube-apiserver on 127.0.0.1 (default: a free one)")
    command.add_argument(
        "--cpus", type=int, default=_CPUS, help="what the node says it has; 0 for the truth (%(default)s)"
    )
    command.add_argument("--no-kueue", dest="kueue", action="store_false", help="leave Kueue out")
    command.add_argument("--kuberay", action="store_true", help="install KubeRay, too")
    command.add_argument("--yunikorn", action="store_true", help="install YuniKorn, too")
    command.set_defaults(run=_up)

    command = commands.add_parser("down", help="remove a cluster: processes, mounts, namespaces, control groups, files")
    command.add_argument("--name", default=DEFAULT_NAME)
    command.add_argument("--with-tests", action="store_true", help="and the clusters that its tests left behind")
    command.set_defaults(run=_down)

    command = commands.add_parser("test", help="run tests/cluster, on a cluster that is up or is started for it")
    command.add_argument("--name", default=DEFAULT_NAME)
    command.add_argument("--no-kubelet", dest="kubelet", action="store_false", help="only on a control plane")
    command.add_argument("--no-kueue", dest="kueue", action="store_false", help="start it without Kueue")
    command.add_argument(
        "--kuberay", action="store_true", help="only the tests with KubeRay, and start it with KubeRay"
    )
    command.add_argument(
        "--yunikorn", action="store_true", help="only the tests with YuniKorn, and start it with YuniKorn"
    )
    command.add_argument("tests", nargs="*", help="files or directories (default: tests/cluster)")
    command.set_defaults(run=_test)

    command = commands.add_parser("status", help="list the clusters and their kubeconfigs")
    command.set_defaults(run=_status)

    command = commands.add_parser("shell", help="run a command on the node: ctr, iptables-save, ip addr")
    command.add_argument("--name", default=DEFAULT_NAME)
    command.add_argument("command", nargs="*")
    command.set_defaults(run=_shell)

    command = commands.add_parser("api", help="run etcd and kube-apiserver alone, until Ctrl-C")
    command.add_argument("--directory", type=Path, help="for data, keys and logs (default: a temporary one)")
    command.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: a free one)")
    command.add_argument("--controllers", action="store_true", help="run kube-controller-manager, too")
    command.add_argument("--scheduler", action="store_true", help="run kube-scheduler, too")
    command.set_defaults(run=_api)

    command = commands.add_parser("packages", help="install what comes from Debian; say what else this machine lacks")
    command.set_defaults(run=_packages)

    command = commands.add_parser("build", help="build programs from the Go module proxy into the cache")
    command.add_argument("what", nargs="*", help=f"groups ({', '.join(GROUPS)}) or programs (default: kube dns kueue)")
    command.set_defaults(run=_build)

    command = commands.add_parser("images", help="make the images of the cluster")
    command.add_argument("what", nargs="*", help=f"default: {' '.join(_NODE_IMAGES)} kueue")
    command.set_defaults(run=_images)

    command = commands.add_parser("image", help="make an image of a directory; a running cluster finds it at once")
    command.add_argument("name", help="in full, e.g. docker.io/library/trial:1")
    command.add_argument("directory", type=Path)
    command.add_argument("--base", default="", help="put it on top of this image, e.g. docker.io/library/python:3.11")
    command.add_argument("--command", default="", help="what it runs by default")
    command.set_defaults(run=_image)
    return parser


def main() -> int:
    """Run one command; 1 if something is missing or did not start."""
    options = _parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # leaves every context on the way out
    try:
        return options.run(options) or 0
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
