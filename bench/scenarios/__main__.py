"""``python -m bench.scenarios``: a performance scenario of the Kueue project over HTTP, with Kueue's own client.

Cohorts of ClusterQueues lend each other quota; each queue gets small Workloads of low priority often, and large ones of
high priority seldom. Kueue's generator creates them and its controller plays the jobs: it finishes each when its time
is up and releases the quota of evicted ones. Fairway admits them. Needs Go 1.26, and several minutes to build, once.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.scenarios.client import CONFIGS
from bench.scenarios.lines import lines_of
from bench.table import Host, show


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scenarios", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--config",
        choices=CONFIGS,
        default="tenth",
        help="baseline: 15 000 Workloads in 30 ClusterQueues; large: 50 000 in 1 000; tenth: 1 500 in 30 (default)",
    )
    parser.add_argument("--cpuprofile", type=Path, help="write a CPU profile of the client to this file")
    options = parser.parse_args()
    host = Host()
    found = [*lines_of(options.config, options.cpuprofile), host.line()]
    show(found, judged=True)
    return 1 if any(line.met is False for line in found) else 0


if __name__ == "__main__":
    sys.exit(main())
