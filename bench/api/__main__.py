"""``python -m bench.api``: the lines about the API server, of Fairway or of any other server."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench import table
from bench.api import lines
from bench.api.wire import Target


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.api", description="Measure an API server over HTTP.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, to see that it runs")
    parser.add_argument("--server", help="the address of a running server with Kueue's kinds, instead of Fairway")
    parser.add_argument("--token", default="", help="the bearer token for that server")
    parser.add_argument("--kubeconfig", type=Path, help="where both are taken from instead")
    chosen = parser.parse_args()
    scale = 10 if chosen.quick else 1
    if chosen.kubeconfig:
        found = lines.for_another(Target.from_kubeconfig(chosen.kubeconfig), scale)
    elif chosen.server:
        found = lines.for_another(Target.at(chosen.server, chosen.token), scale)
    else:
        found = lines.for_fairway(scale)
    table.show(found, judged=scale == 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
