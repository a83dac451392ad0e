"""Rules about the spec of a job."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.batch.indexes import IndexesFault, read_indexes
from fairway.apis.batch.labels import CONTROLLER_UID, GENERATED_LABELS
from fairway.apis.core import checks
from fairway.apis.core.checks import Part
from fairway.apis.core.pod_parts import containers_of
from fairway.apis.core.pod_specs import wrong_template
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError

_NUMBERS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_MODES: Final = ("NonIndexed", "Indexed")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_CONDITION_STATUSES: Final = ("False", "True", "Unknown")
_MANAGER: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")

_MOST_INDEXED: Final = 100_000
_MOST_PARALLEL_BEYOND: Final = 10_000
_MOST_RULES: Final = 20
_MOST_EXIT_CODES: Final = 255
_MOST_MANAGER_CHARACTERS: Final = 63
_MOST_INDEXES_CHARACTERS: Final = 64 * 1024


def wrong_job(manifest: Manifest) -> list[FieldError]:
    """What is wrong with a job, its status aside."""
    spec = manifest["spec"]
    errors = metadata.wrong_metadata(manifest)
    is_as_made = _is_as_made(manifest)
    if not is_as_made and not spec.get("manualSelector") and spec.get("selector"):
        errors += _wrong_generated(manifest)
    errors += _wrong_spec(spec)
    if not is_as_made:
        errors += _wrong_selector(spec)
    name = manifest["metadata"].get("name") or ""
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        longest = f"{name}-{spec['completions'] - 1}"
        if names.label_faults(longest):
            rule = f"will not able to create pod with invalid DNS label: {longest}"
            errors.append(problems.invalid("metadata.name", name, rule))
    return errors


def _is_as_made(manifest: Manifest) -> bool:
    """Whether selector and labels are just what the server makes, as nearly everybody has them: nothing to ask then."""
    spec, own = manifest["spec"], manifest["metadata"]
    uid = own.get("uid") or ""
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    return (
        spec.get("selector") == {"matchLabels": {CONTROLLER_UID: uid}}
        and all(labels.get(label) == (own.get(field) or "") for label, field in GENERATED_LABELS.items())
        and not names.value_faults(uid)
    )


def _wrong_generated(manifest: Manifest) -> list[FieldError]:
    """A selector that the server makes must find this job's pods, and no others."""
    spec, own = manifest["spec"], manifest["metadata"]
    path = "spec.template.metadata.labels"
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    errors = []
    expected = {label: own.get(field) or "" for label, field in GENERATED_LABELS.items()}
    for label, value in expected.items():
        if label not in labels:
            errors.append(problems.required(problems.key(path, label), f"must be '{value}'"))
        elif labels[label] != value:
            errors.append(problems.invalid(problems.key(path, label), labels[label], f"must be '{value}'"))
    if not checks.wrong_label_selector(spec["selector"], "") and not _matches(spec["selector"], expected):
        errors.append(problems.invalid("spec.selector", spec["selector"], "`selector` not auto-generated"))
    return errors


def _wrong_selector(spec: Part) -> list[FieldError]:
    selector = spec.get("selector")
    errors = checks.wrong_label_selector(selector, "spec.selector")
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if selector is None:
        errors.append(problems.required("spec.selector"))
    if selector is None or not (errors or _matches(selector, labels)):
        rule = "`selector` does not match template `labels`"
        errors.append(problems.invalid("spec.template.metadata.labels", labels, rule))
    return errors


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values") or ()
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }.get(operator, True)
        if not holds:
            return False
    return True


def _wrong_spec(spec: Part) -> list[FieldError]:
    errors = checks.negatives(spec, "spec", _NUMBERS)
    errors += _wrong_counts(spec)
    if spec.get("managedBy") is not None:
        errors += _wrong_manager(spec["managedBy"])
    if spec.get("podFailurePolicy") is not None:
        errors += _wrong_failure_policy(spec)
    if spec.get("successPolicy") is not None:
        errors += _wrong_success_policy(spec)
    replacement = spec.get("podReplacementPolicy")
    replacements = ("Failed",) if spec.get("podFailurePolicy") is not None else _REPLACEMENTS
    if replacement is not None and replacement not in replacements:
        errors.append(problems.not_supported("spec.podReplacementPolicy", replacement, replacements))
    errors += wrong_template(spec["template"], "spec.template")
    return errors + _wrong_restart_policy(spec)


def _wrong_restart_policy(spec: Part) -> list[FieldError]:
    path = "spec.template.spec.restartPolicy"
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy in (None, "Always"):
        return [problems.required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in ("OnFailure", "Never"):
        return [problems.not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [problems.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _wrong_counts(spec: Part) -> list[FieldError]:
    """How completions, parallelism and the limits for single indexes go together."""
    errors = []
    mode, completions = spec.get("completionMode"), spec.get("completions")
    per_index, most_failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if most_failed is not None and per_index is None:
        errors.append(problems.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if mode not in _MODES:
        errors.append(problems.not_supported("spec.completionMode", mode, _MODES))
    if mode == "NonIndexed":
        rule = "requires indexed completion mode"
        errors += [
            problems.invalid(f"spec.{field}", spec[field], rule)
            for field in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(field) is not None
        ]
    if mode != "Indexed":
        return errors
    if completions is None:
        return [*errors, problems.required("spec.completions", "when completion mode is Indexed")]
    parallelism = spec.get("parallelism") or 0
    beyond = completions > _MOST_INDEXED and per_index is not None
    if parallelism > (_MOST_PARALLEL_BEYOND if beyond else _MOST_INDEXED):
        rule = f"must be less than or equal to {_MOST_PARALLEL_BEYOND if beyond else _MOST_INDEXED}"
        errors.append(problems.invalid("spec.parallelism", parallelism, f"{rule} when completion mode is Indexed"))
    if most_failed is None:
        if beyond:
            rule = f"must be specified when completions is above {_MOST_INDEXED}"
            errors.append(problems.required("spec.maxFailedIndexes", rule))
    elif most_failed > min(completions, _MOST_PARALLEL_BEYOND if beyond else _MOST_INDEXED):
        rule = "must be less than or equal to completions"
        errors.append(problems.invalid("spec.maxFailedIndexes", most_failed, rule))
    return errors


def _wrong_manager(manager: str) -> list[FieldError]:
    path = "spec.managedBy"
    errors: list[FieldError] = []
    host, _, rest = manager.partition("/")
    if not manager:
        errors.append(problems.required(path))
    elif not host or not rest:
        errors.append(problems.invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        errors += [problems.invalid(path, host, fault) for fault in names.subdomain_faults(host)]
        if not _MANAGER.fullmatch(rest):
            rule = f"Invalid path (regex used for validation is '{_MANAGER.pattern}')"
            errors.append(problems.invalid(path, rest, rule))
    if len(manager) > _MOST_MANAGER_CHARACTERS:
        errors.append(problems.too_long(path, manager, _MOST_MANAGER_CHARACTERS))
    return errors


def _wrong_failure_policy(spec: Part) -> list[FieldError]:
    path = "spec.podFailurePolicy.rules"
    rules = spec["podFailurePolicy"].get("rules") or []
    pod = spec["template"]["spec"]
    containers = {one.get("name") for one in containers_of(pod)}
    errors: list[FieldError] = []
    if len(rules) > _MOST_RULES:
        errors.append(problems.too_many(path, len(rules), _MOST_RULES))
    for position, rule in enumerate(rules):
        where = problems.index(path, position)
        action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions") or []
        if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
            errors.append(problems.invalid(f"{where}.action", action, "requires the backoffLimitPerIndex to be set"))
        errors += checks.wrong_choice(action, f"{where}.action", _ACTIONS)
        if codes is not None:
            errors += _wrong_exit_codes(codes, f"{where}.onExitCodes", containers)
        if len(conditions) > _MOST_RULES:
            errors.append(problems.too_many(f"{where}.onPodConditions", len(conditions), _MOST_RULES))
        for place, pattern in enumerate(conditions):
            there = f"{where}.onPodConditions[{place}]"
            errors += names.wrong_key(pattern.get("type") or "", f"{there}.type")
            errors += checks.wrong_choice(pattern.get("status"), f"{there}.status", _CONDITION_STATUSES)
        if (codes is None) == (not conditions):
            rule_text = "specifying exactly one of onExitCodes and onPodConditions is required"
            errors.append(problems.invalid(where, None, rule_text))
    return errors


def _wrong_exit_codes(requirement: Part, path: str, containers: set[str | None]) -> list[FieldError]:
    errors = checks.wrong_choice(requirement.get("operator"), f"{path}.operator", ("In", "NotIn"))
    container = requirement.get("containerName")
    if container is not None and container not in containers:
        rule = "must be one of the container or initContainer names in the pod template"
        errors.append(problems.invalid(f"{path}.containerName", container, rule))
    values = requirement.get("values") or []
    if not values:
        errors.append(problems.invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > _MOST_EXIT_CODES:
        errors.append(problems.too_many(f"{path}.values", len(values), _MOST_EXIT_CODES))
    for position, value in enumerate(values):
        if value == 0 and requirement.get("operator") == "In":
            rule = "must not be 0 for the In operator"
            errors.append(problems.invalid(f"{path}.values[{position}]", value, rule))
        if value in values[:position]:
            errors.append(problems.duplicate(f"{path}.values[{position}]", value))
    if values != sorted(values):
        errors.append(problems.invalid(f"{path}.values", values, "must be ordered"))
    return errors


def _wrong_success_policy(spec: Part) -> list[FieldError]:
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        return [problems.invalid("spec.successPolicy", policy, "requires indexed completion mode")]
    path = "spec.successPolicy.rules"
    rules = policy.get("rules") or []
    errors: list[FieldError] = []
    if not rules:
        rule = "at least one rules must be specified when the successPolicy is specified"
        errors.append(problems.required(path, rule))
    if len(rules) > _MOST_RULES:
        errors.append(problems.too_many(path, len(rules), _MOST_RULES))
    for position, one in enumerate(rules):
        errors += _wrong_success_rule(one, problems.index(path, position), spec.get("completions") or 0)
    return errors


def _wrong_success_rule(rule: Part, path: str, completions: int) -> list[FieldError]:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        text = "at least one of succeededCount or succeededIndexes must be specified"
        return [problems.required(path, text)]
    errors: list[FieldError] = []
    most = completions
    if indexes is not None:
        if len(indexes) > _MOST_INDEXES_CHARACTERS:
            errors.append(problems.too_long(f"{path}.succeededIndexes", indexes, _MOST_INDEXES_CHARACTERS))
        try:
            most = sum(last - first + 1 for first, last in read_indexes(indexes, completions))
        except IndexesFault as fault:
            most = 0
            text = f"error parsing succeededIndexes: {fault}"
            errors.append(problems.invalid(f"{path}.succeededIndexes", indexes, text))
    if count is not None:
        errors += checks.negatives(rule, path, ("succeededCount",))
        if count > min(most, completions):
            text = f"must be less than or equal to {min(most, completions)}"
            errors.append(problems.invalid(f"{path}.succeededCount", count, text))
    return errors
