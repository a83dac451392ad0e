"""The command: `python -m tools.cluster COMMAND`."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tools.cluster.places import ClusterError


def _api(options: argparse.Namespace) -> None:
    from tools.cluster.apiserver import ApiServer  # noqa: PLC0415 - each command loads what it needs

    with tempfile.TemporaryDirectory(prefix="fairway-api-") as temporary:
        directory = options.directory or Path(temporary)
        with ApiServer(
            directory, port=options.port, controllers=options.controllers, scheduler=options.scheduler
        ) as api:
            print(f"export KUBECONFIG={api.kubeconfig}", flush=True)
            signal.pause()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.cluster", description="A real Kubernetes on this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    api = commands.add_parser("api", help="run etcd and kube-apiserver alone, until Ctrl-C")
    api.add_argument("--directory", type=Path, help="for data, keys and logs (default: a temporary one)")
    api.add_argument("--port", type=int, default=0, help="on 127.0.0.1 (default: a free one)")
    api.add_argument("--controllers", action="store_true", help="run kube-controller-manager, too")
    api.add_argument("--scheduler", action="store_true", help="run kube-scheduler, too")
    api.set_defaults(run=_api)
    return parser


def main() -> int:
    """Run one command; 1 if something is missing or did not start."""
    options = _parser().parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))  # leaves every context on the way out
    try:
        options.run(options)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
