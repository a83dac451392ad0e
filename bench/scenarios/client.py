"""The Go client (main.go): found, built once into the user's cache, and run against a server."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import msgspec

_HERE: Final = Path(__file__).parent
_SOURCES: Final = ("go.mod", "go.sum", "main.go")
_KUEUE: Final = "sigs.k8s.io/kueue"
_GRACE_SECONDS: Final = 30.0
_FOLDERS: Final = {"baseline": "baseline", "large": "large-scale"}
"""Of Kueue's own configurations, by our name for them; `tenth` is ours and lies beside this file."""

CONFIGS: Final = ("tenth", *_FOLDERS)


class GoMissing(Exception):
    """There is no Go here, so the client cannot be built."""


class ClientFailed(Exception):
    """The client could not be built, or ended with an error, which it has printed."""


class WorkloadClass(msgspec.Struct, rename="camel", frozen=True):
    """Time from creation to admission, and evictions, of the Workloads of one class."""

    count: int
    mean_admission_ms: float
    p95_admission_ms: float
    max_admission_ms: float
    evictions: int
    mean_run_ms: float
    """From admission to the end; what exceeds the run time of the class is the latency of client and server."""


class Result(msgspec.Struct, rename="camel", frozen=True):
    """What the client measured, as it prints it."""

    seconds: float
    generation_seconds: float
    workloads: int
    finished: int
    classes: dict[str, WorkloadClass]
    usage_percent: dict[str, float]
    dropped_events: int
    connections: int
    requests: int
    conflicts: int
    refused: int
    """Answers with another status from 400 on."""

    median_write_ms: float
    p95_write_ms: float
    cpu_seconds: float


def find_go() -> str:
    """The Go command: $GO, on the PATH, where its installer puts it, or where ``tools/kubectl/get`` does."""
    candidates = (os.environ.get("GO", "go"), "/usr/local/go/bin/go", str(_HERE.parents[1] / ".venv-go/bin/go"))
    for candidate in candidates:
        if found := shutil.which(candidate):
            return found
    raise GoMissing("Go is not installed; put go 1.26 on the PATH or set GO")


def build() -> Path:
    """The client's binary; built when its sources have changed, which takes several minutes the first time."""
    go = find_go()
    sources = b"".join((_HERE / name).read_bytes() for name in _SOURCES)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fairway-bench"
    binary = cache / f"scenarios-{hashlib.sha256(sources).hexdigest()[:16]}"
    if not binary.exists():
        print(f"building {binary} with {go}: several minutes, once", file=sys.stderr, flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        new = binary.with_suffix(f".{os.getpid()}")
        _go(go, "build", "-o", str(new), ".")
        new.replace(binary)
    return binary


def config_file(name: str, file: str = "generator.yaml") -> Path:
    """The configuration of this name; those of Kueue are read where Go keeps the module."""
    if name not in _FOLDERS:
        return _HERE / f"{name}.yaml"
    module = _go(find_go(), "list", "-m", "-f", "{{.Dir}}", _KUEUE).strip()
    return Path(module) / "test/performance/scheduler/configs" / _FOLDERS[name] / file


def run(kubeconfig: Path, config: Path, *, timeout_seconds: float, profile: Path | None = None) -> Result:
    """Play one scenario on the server of this kubeconfig."""
    command = [str(build()), "-kubeconfig", str(kubeconfig), "-config", str(config)]
    command += ["-timeout", f"{timeout_seconds:.0f}s"]
    if profile is not None:
        command += ["-cpuprofile", str(profile)]
    try:
        ran = subprocess.run(  # noqa: S603 - built above
            command, stdout=subprocess.PIPE, check=True, timeout=timeout_seconds + _GRACE_SECONDS
        )
    except subprocess.CalledProcessError as problem:
        raise ClientFailed(f"the client ended with exit code {problem.returncode}, see above") from None
    except subprocess.TimeoutExpired:
        raise ClientFailed(f"the client did not end within {timeout_seconds:.0f} s") from None
    return msgspec.json.decode(ran.stdout, type=Result)


def _go(go: str, *arguments: str) -> str:
    environment = os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}
    try:
        ran = subprocess.run(  # noqa: S603 - go, found above
            [go, *arguments], cwd=_HERE, env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
    except subprocess.CalledProcessError as problem:
        raise ClientFailed(f"go {arguments[0]} ended with exit code {problem.returncode}, see above") from None
    return ran.stdout
