"""How busy the machine of the server is: cores, memory, load and GPUs, as the system reports them."""

import importlib
import os
import time
from contextlib import suppress
from typing import Any

import psutil


class Cores:
    """How busy the cores are, between two looks that are at least a second apart."""

    def __init__(self) -> None:
        self._at, self._times = time.monotonic(), psutil.cpu_times()
        self._used = 0.0

    def used(self) -> float:
        """The part of their time that was not idle; at the first look, since the start of the server."""
        now, times = time.monotonic(), psutil.cpu_times()
        idle, whole = (_idle(times) - _idle(self._times), sum(times[:8]) - sum(self._times[:8]))
        if whole > 0 and (now - self._at >= 1.0 or not self._used):
            self._used = 1.0 - idle / whole
            self._at, self._times = now, times
        return self._used


def _idle(times: Any) -> float:
    return float(times.idle + getattr(times, "iowait", 0.0))


def busy(cores: Cores) -> dict[str, Any]:
    """The figures of now."""
    memory = psutil.virtual_memory()
    return {
        "cpu": {"used": cores.used(), "cores": os.cpu_count() or 1, "load": os.getloadavg()[0]},
        "memory": {"used": memory.total - memory.available, "total": memory.total},
        "gpus": _gpus(),
    }


def _gpus() -> list[dict[str, Any]]:
    """Each GPU that the driver knows; none where there is no driver."""
    found: list[dict[str, Any]] = []
    with suppress(Exception):  # no driver, or one that does not answer: there is nothing to tell
        nvml: Any = importlib.import_module("pynvml")
        nvml.nvmlInit()
        try:
            for index in range(nvml.nvmlDeviceGetCount()):
                device = nvml.nvmlDeviceGetHandleByIndex(index)
                memory = nvml.nvmlDeviceGetMemoryInfo(device)
                found.append(
                    {
                        "index": index,
                        "model": str(nvml.nvmlDeviceGetName(device)),
                        "used": nvml.nvmlDeviceGetUtilizationRates(device).gpu / 100,
                        "memory": {"used": memory.used, "total": memory.total},
                    }
                )
        finally:
            nvml.nvmlShutdown()
    return found
