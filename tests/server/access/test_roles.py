"""Who may do what: the promises of `docs/operate/access.md`, one by one."""

import re
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import Forbidden
from fairway.server.access.authorization import authorize, authorize_path
from fairway.server.access.roles import (
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    READ,
    ROLES,
    WRITE,
    Binding,
    Role,
    User,
    allowed,
    allowed_path,
    rules,
)

KUEUE = "kueue.x-k8s.io"
NAMESPACED = {
    "": ("configmaps", "events", "pods", "secrets", "serviceaccounts"),
    "batch": ("jobs",),
    "autoscaling.x-k8s.io": ("provisioningrequests",),
    "coordination.k8s.io": ("leases",),
    "fairway.dev": ("managedjobs",),
    "ray.io": ("rayclusters", "rayjobs"),
    KUEUE: ("localqueues", "workloads"),
}
CLUSTER_WIDE = {
    "": ("namespaces", "nodes"),
    KUEUE: (
        "admissionchecks", "clusterqueues", "cohorts", "provisioningrequestconfigs", "resourceflavors", "topologies",
        "workloadpriorityclasses",
    ),
    "scheduling.k8s.io": ("priorityclasses",),
}  # fmt: skip
JOBS = {
    ("", "configmaps"), ("", "pods"), ("", "secrets"), ("", "serviceaccounts"), ("batch", "jobs"),
    ("fairway.dev", "managedjobs"), ("ray.io", "rayclusters"), ("ray.io", "rayjobs"),
}  # fmt: skip
ALL = [(group, resource) for kinds in (NAMESPACED, CLUSTER_WIDE) for group in kinds for resource in kinds[group]]
IN_NAMESPACES = [(group, resource) for group in NAMESPACED for resource in NAMESPACED[group]]


def user(role: str, namespace: str | None = None) -> User:
    return User(role, groups=(AUTHENTICATED_GROUP,), bindings=(Binding(Role(role), namespace),))


def may(who: User, verb: str, what: str, namespace: str = "", name: str = "") -> bool:
    """`what` as in `jobs.batch/status`."""
    full, _, subresource = what.partition("/")
    resource, _, group = full.partition(".")
    return allowed(
        who, verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    )


@pytest.mark.parametrize(("group", "resource"), [*ALL, ("some.group", "things")])
def test_an_admin_may_do_everything_everywhere(group: str, resource: str) -> None:
    for verb in (*READ, *WRITE, "impersonate", "*"):
        for part in ("", "status", "anything"):
            assert allowed(user("admin"), verb=verb, group=group, resource=resource, subresource=part, namespace="x")
            assert allowed(user("admin"), verb=verb, group=group, resource=resource, subresource=part)


@pytest.mark.parametrize(("group", "resource"), ALL)
def test_a_viewer_may_read_everything_but_secrets_and_change_nothing(group: str, resource: str) -> None:
    for verb, namespace in product(READ, ("", "x")):
        assert allowed(user("viewer"), verb=verb, group=group, resource=resource, namespace=namespace) == (
            resource != "secrets"
        )
    assert allowed(user("viewer"), verb="get", group=group, resource=resource, subresource="status", namespace="x")
    for verb, part in product((*WRITE, "*"), ("", "status", "binding")):
        assert not allowed(user("viewer"), verb=verb, group=group, resource=resource, subresource=part, namespace="x")


@pytest.mark.parametrize(("group", "resource"), ALL)
def test_an_editor_may_read_everything_and_write_what_jobs_are_made_of(group: str, resource: str) -> None:
    for verb in READ:
        assert allowed(user("editor"), verb=verb, group=group, resource=resource, namespace="x")
    for verb in WRITE:
        assert allowed(user("editor"), verb=verb, group=group, resource=resource, namespace="x") == (
            (group, resource) in JOBS
        )
        for part in ("status", "finalizers", "binding", "token"):
            assert not allowed(
                user("editor"), verb=verb, group=group, resource=resource, subresource=part, namespace="x"
            )


@pytest.mark.parametrize("role", ["admin", "editor", "viewer"])
@pytest.mark.parametrize(("group", "resource"), IN_NAMESPACES)
def test_a_role_in_one_namespace_reaches_no_other(role: str, group: str, resource: str) -> None:
    for verb, part, namespace in product((*READ, *WRITE), ("", "status", "log"), ("", "other", "min", "minee")):
        assert not allowed(
            user(role, "mine"), verb=verb, group=group, resource=resource, subresource=part, namespace=namespace
        )


@pytest.mark.parametrize("role", ["admin", "editor", "viewer"])
@pytest.mark.parametrize(
    ("group", "resource"), [(group, kind) for group in CLUSTER_WIDE for kind in CLUSTER_WIDE[group]]
)
def test_a_role_in_one_namespace_reads_queues_and_classes_and_writes_nothing_that_all_share(
    role: str, group: str, resource: str
) -> None:
    for verb in READ:
        assert allowed(user(role, "mine"), verb=verb, group=group, resource=resource) == bool(group)
    for verb, part in product(WRITE, ("", "status")):
        assert not allowed(user(role, "mine"), verb=verb, group=group, resource=resource, subresource=part, name="mine")


@pytest.mark.parametrize("verb", WRITE)
def test_an_admin_of_a_namespace_writes_its_objects_but_not_their_status(verb: str) -> None:
    for group, resource in IN_NAMESPACES:
        who = user("admin", "mine")
        assert allowed(who, verb=verb, group=group, resource=resource, namespace="mine")
        assert not allowed(who, verb=verb, group=group, resource=resource, subresource="status", namespace="mine")


SINGLE_CASES = [
    # (role, namespace of the role, verb, object, namespace, name, expected)
    ("viewer", None, "get", "pods/log", "x", "p", True),
    ("viewer", "x", "get", "pods/log", "x", "p", True),
    ("viewer", None, "get", "secrets", "x", "s", False),
    ("viewer", "x", "list", "secrets", "x", "", False),
    ("editor", "x", "get", "secrets", "x", "s", True),
    ("editor", "x", "create", "jobs.batch", "x", "", True),
    ("editor", "x", "delete", "pods", "x", "p", True),
    ("editor", "x", "create", "pods/eviction", "x", "p", True),
    ("editor", None, "create", "pods/binding", "x", "p", False),
    ("editor", None, "patch", "workloads.kueue.x-k8s.io", "x", "w", False),
    ("editor", None, "update", "clusterqueues.kueue.x-k8s.io", "", "q", False),
    ("editor", None, "create", "localqueues.kueue.x-k8s.io", "x", "", False),
    ("editor", None, "create", "namespaces", "", "", False),
    ("admin", "x", "create", "localqueues.kueue.x-k8s.io", "x", "", True),
    ("admin", "x", "update", "workloads.kueue.x-k8s.io/status", "x", "w", False),
    ("admin", "x", "get", "namespaces", "", "x", True),
    ("viewer", "x", "get", "namespaces", "x", "x", True),
    ("viewer", "x", "get", "namespaces", "x", "other", False),
    ("viewer", "x", "list", "namespaces", "", "", False),
    ("admin", "x", "patch", "namespaces", "", "x", False),
    ("admin", "x", "delete", "namespaces", "", "x", False),
    ("viewer", "x", "list", "nodes", "", "", False),
    ("viewer", "x", "get", "localqueues.visibility.kueue.x-k8s.io/pendingworkloads", "x", "q", True),
    ("viewer", "x", "get", "clusterqueues.visibility.kueue.x-k8s.io/pendingworkloads", "", "q", False),
    ("viewer", None, "get", "clusterqueues.visibility.kueue.x-k8s.io/pendingworkloads", "", "q", True),
    ("viewer", "x", "create", "selfsubjectaccessreviews.authorization.k8s.io", "", "", True),
    ("viewer", "x", "create", "selfsubjectrulesreviews.authorization.k8s.io", "", "", True),
    ("viewer", "x", "create", "selfsubjectreviews.authentication.k8s.io", "", "", True),
    ("editor", None, "create", "subjectaccessreviews.authorization.k8s.io", "", "", False),
    ("admin", "x", "create", "subjectaccessreviews.authorization.k8s.io", "", "", False),
    ("admin", None, "create", "subjectaccessreviews.authorization.k8s.io", "", "", True),
]


@pytest.mark.parametrize(("role", "bound", "verb", "what", "namespace", "name", "expected"), SINGLE_CASES)
def test_single_cases(
    role: str, bound: str | None, verb: str, what: str, namespace: str, name: str, expected: object
) -> None:
    assert may(user(role, bound), verb, what, namespace, name) is expected


def test_several_roles_add_up() -> None:
    both = User("ana", bindings=(Binding(Role.VIEWER), Binding(Role.EDITOR, "mine")))

    assert may(both, "create", "jobs.batch", "mine")
    assert not may(both, "create", "jobs.batch", "other")
    assert may(both, "list", "pods")


@pytest.mark.parametrize(("group", "resource"), ALL)
def test_somebody_unknown_reaches_no_object(group: str, resource: str) -> None:
    for verb in (*READ, *WRITE):
        assert not allowed(ANONYMOUS, verb=verb, group=group, resource=resource)


PATHS = {"/healthz": "all", "/livez": "all", "/readyz": "all", "/version": "all", "/version/": "all", "/": "known",
         "/api": "known", "/api/v1": "known", "/apis": "known", "/apis/batch/v1": "known", "/openapi/v2": "known",
         "/openapi/v3": "known", "/livez/ping": "known", "/metrics": "everywhere", "/versions": "admin",
         "/apiserver": "admin", "/anything": "admin"}  # fmt: skip


@pytest.mark.parametrize(("path", "who"), PATHS.items())
def test_paths_that_are_no_objects(path: str, who: str) -> None:
    readers = [
        (ANONYMOUS, ("all",)),
        (user("editor", "x"), ("all", "known")),
        (user("viewer"), ("all", "known", "everywhere")),
        (user("admin"), ("all", "known", "everywhere", "admin")),
    ]
    for reader, circles in readers:
        assert allowed_path(reader, verb="get", path=path) == (who in circles), reader.name
    assert not allowed_path(user("viewer"), verb="post", path=path)


REFUSALS = [
    ("list", "", "pods", "", "x", "",
     'pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "x"',
     {"kind": "pods"}),
    ("get", "", "pods", "log", "x", "p",
     'pods "p" is forbidden: User "eve" cannot get resource "pods/log" in API group "" in the namespace "x"',
     {"name": "p", "kind": "pods"}),
    ("get", KUEUE, "clusterqueues", "", "", "q",
     (f'clusterqueues.{KUEUE} "q" is forbidden: User "eve" cannot get resource "clusterqueues" in API group "{KUEUE}" '
      "at the cluster scope"), {"name": "q", "group": KUEUE, "kind": "clusterqueues"}),
    ("get", "", "namespaces", "", "", "n",
     'namespaces "n" is forbidden: User "eve" cannot get resource "namespaces" in API group "" in the namespace "n"',
     {"name": "n", "kind": "namespaces"}),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "group", "resource", "part", "namespace", "name", "message", "details"), REFUSALS)
def test_refusals_read_as_kubernetes_words_them(
    verb: str, group: str, resource: str, part: str, namespace: str, name: str, message: str, details: dict[str, object]
) -> None:
    with pytest.raises(Forbidden) as refusal:
        authorize(
            User("eve"), verb=verb, group=group, resource=resource, subresource=part, namespace=namespace, name=name
        )

    assert refusal.value.message == message
    assert refusal.value.details == details


def test_the_refusal_of_a_path_names_it() -> None:
    with pytest.raises(Forbidden, match=r'^forbidden: User "system:anonymous" cannot get path "/metrics"$'):
        authorize_path(ANONYMOUS, verb="get", path="/metrics")


def test_what_is_allowed_raises_nothing() -> None:
    authorize(user("admin"), verb="delete", group="", resource="pods", namespace="x", name="p")
    authorize_path(ANONYMOUS, verb="get", path="/healthz")


BINDINGS = st.builds(Binding, st.sampled_from(Role), st.sampled_from([None, "a", "b"]))


@given(
    bindings=st.lists(BINDINGS, max_size=3),
    kind=st.sampled_from([*ALL, ("authorization.k8s.io", "selfsubjectaccessreviews"), ("x", "y")]),
    verb=st.sampled_from([*READ, *WRITE, "*"]),
    part=st.sampled_from(["", "status", "log", "binding"]),
)
def test_the_rules_that_a_user_is_told_are_those_that_hold(
    bindings: list[Binding], kind: tuple[str, str], verb: str, part: str
) -> None:
    who = User("ana", groups=(AUTHENTICATED_GROUP,), bindings=tuple(bindings))
    group, resource = kind
    full = f"{resource}/{part}" if part else resource
    told = any(rule.covers(verb, group, full) for rule in rules(who, "a"))
    holds = [
        allowed(who, verb=verb, group=group, resource=resource, subresource=part, namespace=namespace, name="a")
        for namespace in ("a", "")
    ]

    assert told == any(holds)


def test_the_document_tells_of_every_role_and_every_resource_in_the_tables() -> None:
    described = (Path(__file__).parents[3] / "docs/operate/access.md").read_text()
    named = set(re.findall(r"`([a-z*/]+)`", described))
    written = {
        resource
        for grants in ROLES.values()
        for rule in (*grants.everywhere, *grants.in_namespace, *grants.beside)
        for resource in rule.resources
    }

    assert {str(role) for role in Role} <= named
    assert written - named == set()
