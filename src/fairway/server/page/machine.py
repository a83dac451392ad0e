"""How busy the machine of the server is: cores, memory, load and GPUs, as the system reports them."""

import importlib
import os
from contextlib import suppress
from typing import Any

import psutil


def busy() -> dict[str, Any]:
    """The figures of now. The use of the cores is that since the call before."""
    memory = psutil.virtual_memory()
    return {
        "cpu": {"used": psutil.cpu_percent(None) / 100, "cores": os.cpu_count() or 1, "load": os.getloadavg()[0]},
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
