"""The driver and the executors of a SparkApplication, sized as Spark makes their pods.

Spark's own rules: memory is the heap and an overhead, in whole MiB; `cores` count where no `coreRequest` is given. What
a role does not say may be in `sparkConf`, which its operator passes on.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.schedulers.jobs import PodRole, RoleStart
from fairway.schedulers.plugin import SchedulingError

_MIB: Final = 1 << 20
_UNITS: Final = {"b": 1, "k": 1 << 10, "m": _MIB, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_SIZE: Final = re.compile(r"([0-9]+)([a-z]*)")
_LEAST_OVERHEAD: Final = 384 * _MIB
_JVM: Final = ("Java", "Scala")
_DEFAULT_MEMORY: Final = 1 << 30
_DEFAULT_EXECUTORS: Final = 2
_POD_FIELDS: Final = ("affinity", "tolerations", "initContainers", "priorityClassName", "hostNetwork")


def spark_roles(application: Manifest) -> list[PodRole]:
    """`spark-driver` and `spark-executor`, as Spark's operator calls their task groups."""
    spec = application["spec"]
    driver, executor = (_present(spec, name) for name in ("driver", "executor"))
    return [
        PodRole(name="spark-driver", count=1, node=driver, pod=_pod(spec, driver, "driver"), flat=True),
        PodRole(
            name="spark-executor",
            count=_executors(spec, executor),
            node=executor,
            pod=_pod(spec, executor, "executor"),
            flat=True,
            starts=RoleStart.LATER,
        ),
    ]


def _present(spec: Manifest, name: str) -> Manifest:
    if not isinstance(spec.get(name), dict):
        spec[name] = {}
    found: Manifest = spec[name]
    return found


def _executors(spec: Manifest, executor: Manifest) -> int:
    conf: Mapping[str, Any] = spec.get("sparkConf") or {}
    said = executor.get("instances")
    instances = _count(conf, "spark.executor.instances") if said is None else int(said)
    dynamic = spec.get("dynamicAllocation") or {}
    of_conf = str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true"
    if not (dynamic.get("enabled") or of_conf):
        return _DEFAULT_EXECUTORS if instances is None else instances
    return max(
        instances or 0,
        dynamic.get("initialExecutors") or _count(conf, "spark.dynamicAllocation.initialExecutors") or 0,
        dynamic.get("minExecutors") or _count(conf, "spark.dynamicAllocation.minExecutors") or 0,
    )


def _count(conf: Mapping[str, Any], key: str) -> int | None:
    text = str(conf.get(key, "")).strip()
    if text and not (text.isascii() and text.isdigit()):
        raise SchedulingError(f"spec.sparkConf[{key}]: {text!r} is not a whole number; write for example 2")
    return int(text) if text else None


def _pod(spec: Manifest, role: Manifest, name: str) -> Manifest:
    """The spec of its pods, as far as it says how large they are and where they may run."""
    requests = {"cpu": _cores(spec, role, name), "memory": f"{_memory(spec, role, name) // _MIB}Mi"}
    gpu = role.get("gpu") or {}
    if gpu.get("name"):
        requests[gpu["name"]] = str(gpu.get("quantity") or 0)
    template = (role.get("template") or {}).get("spec") or {}
    own = {field: role[field] for field in _POD_FIELDS if field in role}
    selector = {**(spec.get("nodeSelector") or {}), **(role.get("nodeSelector") or {})}
    beside = [*(role.get("sidecars") or ()), *(template.get("containers") or ())[1:]]
    pod = {**template, **own, "containers": [{"name": name, "resources": {"requests": requests}}, *beside]}
    if selector:
        pod["nodeSelector"] = {**(template.get("nodeSelector") or {}), **selector}
    return pod


def _cores(spec: Manifest, role: Manifest, name: str) -> str:
    conf: Mapping[str, Any] = spec.get("sparkConf") or {}
    requested = role.get("coreRequest") or conf.get(f"spark.kubernetes.{name}.request.cores")
    return str(requested or role.get("cores") or conf.get(f"spark.{name}.cores") or 1)


def _memory(spec: Manifest, role: Manifest, name: str) -> int:
    conf: Mapping[str, Any] = spec.get("sparkConf") or {}

    def size(field: str) -> int | None:
        key = f"spark.{name}.{field}"
        text, path = role.get(field) or conf.get(key), f"spec.{name}.{field}"
        return _bytes(text, path if role.get(field) else f"spec.sparkConf[{key}]") if text else None

    heap, overhead = size("memory") or _DEFAULT_MEMORY, size("memoryOverhead")
    if overhead is None:
        overhead = max(int(heap * _overhead_factor(spec, name)), size("minMemoryOverhead") or _LEAST_OVERHEAD)
    return heap + overhead + (_beside_heap(spec) if name == "executor" else 0)


def _overhead_factor(spec: Manifest, name: str) -> float:
    conf: Mapping[str, Any] = spec.get("sparkConf") or {}
    places = {
        f"spec.sparkConf[spark.{name}.memoryOverheadFactor]": conf.get(f"spark.{name}.memoryOverheadFactor"),
        "spec.memoryOverheadFactor": spec.get("memoryOverheadFactor"),
        "spec.sparkConf[spark.kubernetes.memoryOverheadFactor]": conf.get("spark.kubernetes.memoryOverheadFactor"),
    }
    path, given = next(((path, text) for path, text in places.items() if text is not None), ("", None))
    if given is None:
        return 0.1 if spec.get("type") in _JVM else 0.4
    try:
        return float(given)
    except ValueError:
        raise SchedulingError(f"{path}: {given!r} is not a number; write for example 0.1") from None


def _beside_heap(spec: Manifest) -> int:
    """What executors take for Python and off the heap."""
    conf: Mapping[str, Any] = spec.get("sparkConf") or {}
    python, off_heap = conf.get("spark.executor.pyspark.memory"), conf.get("spark.memory.offHeap.size")
    total = 0
    if python and spec.get("type") == "Python":
        total += _bytes(python, "spec.sparkConf[spark.executor.pyspark.memory]")
    if off_heap and str(conf.get("spark.memory.offHeap.enabled", "false")).lower() != "false":
        total += _bytes(off_heap, "spec.sparkConf[spark.memory.offHeap.size]", bare=1)
    return total


def _bytes(text: object, path: str, bare: int = _MIB) -> int:
    """A size as the JVM writes it: `512m`, `2g`, a bare number in units of `bare`."""
    found = _SIZE.fullmatch(str(text).strip().lower())
    unit = found.group(2).removesuffix("b") or ("b" if found.group(2) == "b" else "") if found else "?"
    if found is None or (unit and unit not in _UNITS):
        raise SchedulingError(f"{path}: {text!r} is not a size; write for example 512m or 2g")
    return int(found.group(1)) * (_UNITS[unit] if unit else bare)
