"""Run Kueue's own integration specs, unchanged, against Fairway: `python tools/kueue-suites --help`."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from reports import PAGE, SuiteResult, exclusions, read
from source import VERSION, prepare

ROOT = Path(__file__).parents[2]
BASE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairway/kueue-suites"
SUITES = (
    "scheduler",
    "scheduler/fairsharing",
    "scheduler/podsready",
    "scheduler/quotacheckstrategy",
    "scheduler/resourcetransformations",
    "scheduler/excluderesources",
    "scheduler/delayedadmission",
    "scheduler/inadmissible",
    "controller/core",
    "controller/jobs/job",
    "controller/jobs/pod",
    "controller/admissionchecks/provisioning",
    "webhook/core",
    "webhook/jobs",
    "kueuectl",
    "tas",
    "conversion",
    "importer",
)
_ROW = "{:<42}{:>8}{:>8}{:>8}{:>16}{:>9}"


def main() -> int:
    options = _parser().parse_args()
    unknown = set(options.suites) - set(SUITES)
    if unknown:
        sys.exit(f"there is no suite {min(unknown)!r}; they are {', '.join(SUITES)}")
    if shutil.which("go") is None:
        sys.exit("Go is needed to build the suites, and there is none on the PATH")
    suites = options.suites or SUITES
    kueue = prepare(BASE)
    build(kueue, suites)
    if options.build:
        return 0
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:  # the suites mostly wait; each has a server of its own
        for result in pool.map(lambda suite: run(kueue, suite, options), suites):
            results.append(result)
            if options.output != "json":
                show(result)
    if options.output == "json":
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        table(results)
    return int(any(result.error or result.count("failed") for result in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tools/kueue-suites",
        description=f"Run the integration specs of Kueue {VERSION}, unchanged, against Fairway.",
        epilog=f"Binaries, logs and reports are kept in {BASE}; specs that do not apply are listed in {PAGE.name}.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"all by default: {', '.join(SUITES)}")
    parser.add_argument("--focus", metavar="REGEX", help="only the specs whose name matches")
    parser.add_argument("--all", action="store_true", help="also run the specs that do not apply")
    parser.add_argument(
        "--fairway", default=str(ROOT / ".venv/bin/fairway"), metavar="PATH", help="the program to test"
    )
    parser.add_argument(
        "--tag", default="", metavar="TEXT", help="part of the results' directory, for runs side by side"
    )
    parser.add_argument("--timeout", default="60m", metavar="TIME", help="the most that one suite may take [60m]")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="so many suites at a time [2]")
    parser.add_argument("--build", action="store_true", help="build the suites, and run none")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    return parser


def binary(suite: str) -> Path:
    return BASE / "bin" / f"{suite.replace('/', '-')}.test"


def build(kueue: Path, suites: tuple[str, ...] | list[str]) -> None:
    """Go builds what changed; the first suite takes ten minutes, each of the others about one."""
    wanted = [
        (binary(suite), ["test", "-c", "-vet=off", "-ldflags=-s -w"], f"./test/integration/singlecluster/{suite}")
        for suite in suites
    ]
    if "kueuectl" in suites:
        wanted.append((BASE / "bin/kubectl-kueue", ["build"], "./cmd/kueuectl"))
    for target, command, package in wanted:
        if target.is_file() and target.stat().st_mtime > (BASE / "kueue.stamp").stat().st_mtime:
            continue
        print(f"building {target.name} ...", file=sys.stderr, flush=True)
        subprocess.run(  # noqa: S603 - Go, in a directory of ours
            ["go", *command, "-o", str(target), package],  # noqa: S607
            cwd=kueue,
            env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"},
            check=True,
        )
        target.touch()


def run(kueue: Path, suite: str, options: argparse.Namespace) -> SuiteResult:
    """One suite on a server of its own."""
    out = BASE / "out" / (suite.replace("/", "-") + options.tag)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    excluded = exclusions()
    flags = [f"--ginkgo.json-report={out}/report.json", f"--ginkgo.timeout={options.timeout}"]
    flags += ["--ginkgo.silence-skips", "--ginkgo.poll-progress-after=0", "--ginkgo.no-color"]
    if options.focus:
        flags.append(f"--ginkgo.focus={options.focus}")
    if not options.all:  # one that fails ends its container, if the specs of that are ordered
        flags += [f"--ginkgo.skip={_pattern(one.name)}" for one in excluded if one.suite == suite]
    with tempfile.TemporaryDirectory(prefix="kueue-suites-") as directory:
        # The server's state, with Go's cache of API discovery (in the home directory), is gone after the run.
        state = Path(directory) / "state"
        environment = {
            **os.environ,
            "FAIRWAY": options.fairway,
            "FAIRWAY_STATE": str(state),
            "KUBECONFIG": str(state / "kubeconfig"),
            "KUEUE_BIN": str(BASE / "bin"),
            "KUBEBUILDER_ASSETS": str(Path(_kubectl()).parent),
            "ARTIFACTS": str(out),
        }
        with (out / "out.log").open("wb") as log:
            here = kueue / "test/integration/singlecluster" / suite
            subprocess.run([binary(suite), *flags], cwd=here, env=environment, stdout=log, stderr=log, check=False)  # noqa: S603
        for name in ("server.log", "controller.log"):
            if (Path(directory) / name).is_file():
                shutil.copy(Path(directory) / name, out / name)
        if (state / "server.log").is_file():
            shutil.copy(state / "server.log", out / "fairway.log")
    return read(suite, out / "report.json", excluded)


def _pattern(name: str) -> str:
    """The text that Ginkgo matches has blanks where we write ` > `."""
    return ".*".join(re.escape(part.replace(" > ", " ")) for part in name.split("*"))


def _kubectl() -> str:
    return os.environ.get("KUBECTL") or shutil.which("kubectl") or sys.exit("kubectl is not on the PATH; set KUBECTL")


def show(result: SuiteResult) -> None:
    for spec in result.specs:
        if spec.state == "failed":
            print(f"FAILED {result.suite}: {spec.name} ({spec.place}, {spec.seconds:.1f}s)")
            print("    " + spec.reason[:1200].replace("\n", "\n    "))
    if result.error:
        print(f"ERROR {result.suite}: {result.error}")
    sys.stdout.flush()


def table(results: list[SuiteResult]) -> None:
    states = ("passed", "failed", "not applicable", "skipped")
    print(_ROW.format("suite", "specs", *states))
    for result in results:
        counts = [result.count(state) for state in states]
        print(_ROW.format(result.suite, len(result.specs), *counts), result.error[:60])
    sums = [sum(result.count(state) for result in results) for state in states]
    print(_ROW.format("all", sum(len(result.specs) for result in results), *sums))


if __name__ == "__main__":
    sys.exit(main())
