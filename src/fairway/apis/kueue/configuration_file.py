"""From the text of `controller_manager_config.yaml` to what it means.

Both versions that Kueue reads are read, with the same defaults. Settings of parts that are not here (certificates,
leader election, ports) are accepted and mean nothing; what Kueue does not know either is refused, so that a slip of the
pen does not go unnoticed.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairway.apis.kueue.configuration import (
    ALLOW,
    DENY,
    AdmissionFairSharingPolicy,
    Configuration,
    FairSharingPolicy,
    PreemptionStrategy,
    ResourceTransformation,
    WaitForPodsReady,
)
from fairway.apis.machinery import problems
from fairway.apis.machinery.documents import from_yaml
from fairway.apis.machinery.durations import parse_duration
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.selectors import LabelSelector, LabelSelectorRequirement
from fairway.errors import FieldError, ValidationError

_GROUP: Final = "config.kueue.x-k8s.io"
_VERSIONS: Final = (f"{_GROUP}/v1beta2", f"{_GROUP}/v1beta1")
_STRATEGIES: Final = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
FRAMEWORKS: Final = (
    "batch/job",
    "pod",
    "deployment",
    "statefulset",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "kubeflow.org/jaxjob",
    "kubeflow.org/paddlejob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "sparkoperator.k8s.io/sparkapplication",
)
"""All that Kueue has; which of them are served here is a matter of the kinds that are."""


class _Written(Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A part of the text, as it is written."""


class _Expression(_Written):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class _Selector(_Written):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[_Expression, ...] = ()


class _PodOptions(_Written):
    namespace_selector: _Selector | None = None
    pod_selector: Any = None


class _Integrations(_Written):
    frameworks: tuple[str, ...] = ()
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()
    pod_options: _PodOptions | None = None


class _Requeuing(_Written):
    timestamp: str | None = None
    backoff_limit_count: int | None = None
    backoff_base_seconds: int | None = None
    backoff_max_seconds: int | None = None


class _PodsReady(_Written):
    enable: bool | UnsetType = UNSET
    timeout: str | None = None
    recovery_timeout: str | None = None
    block_admission: bool | None = None
    requeuing_strategy: _Requeuing | None = None


class _FairSharing(_Written):
    enable: bool | UnsetType = UNSET
    preemption_strategies: tuple[str, ...] = ()


class _AdmissionFairSharing(_Written):
    usage_half_life_time: str = "0s"
    usage_sampling_interval: str = "5m"
    resource_weights: dict[str, float] = {}


class _Transformation(_Written):
    input: str
    strategy: str | None = None
    multiply_by: str = ""
    outputs: dict[str, str | int | float] = {}


class _Resources(_Written):
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[_Transformation, ...] = ()
    quota_check_strategy: str | None = None
    device_class_mappings: Any = None


class _WorkloadRetention(_Written):
    after_finished: str | None = None
    after_deactivated_by_kueue: str | None = None


class _Retention(_Written):
    workloads: _WorkloadRetention | None = None


class _LocalQueueMetrics(_Written):
    enable: bool = False
    local_queue_selector: _Selector | None = None


class _Metrics(Struct, rename="camel", kw_only=True):
    enable_cluster_queue_resources: bool = False
    local_queue_metrics: _LocalQueueMetrics | None = None


class _Text(_Written):
    api_version: str
    kind: str
    namespace: str | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: _Selector | None = None
    wait_for_pods_ready: _PodsReady | None = None
    integrations: _Integrations | None = None
    fair_sharing: _FairSharing | None = None
    admission_fair_sharing: _AdmissionFairSharing | None = None
    resources: _Resources | None = None
    object_retention_policies: _Retention | None = None
    metrics: _Metrics | None = None
    client_connection: Any = None
    controller: Any = None
    feature_gates: Any = None
    health: Any = None
    internal_cert_management: Any = None
    leader_election: Any = None
    manager: Any = None
    metadata: Any = None
    multi_kueue: Any = None
    pprof_bind_address: Any = None
    queue_visibility: Any = None
    tls: Any = None
    visibility_server: Any = None
    webhook: Any = None


class _Own(_Written):
    """Fairway's own settings."""

    node_timeout: str | None = None
    jobs_outside_queues: str = ALLOW
    hold_admission: bool = False


def read_own(text: str) -> dict[str, Any]:
    """What Fairway's own text says, as fields of `Configuration`; errors as those of `read`."""
    data = from_yaml(text.encode())
    try:
        written = msgspec.convert(_without_nulls(data) if data is not None else {}, _Own)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise _refusal([problems.invalid(path.strip("`.") or "(root)", None, message)]) from None
    errors: list[FieldError] = []
    if written.jobs_outside_queues not in {ALLOW, DENY}:
        known = [ALLOW, DENY]
        errors.append(problems.not_supported("jobsOutsideQueues", written.jobs_outside_queues, known))
    seconds = Configuration().node_timeout_seconds
    if written.node_timeout is not None:
        seconds = _read_seconds("nodeTimeout", written.node_timeout, errors) or None
    if errors:
        raise _refusal(errors)
    return {
        "node_timeout_seconds": seconds,
        "jobs_outside_queues": written.jobs_outside_queues,
        "hold_admission": written.hold_admission,
    }


def read(text: str) -> Configuration:
    """What the text says; `ValidationError` with all that is wrong with it, `BadRequest` if it is no YAML."""
    data = from_yaml(text.encode())
    try:
        written = msgspec.convert(_without_nulls(data) if data is not None else {}, _Text)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise _refusal([problems.invalid(path.strip("`.") or "(root)", None, message)]) from None
    errors: list[FieldError] = []
    if written.api_version not in _VERSIONS:
        errors.append(problems.not_supported("apiVersion", written.api_version, _VERSIONS))
    if written.kind != "Configuration":
        errors.append(problems.not_supported("kind", written.kind, ["Configuration"]))
    configuration = _Reader(written, errors).configuration()
    if errors:
        raise _refusal(errors)
    return configuration


def _without_nulls(value: Any) -> Any:
    """A field that is null is one that is left out, as Go's decoder of Kueue reads it."""
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _refusal(errors: list[FieldError]) -> ValidationError:
    return ValidationError("Configuration", "", errors)


class _Reader:
    """Turns what is written into what it means, and notes what means nothing."""

    def __init__(self, written: _Text, errors: list[FieldError]) -> None:
        self._written = written
        self._errors = errors
        self._old = written.api_version == _VERSIONS[1]

    def configuration(self) -> Configuration:
        written = self._written
        retention = (written.object_retention_policies or _Retention()).workloads or _WorkloadRetention()
        integrations = written.integrations or _Integrations()
        resources = written.resources or _Resources()
        metrics = written.metrics or _Metrics()
        options: dict[str, Any] = {}
        if metrics.local_queue_metrics is not None:
            options["local_queue_metrics"] = _exposed(metrics.local_queue_metrics)
        if written.managed_jobs_namespace_selector is not None:
            options["namespace_selector"] = _selector(written.managed_jobs_namespace_selector)
        if integrations.pod_options is not None and integrations.pod_options.namespace_selector is not None:
            options["pod_namespace_selector"] = _selector(integrations.pod_options.namespace_selector)
        path = "objectRetentionPolicies.workloads"
        return Configuration(
            frameworks=self._frameworks(integrations.frameworks),
            label_keys_to_copy=integrations.label_keys_to_copy,
            manage_jobs_without_queue_name=written.manage_jobs_without_queue_name,
            wait_for_pods_ready=self._pods_ready(written.wait_for_pods_ready),
            fair_sharing=self._fair_sharing(written.fair_sharing),
            admission_fair_sharing=self._admission_fair_sharing(written.admission_fair_sharing),
            excluded_resource_prefixes=resources.exclude_resource_prefixes,
            transformations=self._transformations(resources.transformations),
            ignore_undeclared_resources=self._ignores_undeclared(resources.quota_check_strategy),
            balanced_placement=_gate(written.feature_gates, "TASBalancedPlacement", usually=False),
            replace_failed_nodes_once=_gate(written.feature_gates, "TASFailedNodeReplacementFailFast", usually=True),
            finished_retention_seconds=self._seconds(f"{path}.afterFinished", retention.after_finished),
            deactivated_retention_seconds=self._seconds(
                f"{path}.afterDeactivatedByKueue", retention.after_deactivated_by_kueue
            ),
            queue_resource_metrics=metrics.enable_cluster_queue_resources,
            **options,
        )

    def _frameworks(self, names: tuple[str, ...]) -> tuple[str, ...]:
        self._errors += [
            problems.not_supported(f"integrations.frameworks[{position}]", name, FRAMEWORKS)
            for position, name in enumerate(names)
            if name not in FRAMEWORKS
        ]
        return tuple(dict.fromkeys(names)) or ("batch/job",)

    def _pods_ready(self, written: _PodsReady | None) -> WaitForPodsReady:
        if written is None or (self._old and written.enable is not True):
            return WaitForPodsReady()
        path = "waitForPodsReady"
        timeout = self._seconds(f"{path}.timeout", written.timeout) or (300.0 if self._old else 1800.0)
        recovery = self._seconds(f"{path}.recoveryTimeout", written.recovery_timeout)
        requeuing = written.requeuing_strategy or _Requeuing()
        timestamp = requeuing.timestamp or "Eviction"
        if timestamp not in {"Eviction", "Creation"}:
            place = f"{path}.requeuingStrategy.timestamp"
            self._errors.append(problems.not_supported(place, timestamp, ["Creation", "Eviction"]))
        for name, value in (
            ("backoffLimitCount", requeuing.backoff_limit_count),
            ("backoffBaseSeconds", requeuing.backoff_base_seconds),
            ("backoffMaxSeconds", requeuing.backoff_max_seconds),
        ):
            if value is not None and value < 0:
                place = f"{path}.requeuingStrategy.{name}"
                self._errors.append(problems.invalid(place, value, "must be greater than or equal to 0"))
        return WaitForPodsReady(
            timeout_seconds=timeout,
            recovery_timeout_seconds=timeout if recovery is None else (recovery or None),
            block_admission=self._old if written.block_admission is None else written.block_admission,
            requeue_timestamp=timestamp,
            backoff_limit=requeuing.backoff_limit_count,
            backoff_base_seconds=float(
                60 if requeuing.backoff_base_seconds is None else requeuing.backoff_base_seconds
            ),
            backoff_max_seconds=float(3600 if requeuing.backoff_max_seconds is None else requeuing.backoff_max_seconds),
        )

    def _fair_sharing(self, written: _FairSharing | None) -> FairSharingPolicy | None:
        if written is None or (self._old and written.enable is not True):
            return None
        chosen = written.preemption_strategies or _STRATEGIES
        allowed = {_STRATEGIES, _STRATEGIES[:1], _STRATEGIES[1:], _STRATEGIES[::-1]}
        if chosen not in allowed:
            self._errors.append(
                problems.not_supported("fairSharing.preemptionStrategies", ", ".join(chosen), _STRATEGIES)
            )
            return FairSharingPolicy()
        return FairSharingPolicy(strategies=tuple(map(PreemptionStrategy, chosen)))

    def _admission_fair_sharing(self, written: _AdmissionFairSharing | None) -> AdmissionFairSharingPolicy | None:
        if written is None:
            return None
        path = "admissionFairSharing"
        sampling = self._seconds(f"{path}.usageSamplingInterval", written.usage_sampling_interval)
        if sampling is not None and sampling <= 0:
            place = f"{path}.usageSamplingInterval"
            self._errors.append(problems.invalid(place, written.usage_sampling_interval, "must be greater than 0"))
        return AdmissionFairSharingPolicy(
            half_life_seconds=self._seconds(f"{path}.usageHalfLifeTime", written.usage_half_life_time) or 0.0,
            sampling_seconds=sampling or 300.0,
            resource_weights=written.resource_weights,
        )

    def _transformations(self, written: tuple[_Transformation, ...]) -> tuple[ResourceTransformation, ...]:
        found: dict[str, ResourceTransformation] = {}
        for position, one in enumerate(written):
            path = f"resources.transformations[{position}]"
            if one.input in found:
                self._errors.append(problems.duplicate(f"{path}.input", one.input))
            strategy = one.strategy or "Retain"
            if strategy not in {"Retain", "Replace"}:
                self._errors.append(problems.not_supported(f"{path}.strategy", strategy, ["Replace", "Retain"]))
            outputs = {name: self._quantity(f"{path}.outputs[{name}]", value) for name, value in one.outputs.items()}
            found[one.input] = ResourceTransformation(
                input=one.input, strategy=strategy, multiply_by=one.multiply_by, outputs=outputs
            )
        return tuple(found.values())

    def _ignores_undeclared(self, strategy: str | None) -> bool:
        if strategy not in {None, "BlockUndeclared", "IgnoreUndeclared"}:
            known = ["BlockUndeclared", "IgnoreUndeclared"]
            self._errors.append(problems.not_supported("resources.quotaCheckStrategy", strategy, known))
        return strategy == "IgnoreUndeclared"

    def _quantity(self, path: str, value: str | float) -> Quantity:
        try:
            return Quantity.parse(value)
        except ValueError as error:
            self._errors.append(problems.invalid(path, value, str(error)))
            return Quantity(0)

    def _seconds(self, path: str, text: str | None) -> float | None:
        return None if text is None else _read_seconds(path, text, self._errors)


def _read_seconds(path: str, text: str, errors: list[FieldError]) -> float | None:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        errors.append(problems.invalid(path, text, str(error)))
        return None
    if seconds < 0:
        errors.append(problems.invalid(path, text, "must be greater than or equal to 0"))
    return seconds


def _exposed(written: _LocalQueueMetrics) -> LabelSelector | None:
    if not written.enable:
        return None
    return LabelSelector() if written.local_queue_selector is None else _selector(written.local_queue_selector)


def _selector(written: _Selector) -> LabelSelector:
    return LabelSelector(
        match_labels=written.match_labels,
        match_expressions=tuple(
            LabelSelectorRequirement(key=one.key, operator=one.operator, values=one.values)
            for one in written.match_expressions
        ),
    )


def _gate(gates: Any, name: str, *, usually: bool) -> bool:
    """A feature gate that is known here; all others are ignored, as they are whole features."""
    set_to = gates.get(name) if isinstance(gates, dict) else None
    return set_to if isinstance(set_to, bool) else usually
