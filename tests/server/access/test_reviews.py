"""Who am I, may I."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fairway.errors import BadRequest, ValidationError
from fairway.server.access.reviews import (
    self_subject_access_review,
    self_subject_review,
    self_subject_rules_review,
    subject_access_review,
)
from fairway.server.access.roles import ANONYMOUS, AUTHENTICATED_GROUP, Binding, Role, User
from fairway.server.access.users import Users

ADMIN = User("ana", "uid-1", ("ml", AUTHENTICATED_GROUP), (Binding(Role.ADMIN),))
EDITOR = User("ben", "uid-2", (AUTHENTICATED_GROUP,), (Binding(Role.EDITOR, "mine"),))


def access(kind: str = "SelfSubjectAccessReview", **spec: object) -> dict[str, object]:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def test_whoami() -> None:
    body: dict[str, object] = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}

    assert self_subject_review(body, ADMIN, datetime(2026, 11, 16, 0, 16, 9, tzinfo=UTC)) == {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": "2026-11-16T00:16:09Z"},
        "status": {"userInfo": {"username": "ana", "uid": "uid-1", "groups": ["ml", "system:authenticated"]}},
    }


def test_whoami_of_somebody_unknown() -> None:
    answer = self_subject_review({}, ANONYMOUS, datetime(2026, 1, 1, tzinfo=UTC))

    assert answer["status"] == {"userInfo": {"username": "system:anonymous", "groups": ["system:unauthenticated"]}}


def test_may_i_answers_yes_and_repeats_the_question() -> None:
    asked = {"namespace": "mine", "verb": "create", "group": "batch", "resource": "jobs"}

    assert self_subject_access_review(access(resourceAttributes=asked), EDITOR) == {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": {"resourceAttributes": asked},
        "status": {"allowed": True},
    }


QUESTIONS: dict[str, tuple[dict[str, object], bool]] = {
    "a part of an object": ({"verb": "get", "resource": "pods", "subresource": "log", "namespace": "mine"}, True),
    "another namespace": ({"verb": "get", "resource": "pods", "namespace": "other"}, False),
    "all namespaces": ({"verb": "get", "resource": "pods"}, False),
    "a namespace itself": ({"verb": "get", "resource": "namespaces", "name": "mine"}, True),
    "every verb": ({"verb": "*", "resource": "pods", "namespace": "mine"}, False),
    "every object": ({"verb": "get", "group": "*", "resource": "*", "namespace": "mine"}, False),
    "nothing in particular": ({}, False),
    "with a selector": (
        {"verb": "list", "resource": "pods", "namespace": "mine", "labelSelector": {"rawSelector": "a=b"}},
        True,
    ),
}


@pytest.mark.parametrize(("asked", "allowed"), QUESTIONS.values(), ids=QUESTIONS)
def test_questions_about_objects(asked: dict[str, object], allowed: object) -> None:
    answer = self_subject_access_review(access(resourceAttributes=asked), EDITOR)

    assert answer["status"] == {"allowed": allowed}


@pytest.mark.parametrize(
    ("user", "path", "allowed"), [(EDITOR, "/version", True), (EDITOR, "/metrics", False), (ADMIN, "/x", True)]
)
def test_questions_about_paths(user: User, path: str, allowed: object) -> None:
    answer = self_subject_access_review(access(nonResourceAttributes={"path": path, "verb": "get"}), user)

    assert answer["status"] == {"allowed": allowed}


def test_a_question_has_one_subject() -> None:
    with pytest.raises(ValidationError) as neither:
        self_subject_access_review(access(), EDITOR)
    with pytest.raises(ValidationError) as both:
        self_subject_access_review(
            access(resourceAttributes={"verb": "get"}, nonResourceAttributes={"path": "/", "verb": "get"}), EDITOR
        )

    assert str(neither.value) == (
        '.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null: '
        "exactly one of nonResourceAttributes or resourceAttributes must be specified"
    )
    assert [error.path for error in both.value.errors] == ["spec.nonResourceAttributes"]


@pytest.mark.parametrize("spec", ["x", [], 5, {"resourceAttributes": 3}, {"resourceAttributes": {"verb": []}}])
def test_a_question_of_the_wrong_shape_is_refused(spec: object) -> None:
    with pytest.raises(BadRequest, match="cannot be handled as a SelfSubjectAccessReview: spec: "):
        self_subject_access_review({"spec": spec}, EDITOR)


def test_an_object_of_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"\(v1, Pod\) is not the SelfSubjectAccessReview of authorization.k8s.io/v1"):
        self_subject_access_review({"apiVersion": "v1", "kind": "Pod", "spec": {}}, EDITOR)


def test_what_others_may_do_is_their_roles_and_the_groups_in_the_question(tmp_path: Path) -> None:
    users = Users(tmp_path)
    users.add("ben", (Binding(Role.EDITOR, "mine"),))
    users.add_group("crew", (Binding(Role.EDITOR, "mine"),))
    job: dict[str, object] = {"verb": "create", "group": "batch", "resource": "jobs", "namespace": "mine"}
    version = {"path": "/openapi/v3", "verb": "get"}

    def ask(**spec: object) -> object:
        return subject_access_review(access("SubjectAccessReview", **spec), users)["status"]

    assert ask(user="ben", resourceAttributes=job) == {"allowed": True}
    assert ask(user="eve", resourceAttributes=job) == {"allowed": False}
    assert ask(user="eve", groups=["crew"], resourceAttributes=job) == {"allowed": True}
    assert ask(user="ben", nonResourceAttributes=version) == {"allowed": False}
    assert ask(user="ben", groups=["system:authenticated"], nonResourceAttributes=version) == {"allowed": True}
    assert ask(groups=["system:authenticated"], nonResourceAttributes=version) == {"allowed": True}


def test_a_question_about_others_names_them(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=r'spec.user: Invalid value: "": at least one of user or group'):
        subject_access_review(access("SubjectAccessReview", resourceAttributes={"verb": "get"}), Users(tmp_path))


def test_nobody_can_claim_to_be_somebody_else_in_a_question_about_oneself() -> None:
    answer = self_subject_access_review(
        access(resourceAttributes={"verb": "get", "resource": "nodes"}, user="ana", groups=["system:masters"]), EDITOR
    )

    assert answer["status"] == {"allowed": False}
    assert answer["spec"] == {"resourceAttributes": {"verb": "get", "resource": "nodes"}}


def test_the_list_of_all_i_may_do() -> None:
    body = access("SelfSubjectRulesReview", namespace="mine")

    assert self_subject_rules_review(body, ADMIN)["status"] == {
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {
                "verbs": ["create"],
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            },
            {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
        ],
        "nonResourceRules": [
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
            {
                "verbs": ["get"],
                "nonResourceURLs": [
                    "/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/healthz/*", "/livez", "/livez/*",
                    "/openapi", "/openapi/*", "/readyz", "/readyz/*", "/version", "/version/",
                ],
            },
        ],
        "incomplete": False,
    }  # fmt: skip


def test_the_list_is_of_one_namespace() -> None:
    def resources(namespace: str) -> set[str]:
        status = self_subject_rules_review(access("SelfSubjectRulesReview", namespace=namespace), EDITOR)["status"]
        assert isinstance(status, dict)
        return {resource for rule in status["resourceRules"] for resource in rule["resources"]}

    assert "pods" in resources("mine")
    assert "pods" not in resources("other")
    assert "clusterqueues" in resources("other")
    with pytest.raises(BadRequest, match="no namespace on request"):
        self_subject_rules_review(access("SelfSubjectRulesReview"), EDITOR)
