"""What is defined, and the status that reports how the objects differ from it."""

from collections.abc import Collection
from typing import Any, Final

from fairway.apis.fairway.quotas import parse
from fairway.apis.machinery.conditions import of, with_condition
from fairway.apis.machinery.kind import Manifest
from fairway.quota import kueue, yunikorn
from fairway.quota.compare import ObjectDifference, ObjectKey, key_of

SYNCED: Final = "Synced"
_MOST_LISTED: Final = 20
_MOST_NAMED: Final = 3


class DefinedObjects:
    """The objects of one generation of a definition, and which of them differ as far as was looked."""

    def __init__(self, manifest: Manifest) -> None:
        self.name: str = manifest["metadata"]["name"]
        self.generation = manifest["metadata"].get("generation")
        self.uid = manifest["metadata"].get("uid")
        quota, errors = parse(manifest.get("spec") or {})
        self.invalid = "; ".join(str(error) for error in errors)
        self.objects: dict[ObjectKey, Manifest] = {}
        self.config: Manifest | None = None
        """YuniKorn's, if it is a target."""

        self.config_namespace = ""
        self.config_version: str | None = None
        """Which version of its ConfigMap was compared last."""

        if not errors:
            rendered = kueue.render if "kueue" in quota.targets else kueue.namespaces
            self.objects = {key_of(one): one for one in rendered(quota, self.name)}
        if not errors and "yunikorn" in quota.targets:
            self.config, self.config_namespace = yunikorn.render(quota), yunikorn.namespace_of(quota)
        self.drift: dict[ObjectKey, ObjectDifference] = {}

    @property
    def count(self) -> int:
        return len(self.objects) + (len(yunikorn.flattened(self.config)) if self.config is not None else 0)


def status_of(defined: DefinedObjects, manifest: Manifest, now_text: str) -> Manifest:
    """The status of a definition."""
    drift = [defined.drift[key] for key in sorted(defined.drift)]
    status, reason, message = _verdict(defined, drift)
    return {
        "observedGeneration": defined.generation,
        "objects": defined.count,
        "drifted": len(drift),
        "drift": [_entry(one) for one in drift[:_MOST_LISTED]],
        "conditions": with_condition(of(manifest), SYNCED, status, reason, message, now_text, defined.generation),
    }


def _verdict(defined: DefinedObjects, drift: Collection[ObjectDifference]) -> tuple[str, str, str]:
    if defined.invalid:
        return "False", "Invalid", defined.invalid
    if not drift:
        return "True", "InSync", f"all {defined.count} objects are as defined"
    named = ", ".join(_named(one) for one in list(drift)[:_MOST_NAMED]) + (" ..." if len(drift) > _MOST_NAMED else "")
    verb = "differs" if len(drift) == 1 else "differ"
    return (
        "False",
        "Drifted",
        f"{len(drift)} of {defined.count} objects {verb} from the definition: {named}; `fairway quota diff` shows how",
    )


def _named(one: ObjectDifference) -> str:
    words = {"create": "missing", "delete": "not in the definition", "release": "not in the definition"}
    return f"{one.key} ({words.get(one.action, ', '.join(field.path for field in one.fields[:2]))})"


def _entry(one: ObjectDifference) -> dict[str, Any]:
    found: dict[str, Any] = {"action": str(one.action), "kind": one.key.kind, "name": one.key.name}
    if one.key.namespace:
        found["namespace"] = one.key.namespace
    if one.fields:
        found["fields"] = [field.path for field in one.fields]
    return found
