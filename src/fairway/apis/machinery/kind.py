"""The record of one kind: its names, versions, columns and rules. The registry is a list of these."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import FieldError

Manifest: TypeAlias = dict[str, Any]
"""An object as JSON has it, with `apiVersion` and `kind`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of `kubectl get`."""

    name: str
    value: Callable[[Manifest, datetime], Any]
    """The cell for an object, in the version that is shown, at a time; `None` where there is nothing to show."""

    type: str = "string"
    format: str = ""
    priority: int = 0
    """0 is always shown, 1 only with `-o wide`."""

    description: str = ""
    path: str = ""
    """The JSONPath of the cell in a custom resource; empty where the cell is computed."""


def _nothing(_manifest: Manifest) -> None:
    return None


def _no_update(_old: Manifest, _new: Manifest) -> None:
    return None


def _all_right(_manifest: Manifest) -> list[FieldError]:
    return []


def _all_right_update(_old: Manifest, _new: Manifest) -> list[FieldError]:
    return []


def _same(manifest: Manifest, _version: str) -> Manifest:
    return manifest


def _same_path(_version: str, path: str) -> str:
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a kind asks of its objects beyond its schema. Manifests are in the stored version.

    The order on create: schema (types, unknown fields, schema defaults), `default`, `prepare_create`, `validate`.
    On update and status update: schema, `default`, `prepare_update`, `validate_update` (with what `validate` asks).
    """

    default: Callable[[Manifest], None] = _nothing
    """Fill in what is missing, in place; must change nothing the second time."""

    prepare_create: Callable[[Manifest], None] = _nothing
    """What a fresh object gets besides defaults, in place (a pod's `status.phase`, a job's selector from its uid)."""

    prepare_update: Callable[[Manifest, Manifest], None] = _no_update
    """`(old, new)`: what the server keeps or sets on a change, in `new`, in place."""

    validate: Callable[[Manifest], list[FieldError]] = _all_right
    validate_metadata: Callable[[Manifest], list[FieldError]] | None = None
    """What `validate` returns for new metadata beside a spec that was accepted before (`msgspec.Raw`); given only where
    neither `default` nor `prepare_create` touches the spec."""

    validate_update: Callable[[Manifest, Manifest], list[FieldError]] = _all_right_update
    """`(old, new)`; paths of the stored version."""

    validate_status: Callable[[Manifest, Manifest], list[FieldError]] | None = None
    """`(old, new)`: what `validate_update` returns where only the status changes. Specs are as they are stored
    (`msgspec.Raw`); a part of the new status that is the old one's very own was accepted with it. Given only where
    neither `default` nor `prepare_update` does anything."""

    status_is_apart: bool = False
    """Whether a status can change without a look at the rest: `default` then has nothing to do, and `prepare_update`
    looks at nothing but the status, and sets nothing but fields of it. Specs may be as they are stored."""

    convert: Callable[[Manifest, str], Manifest] = _same
    """The object in another version; the argument is not changed. Only called where the version differs.

    `ValidationError`, by the paths of the version it is in, if it says what the other cannot.
    """

    request_path: Callable[[str, str], str] = _same_path
    """`(version, path)`: the path of a field of the stored version as another version calls it."""


class Scale(NamedTuple):
    """Where the fields of the subresource `scale` are in an object."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()
    """A label selector as a string or an object; empty where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Kind:
    """One kind of object that the API serves."""

    group: str
    """Empty for the core group."""

    kind: str
    plural: str
    versions: tuple[str, ...]
    """Those served, the preferred one first. One of another group has its name, too: `events.k8s.io/v1`."""

    stored: str
    singular: str = ""
    """Empty means the kind in lower case."""

    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    status: bool = False
    """Whether `/status` is a door of its own: a plain write leaves `status` alone, a status write the rest."""

    created_with_status: bool = False
    """Whether a create may bring its status along, as a node's does."""

    subresources: tuple[str, ...] = ()
    """Others, such as a pod's `log` and `binding`."""

    generation: bool = True
    """Whether `metadata.generation` counts the changes of everything but metadata and status."""

    builtin: bool = False
    """A kind of Kubernetes itself: takes strategic merge patches."""

    acknowledged: bool = False
    """Only what install manifests of built-in components hold is accepted, and has no effect (`components.py`)."""

    inert: bool = False
    """Stored for operators, and nothing acts on it (`stored.py`); objects of built-in components are acknowledged."""

    defined: bool = False
    """A kind that a user's CustomResourceDefinition defines (`extensions/`)."""

    yields: bool = False
    """A definition of the same resource that a user applies takes its place until it is deleted."""

    list_kind: str = ""
    """Empty means the kind and `List`."""

    scale: Scale | None = None
    """For the subresource `scale`."""

    schemas: Mapping[str, Callable[[], Schema]]
    """By version; loaded when first asked for."""

    columns: Mapping[str, tuple[Column, ...]] = field(default_factory=dict)
    """By version, after `Name`; a version without an entry has `Age` alone, as an API server does it."""

    selectable: Mapping[str, Callable[[Manifest], str]] = field(default_factory=dict)
    """Field selectors besides `metadata.name` and `metadata.namespace`: path to value, on the stored version."""

    rules: Rules = Rules()

    warn: Callable[[Manifest], tuple[str, ...]] | None = None
    """What a client should know that has written an object: its `Warning` headers."""

    resource: str = field(init=False)
    """`jobs.batch`, or `pods` in the core group: what messages call it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "resource", f"{self.plural}.{self.group}" if self.group else self.plural)

    def api_version(self, version: str) -> str:
        """`v1` or `batch/v1`."""
        return f"{self.group}/{version}" if self.group and "/" not in version else version

    def version_in(self, group: str, version: str) -> str:
        """What `versions` calls this version of a group; empty if the kind is not served there."""
        name = version if group == self.group else f"{group}/{version}"
        return name if name in self.versions else ""

    @property
    def group_versions(self) -> Iterator[tuple[str, str]]:
        """The groups and versions in the paths of requests."""
        for version in self.versions:
            group, _, plain = version.rpartition("/")
            yield group or self.group, plain

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()
