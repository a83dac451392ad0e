"""What each role allows, as data.

A role is given to a user by a binding, for the whole server or for one namespace. Rules are written as Kubernetes
writes them (verbs, API groups, resources, paths) and only ever add up: there is no rule that forbids. So a kind that
is missing from the tables is out of reach for all but the admin of the whole server. The same tables in prose:
`docs/operate/access.md`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

EVERYTHING = ("*",)
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")

AUTHENTICATED_GROUP = "system:authenticated"
UNAUTHENTICATED_GROUP = "system:unauthenticated"


class Role(StrEnum):
    ADMIN = "admin"
    EDITOR = "editor"
    VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class Binding:
    """A role of a user or group, with its scope."""

    role: Role
    namespace: str | None = None
    """Where; `None` for the whole server."""


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    """All groups, with the one that says whether the user is known (`system:authenticated`) or not."""

    bindings: tuple[Binding, ...] = ()

    def __hash__(self) -> int:
        """By what is hashed once: users are looked up at every request, and hardly two have the same name and uid."""
        return hash((self.name, self.uid))


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED_GROUP,))


@dataclass(frozen=True, slots=True)
class Rule:
    """Verbs on kinds of objects, or on paths that are no objects."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    """`pods`, `pods/log`, `*/status` for that part of any object, or `*` for every object and each of its parts."""

    paths: tuple[str, ...] = ()
    """`/version`, `/openapi/*` for all below, or `*`."""

    def covers(self, verb: str, group: str, resource: str) -> bool:
        return (
            (verb in self.verbs or "*" in self.verbs)
            and (group in self.groups or "*" in self.groups)
            and (resource in self.resources or "*" in self.resources or _any_with_part(resource) in self.resources)
        )

    def covers_path(self, verb: str, path: str) -> bool:
        return (verb in self.verbs or "*" in self.verbs) and any(_path_matches(path, pattern) for pattern in self.paths)


@dataclass(frozen=True, slots=True)
class Grants:
    """What one role gives."""

    everywhere: tuple[Rule, ...]
    """To who has it for the whole server."""

    in_namespace: tuple[Rule, ...]
    """To who has it for one namespace, on the objects of that namespace and on the namespace itself."""

    beside: tuple[Rule, ...] = ()
    """To who has it for one namespace, on what belongs to no namespace."""


_KUEUE, _VISIBILITY = "kueue.x-k8s.io", "visibility.kueue.x-k8s.io"
_OTHER_GROUPS = (
    "apiextensions.k8s.io", "apps", "autoscaling", "autoscaling.x-k8s.io", "batch", "coordination.k8s.io",
    "discovery.k8s.io", "events.k8s.io", "fairway.dev", "jobset.x-k8s.io", "kubeflow.org", "kubernetes.dask.org",
    _KUEUE, "networking.k8s.io", "node.k8s.io", "policy", "ray.io", "scheduling.k8s.io", "sparkoperator.k8s.io",
    "storage.k8s.io", _VISIBILITY,
)  # fmt: skip

_OPEN = (
    "configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods", "pods/log", "podtemplates",
    "serviceaccounts", "services", "*/status",
)  # fmt: skip
_WHAT_IF = Rule(("create",), ("fairway.dev",), ("simulations",))
_READ_OBJECTS = (
    _WHAT_IF,
    Rule(READ, ("",), ("namespaces", "nodes", "persistentvolumes", *_OPEN)),
    Rule(READ, _OTHER_GROUPS, EVERYTHING),
)
_READ_NAMESPACE = (
    Rule(READ, ("",), _OPEN),
    Rule(("get",), ("",), ("namespaces",)),
    Rule(READ, _OTHER_GROUPS, EVERYTHING),
)
_READ_BESIDE = (
    _WHAT_IF,
    Rule(
        READ,
        (_KUEUE,),
        ("admissionchecks", "admissionchecks/status", "clusterqueues", "clusterqueues/status", "cohorts",
         "cohorts/status", "provisioningrequestconfigs", "resourceflavors", "topologies", "workloadpriorityclasses"),
    ),
    Rule(READ, ("scheduling.k8s.io",), ("priorityclasses",)),
    Rule(READ, ("node.k8s.io",), ("runtimeclasses",)),
    Rule(READ, ("apiextensions.k8s.io",), ("customresourcedefinitions",)),
    Rule(READ, ("fairway.dev",), ("quotadefinitions",)),
)  # fmt: skip
_WRITE_JOBS = (
    Rule(READ, ("",), ("secrets",)),
    Rule(WRITE, ("",), ("configmaps", "pods", "pods/eviction", "podtemplates", "secrets", "serviceaccounts")),
    Rule(WRITE, ("batch",), ("jobs",)),
    Rule(WRITE, ("fairway.dev",), ("managedjobs",)),
    Rule(("create",), ("fairway.dev",), ("archives", "transactions")),
    Rule(WRITE, ("ray.io",), ("rayclusters", "rayjobs")),
    Rule(WRITE, ("jobset.x-k8s.io",), ("jobsets",)),
    Rule(WRITE, ("kubeflow.org",), ("mpijobs", "pytorchjobs", "tfjobs")),
    Rule(WRITE, ("kubernetes.dask.org",), ("daskclusters", "daskjobs")),
    Rule(WRITE, ("sparkoperator.k8s.io",), ("sparkapplications",)),
)
_WRITE_NAMESPACE = (
    Rule(WRITE, ("", "events.k8s.io"), ("events",)),
    Rule(WRITE, ("autoscaling.x-k8s.io",), ("provisioningrequests",)),
    Rule(WRITE, ("coordination.k8s.io",), ("leases",)),
    Rule(WRITE, (_KUEUE,), ("localqueues", "workloads")),
)
_READ_METRICS = Rule(("get",), paths=("/metrics",))

ROLES: dict[Role, Grants] = {
    Role.ADMIN: Grants(
        everywhere=(Rule(EVERYTHING, EVERYTHING, EVERYTHING), Rule(EVERYTHING, paths=EVERYTHING)),
        in_namespace=(*_READ_NAMESPACE, *_WRITE_JOBS, *_WRITE_NAMESPACE),
        beside=_READ_BESIDE,
    ),
    Role.EDITOR: Grants(
        everywhere=(*_READ_OBJECTS, *_WRITE_JOBS, _READ_METRICS),
        in_namespace=(*_READ_NAMESPACE, *_WRITE_JOBS),
        beside=_READ_BESIDE,
    ),
    Role.VIEWER: Grants(
        everywhere=(*_READ_OBJECTS, _READ_METRICS),
        in_namespace=_READ_NAMESPACE,
        beside=_READ_BESIDE,
    ),
}

FOR_GROUPS: dict[str, tuple[Rule, ...]] = {
    AUTHENTICATED_GROUP: (
        Rule(("create",), ("authorization.k8s.io",), ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
        Rule(("create",), ("authentication.k8s.io",), ("selfsubjectreviews",)),
        Rule(
            ("get",),
            paths=("/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/healthz/*", "/livez", "/livez/*",
                   "/openapi", "/openapi/*", "/readyz", "/readyz/*", "/version", "/version/"),
        ),
    ),
    UNAUTHENTICATED_GROUP: (Rule(("get",), paths=("/healthz", "/livez", "/readyz", "/version", "/version/")),),
}  # fmt: skip


def allowed(
    user: User, *, verb: str, group: str, resource: str, subresource: str = "", namespace: str = "", name: str = ""
) -> bool:
    """Whether the user may do this; an empty `namespace` asks for all of them, or for what belongs to none."""
    full = f"{resource}/{subresource}" if subresource else resource
    if group == "" and resource == "namespaces":
        namespace = name  # a namespace counts as an object of itself
    for binding in user.bindings:
        if _covered(binding.role, _place(binding, namespace), verb, group, full):
            return True
    return any(rule.covers(verb, group, full) for held in user.groups for rule in FOR_GROUPS.get(held, ()))


def allowed_path(user: User, *, verb: str, path: str) -> bool:
    """The same for a path that is no object, such as `/metrics`; the verb is the HTTP method in lower case."""
    return any(rule.covers_path(verb, path) for rule in _everywhere(user))


def is_admin(user: User) -> bool:
    """Whether the whole server is theirs."""
    return any(binding.role is Role.ADMIN and binding.namespace is None for binding in user.bindings)


def rules(user: User, namespace: str) -> tuple[Rule, ...]:
    """Every rule that holds for the user in this namespace, also those on paths and on what belongs to no namespace."""
    found = list(_everywhere(user))
    for binding in user.bindings:
        if binding.namespace is not None:
            grants = ROLES[binding.role]
            found += grants.beside
            if binding.namespace == namespace:
                found += grants.in_namespace
    return tuple(dict.fromkeys(found))


def _everywhere(user: User) -> Iterator[Rule]:
    for binding in user.bindings:
        if binding.namespace is None:
            yield from ROLES[binding.role].everywhere
    for group in user.groups:
        yield from FOR_GROUPS.get(group, ())


def _place(binding: Binding, namespace: str) -> str:
    if binding.namespace is None:
        return "everywhere"
    return "in_namespace" if namespace and binding.namespace == namespace else "beside"


@lru_cache(maxsize=4096)
def _covered(role: Role, place: str, verb: str, group: str, resource: str) -> bool:
    found: tuple[Rule, ...] = getattr(ROLES[role], place)
    return any(rule.covers(verb, group, resource) for rule in found)


def _any_with_part(resource: str) -> str:
    """`*/status` for `pods/status`; for a whole object nothing that a rule could hold."""
    _, slash, part = resource.partition("/")
    return f"*/{part}" if slash else ""


def _path_matches(path: str, pattern: str) -> bool:
    return pattern in (path, "*") or (pattern.endswith("*") and path.startswith(pattern[:-1]))
