"""Kueue's Configuration as Fairway and guides for plain pods need it: what it lacks, and the text with or without it.

Changes are made in the text, so that comments and order stay as they are.
"""

import copy
import json
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

import yaml

from fairway.apis.kueue.configuration_file import FRAMEWORKS
from fairway.apis.machinery.selectors import LabelSelector, LabelSelectorRequirement
from fairway.deploy.names import NAMESPACE

EXTERNAL_FRAMEWORK: Final = "ManagedJob.v1alpha1.fairway.dev"
Path = tuple[str | int, ...]
_NAME: Final = "kubernetes.io/metadata.name"
_DEFAULT_FRAMEWORKS: Final = ("batch/job",)
_SYSTEM: Final = ("kube-system", "kueue-system")


class ConfigurationFinding(NamedTuple):
    """One thing about the Configuration; `mended` if `mend` adds it."""

    severity: Literal["ok", "warning", "broken"]
    message: str
    way_out: str = ""
    mended: bool = False


def configuration_findings(
    config: Mapping[str, Any], operators: Mapping[str, Collection[str]] = MappingProxyType({})
) -> Iterator[ConfigurationFinding]:
    """What Kueue's Configuration (decoded YAML) has and lacks.

    `operators` are those that the cluster has, with the frameworks of their jobs: `{"KubeRay": ["ray.io/rayjob"]}`.
    """
    integrations = config.get("integrations") or {}
    frameworks = integrations.get("frameworks") or _DEFAULT_FRAMEWORKS
    external = integrations.get("externalFrameworks") or ()
    everything = bool(config.get("manageJobsWithoutQueueName"))
    if "pod" in frameworks:
        yield ConfigurationFinding("ok", "Kueue manages plain pods (integrations.frameworks has pod)")
    else:
        yield ConfigurationFinding(
            "warning",
            "integrations.frameworks lacks pod: Kueue does not queue plain pods, even with a queue label",
            "--fix adds it",
            mended=True,
        )
    for operator, own in operators.items():
        if lacking := sorted(set(own) - set(frameworks)):
            yield ConfigurationFinding(
                "warning",
                f"{operator} is installed, and integrations.frameworks lacks {', '.join(lacking)}: "
                "such jobs start without quota, even with a queue label",
                f"add {', '.join(lacking)} to integrations.frameworks and restart Kueue",
            )
        else:
            yield ConfigurationFinding("ok", f"Kueue queues the jobs of {operator} ({', '.join(sorted(own))})")
    if EXTERNAL_FRAMEWORK in external:
        yield ConfigurationFinding("ok", "Kueue knows ManagedJobs (integrations.externalFrameworks)")
    else:
        effect = "and would queue their pods a second time" if everything else "and does not see them as owners of pods"
        yield ConfigurationFinding(
            "broken" if everything else "warning",
            f"integrations.externalFrameworks lacks {EXTERNAL_FRAMEWORK}: Kueue does not know ManagedJobs {effect}",
            "--fix adds it",
            mended=True,
        )
    unknown = sorted(set(frameworks) - set(FRAMEWORKS))
    if unknown:
        yield ConfigurationFinding(
            "warning",
            f"integrations.frameworks has {', '.join(unknown)}, which Kueue 0.19 does not have",
            "remove them",
        )
    yield from _namespaces(config, everything=everything)
    yield from _readiness(config.get("waitForPodsReady") or {})


def _namespaces(config: Mapping[str, Any], *, everything: bool) -> Iterator[ConfigurationFinding]:
    if not everything:
        yield ConfigurationFinding(
            "ok", "jobs without a queue label are not managed (manageJobsWithoutQueueName: false)"
        )
        return
    if managed_namespaces(config).matches({_NAME: NAMESPACE}):
        yield ConfigurationFinding(
            "broken",
            f"manageJobsWithoutQueueName is true and managedJobsNamespaceSelector includes {NAMESPACE}: "
            "Kueue would hold back Fairway's own controller",
            f"--fix leaves {NAMESPACE} out of managedJobsNamespaceSelector",
            mended=True,
        )
    else:
        yield ConfigurationFinding("ok", f"managedJobsNamespaceSelector leaves out {NAMESPACE}")


def _readiness(waiting: Mapping[str, Any]) -> Iterator[ConfigurationFinding]:
    if not waiting or waiting.get("enable") is False:
        yield ConfigurationFinding(
            "warning",
            "waitForPodsReady is not set: an admitted job whose pods never become ready keeps its quota",
            "set waitForPodsReady.timeout, such as 10m, unless pods may take any time; --fix does not decide this",
        )
    elif waiting.get("blockAdmission"):
        yield ConfigurationFinding(
            "warning",
            "waitForPodsReady.blockAdmission is true: one job is admitted at a time",
            "set it to false, unless jobs deadlock on nodes",
        )
    else:
        yield ConfigurationFinding("ok", f"waitForPodsReady is set (timeout {waiting.get('timeout', '5m')})")


def managed_namespaces(config: Mapping[str, Any]) -> LabelSelector:
    """The namespaces whose pods Kueue manages; by default all but the system's."""
    integrations = config.get("integrations") or {}
    written = config.get("managedJobsNamespaceSelector")
    if written is None:
        written = (integrations.get("podOptions") or {}).get("namespaceSelector")
    if written is None:
        written = {"matchExpressions": [{"key": _NAME, "operator": "NotIn", "values": list(_SYSTEM)}]}
    return LabelSelector(
        match_labels=dict(written.get("matchLabels") or {}),
        match_expressions=tuple(
            LabelSelectorRequirement(key=one["key"], operator=one["operator"], values=tuple(one.get("values") or ()))
            for one in written.get("matchExpressions") or ()
        ),
    )


def mend(text: str) -> str:
    """The text with all that `configuration_findings` calls `mended`; the same text if nothing lacks."""
    config = yaml.load(text, Loader=yaml.CSafeLoader) or {}
    wanted = copy.deepcopy(config)
    for path, item in _missing_items(config):
        place: Any = wanted
        for name, following in pairwise(path):
            if isinstance(name, str) and not place.get(name):
                place[name] = {} if isinstance(following, str) else []
            place = place[name]
        place[path[-1]] = [*(place.get(path[-1]) or ()), item]
        try:
            text = _with_item(text, path, item)
        except (ValueError, yaml.YAMLError):
            continue  # written in a way that lines cannot be added to: below
    try:
        if yaml.load(text, Loader=yaml.CSafeLoader) == wanted:
            return text
    except yaml.YAMLError:
        pass
    return str(yaml.dump(wanted, Dumper=yaml.CSafeDumper, sort_keys=False))


def without_managed_jobs(text: str) -> str:
    """The text without the external framework that `mend` adds; the same text if it does not have it."""
    config = yaml.load(text, Loader=yaml.CSafeLoader) or {}
    external = (config.get("integrations") or {}).get("externalFrameworks") or ()
    if EXTERNAL_FRAMEWORK not in external:
        return text
    wanted = copy.deepcopy(config)
    wanted["integrations"]["externalFrameworks"] = [one for one in external if one != EXTERNAL_FRAMEWORK]
    try:
        shorter = _without_item(text, EXTERNAL_FRAMEWORK, ("integrations", "externalFrameworks"))
        if _filled(yaml.load(shorter, Loader=yaml.CSafeLoader) or {}) == _filled(wanted):
            return shorter
    except (ValueError, yaml.YAMLError):
        pass  # written in a way that lines cannot be taken from
    return str(yaml.dump(_filled(wanted), Dumper=yaml.CSafeDumper, sort_keys=False))


def _filled(config: Mapping[str, Any]) -> dict[str, Any]:
    """A Configuration without an empty list of external frameworks, which is the same to Kueue."""
    integrations = dict(config.get("integrations") or {})
    if not integrations.get("externalFrameworks"):
        integrations.pop("externalFrameworks", None)
    rest = {name: value for name, value in config.items() if name != "integrations"}
    return {**rest, "integrations": integrations} if integrations else rest


def _without_item(text: str, item: str, path: tuple[str, ...]) -> str:
    """The text without an item of a list; mappings and a list that had nothing else go, too."""
    node, keys = yaml.compose(text, Loader=yaml.CSafeLoader), []
    for name in path:
        key, node = next(pair for pair in node.value if pair[0].value == name)
        keys.append((key, len(node.value)))
    number, found = next((n, one) for n, one in enumerate(node.value) if one.value == item)
    if node.flow_style:
        begin = node.value[number - 1].end_mark.index if number else found.start_mark.index
        end = node.value[number + 1].start_mark.index if number == 0 and len(node.value) > 1 else found.end_mark.index
        return f"{text[:begin]}{text[end:]}"
    gone = {found.start_mark.line}
    for key, size in reversed(keys):
        if size > 1:
            break
        gone.add(key.start_mark.line)
    return "".join(line for at, line in enumerate(text.splitlines(keepends=True)) if at not in gone)


def _missing_items(config: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The lists that lack something, and what."""
    integrations = config.get("integrations") or {}
    if "pod" not in (integrations.get("frameworks") or _DEFAULT_FRAMEWORKS):
        for name in ("pod",) if integrations.get("frameworks") else (*_DEFAULT_FRAMEWORKS, "pod"):
            yield ("integrations", "frameworks"), name
    if EXTERNAL_FRAMEWORK not in (integrations.get("externalFrameworks") or ()):
        yield ("integrations", "externalFrameworks"), EXTERNAL_FRAMEWORK
    if not (config.get("manageJobsWithoutQueueName") and managed_namespaces(config).matches({_NAME: NAMESPACE})):
        return
    expressions = ("managedJobsNamespaceSelector", "matchExpressions")
    selector = config.get(expressions[0]) or {}
    for number, one in enumerate(selector.get(expressions[1]) or ()):
        if (one["key"], one["operator"]) == (_NAME, "NotIn"):
            yield (*expressions, number, "values"), NAMESPACE
            return
    values = [NAMESPACE] if selector else [*_SYSTEM, NAMESPACE]
    yield expressions, {"key": _NAME, "operator": "NotIn", "values": values}


def _with_item(text: str, path: Path, item: Any) -> str:
    """The text with an item at the end of a list, which is created with its parents if it is absent."""
    written = json.dumps(item)
    node, missing = _find(yaml.compose(text, Loader=yaml.CSafeLoader), path)
    lines = text.rstrip("\n").split("\n")
    if not missing and node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end]}{', ' if node.value else ''}{written}{text[end:]}"
    if missing and node.flow_style:
        raise ValueError("a mapping in braces")
    first = node.value[0].start_mark.column - 2 if not missing else node.value[0][0].start_mark.column
    indent, at = " " * first, _last_line(node) + 1 if len(missing) < len(path) else len(lines)
    added = [f"{indent}{'  ' * depth}{name}:" for depth, name in enumerate(missing)]
    lines[at:at] = [*added, f"{indent}{'  ' * max(0, len(missing) - 1)}- {written}"]
    return "\n".join(lines) + "\n"


def _find(node: Any, path: Path) -> tuple[Any, Path]:
    """The deepest node on a path that exists, and the rest of the path."""
    for depth, name in enumerate(path):
        if isinstance(name, int):
            node = node.value[name]
            continue
        found = next((value for key, value in node.value if key.value == name), None)
        if found is None:
            return node, path[depth:]
        if isinstance(found, yaml.ScalarNode):
            raise ValueError(f"{name} has no value")  # noqa: TRY004 - nothing that a caller distinguishes
        node = found
    return node, ()


def _last_line(node: Any) -> int:
    """The line of the last scalar in a node; its own end may be after comments."""
    while not isinstance(node, yaml.ScalarNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.line)


def guide_objects(namespace: str, *, provisioning: bool) -> list[dict[str, Any]]:
    """Flavor, checks and queues of the guide "Using SkyPilot with Kueue", under its names.

    Without `provisioning` (no ProvisioningRequests on the cluster) the checks are left out: they would hold all jobs.
    """
    api = "kueue.x-k8s.io/v1beta2"
    flavor, check, config = "default-flavor", "skypilot-kueue-prov", "skypilot-kueue-config"
    quotas = [
        {"name": "cpu", "nominalQuota": "1000000000"},
        {"name": "memory", "nominalQuota": "1000000000Gi"},
        {"name": "nvidia.com/gpu", "nominalQuota": "1000000000"},
    ]
    spec: dict[str, Any] = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": [one["name"] for one in quotas],
                "flavors": [{"name": flavor, "resources": quotas}],
            }
        ],
    }
    found: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": flavor}, "spec": {}},
    ]
    if provisioning:
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": config}
        checked = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
        provisioned = {
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "managedResources": ["nvidia.com/gpu", "cpu", "memory"],
        }
        found += [
            {"apiVersion": api, "kind": "ProvisioningRequestConfig", "metadata": {"name": config}, "spec": provisioned},
            {"apiVersion": api, "kind": "AdmissionCheck", "metadata": {"name": check}, "spec": checked},
        ]
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
    queue = {"name": "skypilot-local-queue", "namespace": namespace}
    return [
        *found,
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": "skypilot-cluster-queue"}, "spec": spec},
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": queue,
            "spec": {"clusterQueue": "skypilot-cluster-queue"},
        },
    ]
