"""ManagedJob: a task that comes back by itself after a preemption or a lost node."""

from typing import Final

from fairway.kinds.custom import custom_rules, custom_schemas
from fairway.kinds.jsonpath import custom_column
from fairway.kinds.kind import Kind
from fairway.kinds.metadata import LABEL

GROUP: Final = "fairway.dev"
_VERSIONS: Final = ("v1alpha1",)

_COLUMNS: Final = (
    custom_column("Status", ".status.phase", description="Where the job stands."),
    custom_column("Queue", ".spec.queue", description="The LocalQueue that its attempts wait in."),
    custom_column("Priority", ".spec.priority", "integer", description="The priority it was launched with."),
    custom_column("Recoveries", ".status.recoveries", "integer", description="How often it was started again."),
    custom_column("Age", ".metadata.creationTimestamp", "date", description="How long ago it was launched."),
)

KINDS: Final = (
    Kind(
        group=GROUP,
        kind="ManagedJob",
        plural="managedjobs",
        versions=_VERSIONS,
        stored="v1alpha1",
        short_names=("mj",),
        status=True,
        schemas=custom_schemas(GROUP, _VERSIONS, "ManagedJob"),
        columns=dict.fromkeys(_VERSIONS, _COLUMNS),
        # Its pods are called after it, and a host cannot have dots in its name.
        rules=custom_rules(name_rule=LABEL),
    ),
)
