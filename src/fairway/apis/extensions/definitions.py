"""The rules of a CustomResourceDefinition, and the kind that one defines."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from fairway.apis.extensions.structural import CEL, MOST_NODES, built, nodes, wrong_schema
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.conditions import is_true
from fairway.apis.machinery.custom import custom_rules
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.jsonpath import compiled, custom_column
from fairway.apis.machinery.kind import Column, Kind, Manifest, Scale
from fairway.apis.machinery.metadata_rules import wrong_metadata, wrong_metadata_update
from fairway.apis.machinery.printing import AGE
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import forget
from fairway.errors import FieldError

CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that keeps a definition until its objects are gone."""

BUILT_IN: Final = "fairway.dev/built-in"
"""The annotation of definitions, and of other objects of install manifests, whose component is part of the server."""

_APPROVAL: Final = "api-approved.kubernetes.io"
_COLUMN_TYPES: Final = ("integer", "number", "string", "boolean", "date")
_MOST_SELECTABLE: Final = 8
_VERSION: Final = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_PRESERVING: Final = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
)
_SELECTABLE: Final = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)
_SIMPLE_PATH: Final = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_-]*)+")
_LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def default(manifest: Manifest) -> None:
    """What an API server fills in."""
    spec = manifest.get("spec")
    if not isinstance(spec, dict):
        return
    given = spec.get("names")
    if isinstance(given, dict) and isinstance(given.get("kind"), str):
        given.setdefault("singular", given["kind"].lower())
        given.setdefault("listKind", f"{given['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def prepare_create(manifest: Manifest) -> None:
    """A definition of a user goes after its objects."""
    if BUILT_IN in (manifest["metadata"].get("annotations") or {}):
        return
    finalizers = manifest["metadata"].setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)


def prepare_update(_old: Manifest, new: Manifest) -> None:
    if "deletionTimestamp" not in new["metadata"]:
        prepare_create(new)


def validate(manifest: Manifest) -> list[FieldError]:
    """What is wrong with a definition."""
    errors, spec = wrong_metadata(manifest), manifest.get("spec") or {}
    group, given = str(spec.get("group") or ""), spec.get("names") or {}
    expected = f"{given.get('plural')}.{group}"
    if manifest["metadata"].get("name") != expected:
        rule = 'must be spec.names.plural+"."+spec.group'
        errors.append(problems.invalid("metadata.name", manifest["metadata"].get("name"), rule))
    errors += _wrong_group(group, manifest["metadata"].get("annotations") or {})
    errors += _wrong_names(given)
    if spec.get("scope") not in {"Cluster", "Namespaced"}:
        errors.append(problems.not_supported("spec.scope", spec.get("scope"), ("Cluster", "Namespaced")))
    if spec.get("preserveUnknownFields"):
        errors.append(problems.invalid("spec.preserveUnknownFields", "true", _PRESERVING))
    strategy = (spec.get("conversion") or {}).get("strategy")
    if strategy not in {"None", "Webhook"}:
        errors.append(problems.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook")))
    return errors + _wrong_versions(spec.get("versions") or [])


def validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    """The same of a change; once a kind is served, its names in the store and in manifests stay."""
    errors = [*wrong_metadata_update(old, new), *validate(new)] if old.get("spec") != new.get("spec") else []
    errors = errors or wrong_metadata_update(old, new)
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if is_true(old, "Established"):
        errors += changed(before.get("scope"), after.get("scope"), "spec.scope")
        errors += changed(
            (before.get("names") or {}).get("kind"), (after.get("names") or {}).get("kind"), "spec.names.kind"
        )
    offered = {version["name"] for version in after.get("versions") or ()}
    for at, version in enumerate((new.get("status") or {}).get("storedVersions") or ()):
        if version not in offered:
            rule = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in "
                "spec.versions until a storage migration ensures no data remains persisted in it"
            )
            errors.append(problems.invalid(f"status.storedVersions[{at}]", version, rule))
    return errors


def _wrong_group(group: str, annotations: Mapping[str, Any]) -> list[FieldError]:
    if not group:
        return [problems.required("spec.group")]
    faults = names.subdomain_faults(group)
    if faults:
        return [problems.invalid("spec.group", group, ",".join(faults))]
    if "." not in group:
        return [problems.invalid("spec.group", group, "should be a domain with at least one dot")]
    protected = f".{group}".endswith((".k8s.io", ".kubernetes.io"))
    if protected and not annotations.get(_APPROVAL):
        rule = 'protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
        return [problems.required(f"metadata.annotations[{_APPROVAL}]", rule)]
    return []


def _wrong_names(given: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = str(given.get(field) or "")
        path = f"spec.names.{field}"
        if not value:
            errors.append(problems.required(path))
        elif not _is_label(value.lower() if field in {"kind", "listKind"} else value):
            mixed = "may have mixed case, but should otherwise match: " if field in {"kind", "listKind"} else ""
            errors.append(problems.invalid(path, value, f"{mixed}{_LABEL_RULE}"))
    for field in ("shortNames", "categories"):
        for at, value in enumerate(given.get(field) or ()):
            if not _is_label(str(value)):
                errors.append(problems.invalid(f"spec.names.{field}[{at}]", value, _LABEL_RULE))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        rule = "kind and listKind may not be the same"
        errors.append(problems.invalid("spec.names.listKind", given["listKind"], rule))
    return errors


def _is_label(value: str) -> bool:
    return len(value) <= 63 and _LABEL_1035.fullmatch(value) is not None


def _wrong_versions(versions: list[Manifest]) -> list[FieldError]:
    path = "spec.versions"
    errors: list[FieldError] = []
    if not versions:
        errors.append(problems.required(path))
    if len({version["name"] for version in versions}) < len(versions):
        errors.append(problems.invalid(path, len(versions), "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        rule = "must have exactly one version marked as storage version"
        errors.append(problems.invalid(path, len(versions), rule))
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
    total = sum(1 for raw in schemas for _ in nodes(raw))
    if total > MOST_NODES:
        rule = f"the schemas have {total} nodes; this server takes {MOST_NODES} of a definition"
        return [*errors, problems.invalid(path, total, rule)]
    for at, (version, raw) in enumerate(zip(versions, schemas, strict=True)):
        errors += _wrong_version(version, raw, f"{path}[{at}]")
    return errors


def _wrong_version(version: Manifest, raw: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not _is_label(version["name"]):
        errors.append(problems.invalid(f"{path}.name", version["name"], _LABEL_RULE))
    if raw is None:
        return [*errors, problems.required(f"{path}.schema.openAPIV3Schema", "schemas are required")]
    errors += wrong_schema(raw, f"{path}.schema.openAPIV3Schema")
    for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
        if column.get("type") not in _COLUMN_TYPES:
            rule = f"must be one of {','.join(sorted(_COLUMN_TYPES))}"
            errors.append(problems.invalid(f"{path}.additionalPrinterColumns[{at}].type", column.get("type"), rule))
    errors += _wrong_selectable(version.get("selectableFields") or (), raw, f"{path}.selectableFields")
    scale = (version.get("subresources") or {}).get("scale")
    return errors + (_wrong_scale(scale, f"{path}.subresources.scale") if scale else [])


def _wrong_selectable(fields: Any, raw: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for at, field in enumerate(fields):
        given = str(field.get("jsonPath") or "")
        place = f"{path}[{at}].jsonPath"
        if not _SIMPLE_PATH.fullmatch(given):
            errors.append(
                problems.invalid(place, given, "is an invalid path: must be a simple path such as .spec.color")
            )
        elif given.startswith(".metadata"):
            errors.append(problems.invalid(place, given, "must not point to fields in metadata"))
        elif _type_at(raw, given) not in {"string", "boolean", "integer"}:
            errors.append(problems.invalid(place, given, _SELECTABLE))
    if len(fields) > _MOST_SELECTABLE:
        errors.append(problems.too_many(path, len(fields), _MOST_SELECTABLE))
    return errors


def _type_at(raw: Any, path: str) -> str:
    for name in path.strip(".").split("."):
        raw = (raw.get("properties") or {}).get(name) if isinstance(raw, dict) else None
    return str(raw.get("type", "")) if isinstance(raw, dict) else ""


def _wrong_scale(scale: Manifest, path: str) -> list[FieldError]:
    errors = []
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        given = str(scale.get(field) or "")
        if not given:
            errors.append(problems.required(f"{path}.{field}"))
        elif not _SIMPLE_PATH.fullmatch(given) or not given.startswith(f"{root}."):
            errors.append(problems.invalid(f"{path}.{field}", given, f"should be a json path under {root}"))
    selector = scale.get("labelSelectorPath")
    if selector and not (_SIMPLE_PATH.fullmatch(selector) and selector.startswith((".spec.", ".status."))):
        rule = "should be a json path under either .spec or .status"
        errors.append(problems.invalid(f"{path}.labelSelectorPath", selector, rule))
    return errors


def warnings(manifest: Manifest) -> tuple[str, ...]:
    """What of a definition has no effect here."""
    spec = manifest.get("spec") or {}
    found = []
    versions = spec.get("versions") or []
    rules = sum(
        len(part.get(CEL) or ()) for one in versions for part in nodes((one.get("schema") or {}).get("openAPIV3Schema"))
    )
    if rules:
        what = "1 CEL rule" if rules == 1 else f"{rules} CEL rules"
        found.append(f"{CEL} are not evaluated by this server: {what} of this definition will not be enforced")
    if (spec.get("conversion") or {}).get("strategy") == "Webhook" and sum(
        bool(one.get("served")) for one in versions
    ) > 1:
        found.append("this server calls no conversion webhooks: only the storage version of this definition is served")
    columns = [column for one in versions for column in one.get("additionalPrinterColumns") or ()]
    found += [
        f"the column {column['name']!r} is left out: this server cannot read {column['jsonPath']!r}"
        for column in columns
        if _column(column) is None
    ]
    return tuple(found)


def kind_of(manifest: Manifest) -> Kind:
    """The kind that a definition with nothing wrong defines."""
    spec = manifest["spec"]
    given, group = spec["names"], spec["group"]
    versions = {version["name"]: version for version in spec["versions"]}
    stored = next(name for name, version in versions.items() if version.get("storage"))
    served = sorted((name for name, version in versions.items() if version.get("served")), key=_priority)
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        served = [name for name in served if name == stored]
    parts = versions[stored].get("subresources") or {}
    scale = parts.get("scale")
    fields = [field["jsonPath"] for version in versions.values() for field in version.get("selectableFields") or ()]
    return Kind(
        group=group,
        kind=given["kind"],
        plural=given["plural"],
        singular=given.get("singular") or "",
        list_kind=given.get("listKind") or "",
        short_names=tuple(given.get("shortNames") or ()),
        categories=tuple(given.get("categories") or ()),
        namespaced=spec["scope"] == "Namespaced",
        versions=tuple(served),
        stored=stored,
        status=parts.get("status") is not None,
        subresources=("scale",) if scale else (),
        scale=_scale(scale) if scale else None,
        defined=True,
        schemas={name: _schema(version, group, given["kind"]) for name, version in versions.items()},
        columns={name: _columns(versions[name]) for name in served},
        selectable={path.strip("."): _selected(path) for path in fields},
        rules=custom_rules(convert=_converted(group)),
    )


def release(kind: Kind) -> None:
    """Drop the compiled checks of a kind that is no longer served."""
    for loader in kind.schemas.values():
        forget(loader())


def _priority(version: str) -> tuple[int, int, int, str]:
    """The order of versions: `v2`, `v1`, `v1beta2`, `v1alpha1`, then everything else by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, stage, minor = match.groups()
    return ({None: 0, "beta": 1, "alpha": 2}[stage], -int(major), -int(minor or 0), "")


def _schema(version: Manifest, group: str, kind: str) -> Callable[[], Schema]:
    return cache(lambda: built(version["schema"]["openAPIV3Schema"], group, version["name"], kind))


def _converted(group: str) -> Callable[[Manifest, str], Manifest]:
    return lambda manifest, version: {**manifest, "apiVersion": f"{group}/{version}"}


def _columns(version: Manifest) -> tuple[Column, ...]:
    found = [_column(column) for column in version.get("additionalPrinterColumns") or ()]
    return tuple(column for column in found if column is not None) or (AGE,)


def _column(column: Manifest) -> Column | None:
    try:
        return custom_column(
            column["name"],
            column["jsonPath"],
            column["type"],
            priority=column.get("priority") or 0,
            description=column.get("description") or "",
        )
    except ValueError:
        return None


def _selected(path: str) -> Callable[[Manifest], str]:
    find = compiled(path)

    def value(manifest: Manifest) -> str:
        found = find(manifest)
        return "" if found is None else str(found).lower() if isinstance(found, bool) else str(found)

    return value


def _scale(scale: Manifest) -> Scale:
    def names_of(path: str) -> tuple[str, ...]:
        return tuple(path.strip(".").split(".")) if path else ()

    return Scale(
        spec_replicas=names_of(scale["specReplicasPath"]),
        status_replicas=names_of(scale["statusReplicasPath"]),
        selector=names_of(scale.get("labelSelectorPath") or ""),
    )
