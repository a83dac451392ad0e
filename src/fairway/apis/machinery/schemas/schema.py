"""One node of a kind's schema: what may stand at one place of a manifest, and how it merges with what is there.

Facts only, no behaviour: validation, pruning, defaulting, patches and OpenAPI read the same nodes.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, eq=False)
class Schema:
    """What may stand at one place of a manifest."""

    type: str = ""
    """`object`, `array`, `string`, `integer`, `number`, `boolean`; empty where anything may stand."""

    format: str = ""
    """`int32`, `int64`, `double`, `date-time`, `micro-time`, `byte`, `quantity`, `int-or-string`; mostly empty."""

    name: str = ""
    """The name of the OpenAPI definition, such as `io.k8s.api.core.v1.PodSpec`; empty for a part without a name."""

    description: str = ""

    properties: dict[str, "Schema"] = field(default_factory=dict)
    """The known fields of an object."""

    values: "Schema | None" = None
    """What the values of a map with free keys are (`additionalProperties`); `None` if there are no free keys."""

    items: "Schema | None" = None
    """What the elements of an array are."""

    required: tuple[str, ...] = ()
    default: Any = None
    enum: tuple[Any, ...] = ()
    nullable: bool = False
    open: bool = False
    """Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`)."""

    limits: dict[str, Any] = field(default_factory=dict)
    """By OpenAPI's names: `minimum`, `maxLength`, `pattern`, `minItems`, `maxProperties` …"""

    also: dict[str, Any] = field(default_factory=dict)
    """Value validations that only CustomResourceDefinitions have, as OpenAPI writes them (`validations.py`)."""

    list_type: str = "atomic"
    """How an array merges when it is applied: `atomic`, `set` or `map`."""

    list_keys: tuple[str, ...] = ()
    """For `map`: the fields that identify an element."""

    atomic: bool = False
    """An object that has one owner as a whole (`x-kubernetes-map-type: atomic`)."""

    merge_key: str = ""
    """Strategic merge: the field by which elements of an array are matched; empty for a list of scalars."""

    merge_strategy: str = ""
    """Strategic merge: `merge`, `replace`, `retainKeys` or `merge,retainKeys`; empty means replace for arrays."""

    def __repr__(self) -> str:
        """Short: in full, one kind's schema is longer than any log line should be."""
        return f"<Schema {self.name or self.format or self.type or 'of anything'}>"
