"""Variables of containers: where values come from, what refers to what, and what is not handed on."""

from base64 import b64encode
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.runner.pods.environment import Sources, inherited, variables_of
from fairway.runner.pods.expansion import expanded
from fairway.runner.pods.troubles import ConfigError

from .worlds import container, pod

CONFIG_MAPS: dict[tuple[str, str], Manifest] = {
    ("default", "settings"): {"data": {"RATE": "0.1", "with-dash": "x"}},
}
SECRETS: dict[tuple[str, str], Manifest] = {
    ("default", "login"): {"data": {"TOKEN": b64encode(b"s3cret").decode(), "raw": b64encode(b"\xff\xfe").decode()}},
}


def sources() -> Sources:
    return Sources(
        lambda namespace, name: CONFIG_MAPS.get((namespace, name)),
        lambda namespace, name: SECRETS.get((namespace, name)),
        {"cpu": "8", "memory": "16Gi"},
    )


def a_pod(**fields: Any) -> Manifest:
    manifest = pod("train", container("main", **fields))
    manifest["metadata"] |= {
        "uid": "u-1",
        "labels": {"team": "red", "b": 'a "quoted" one'},
        "annotations": {"note": "x"},
    }
    return manifest


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("plain", "plain", id="nothing to replace"),
        pytest.param("$(A)-$(B)", "1-2", id="known ones are replaced"),
        pytest.param("$(NOBODY)", "$(NOBODY)", id="an unknown one stays as it is"),
        pytest.param("$$(A)", "$(A)", id="a doubled dollar is a dollar"),
        pytest.param("$$$(A)", "$1", id="a doubled dollar, then a reference"),
        pytest.param("$A $", "$A $", id="a dollar before something else stays"),
        pytest.param("$(A", "$(A", id="an open reference stays"),
        pytest.param("$(A)$(", "1$(", id="an open reference after a whole one stays"),
        pytest.param("$()", "$()", id="an empty reference stays"),
    ],
)
def test_references_are_replaced_as_kubernetes_does(text: str, want: str) -> None:
    assert expanded(text, {"A": "1", "B": "2"}) == want


def variable(name: str = "V", **source: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": source} if source else {"name": name}


def field(path: str) -> dict[str, Any]:
    return variable(fieldRef={"apiVersion": "v1", "fieldPath": path})


def resource(name: str, divisor: str = "0") -> dict[str, Any]:
    return variable(resourceFieldRef={"resource": name, "divisor": divisor})


RESOURCES = {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "100M"}}


@pytest.mark.parametrize(
    ("env", "want"),
    [
        pytest.param([{"name": "V", "value": "x"}], {"V": "x"}, id="a value"),
        pytest.param([{"name": "V"}], {"V": ""}, id="no value is an empty one"),
        pytest.param(
            [{"name": "A", "value": "1"}, {"name": "V", "value": "$(A)$(LATER)"}, {"name": "LATER", "value": "2"}],
            {"A": "1", "V": "1$(LATER)", "LATER": "2"},
            id="a value may refer to those before, not to those after",
        ),
        pytest.param([{"name": "V", "value": "$(GIVEN)"}], {"V": "g"}, id="to what the machine gives"),
        pytest.param([{"name": "V", "value": "$(PATH)"}], {"V": "$(PATH)"}, id="not to what is only inherited"),
        pytest.param([field("metadata.name")], {"V": "train"}, id="the pod's name"),
        pytest.param([field("metadata.namespace")], {"V": "default"}, id="its namespace"),
        pytest.param([field("metadata.uid")], {"V": "u-1"}, id="its uid"),
        pytest.param([field("metadata.labels['team']")], {"V": "red"}, id="a label"),
        pytest.param([field("metadata.labels['other']")], {"V": ""}, id="a label that it has not"),
        pytest.param([field("metadata.annotations['note']")], {"V": "x"}, id="an annotation"),
        pytest.param([field("spec.nodeName")], {"V": "box"}, id="its node"),
        pytest.param([field("spec.serviceAccountName")], {"V": ""}, id="its service account, if any"),
        pytest.param([field("status.podIP")], {"V": "127.0.0.1"}, id="its address"),
        pytest.param([field("status.hostIP")], {"V": "127.0.0.1"}, id="its node's address"),
        pytest.param([resource("requests.cpu")], {"V": "1"}, id="a request, rounded up to whole ones"),
        pytest.param([resource("requests.cpu", "1m")], {"V": "250"}, id="a request in thousandths"),
        pytest.param([resource("requests.memory", "1Mi")], {"V": "64"}, id="memory in units of its divisor"),
        pytest.param([resource("limits.memory", "1Mi")], {"V": "96"}, id="a limit, rounded up"),
        pytest.param([resource("limits.cpu")], {"V": "8"}, id="no limit is all that the node has"),
        pytest.param(
            [variable(configMapKeyRef={"name": "settings", "key": "RATE"})], {"V": "0.1"}, id="a config map's entry"
        ),
        pytest.param(
            [variable(secretKeyRef={"name": "login", "key": "TOKEN"})], {"V": "s3cret"}, id="a secret's entry"
        ),
        pytest.param(
            [variable(configMapKeyRef={"name": "none", "key": "k", "optional": True})],
            {},
            id="nothing of an optional config map that is not there",
        ),
        pytest.param(
            [variable(secretKeyRef={"name": "login", "key": "k", "optional": True})],
            {},
            id="nothing of an optional key that is not there",
        ),
    ],
)
def test_a_variable_gets_its_value(env: list[dict[str, Any]], want: dict[str, str]) -> None:
    manifest = a_pod(env=env, resources=RESOURCES)
    assert variables_of(manifest, manifest["spec"]["containers"][0], sources(), {"GIVEN": "g"}) == want


def test_whole_config_maps_and_secrets_come_first_and_may_be_referred_to() -> None:
    manifest = a_pod(
        envFrom=[
            {"prefix": "S_", "configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "none", "optional": True}},
        ],
        env=[{"name": "S_RATE", "value": "own"}, {"name": "V", "value": "$(S_with-dash)"}],
    )
    found = variables_of(manifest, manifest["spec"]["containers"][0], sources(), {})
    assert found == {"S_RATE": "own", "S_with-dash": "x", "V": "x"}


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"env": [variable(configMapKeyRef={"name": "none", "key": "k"})]},
            'configmap "none" not found',
            id="no such config map",
        ),
        pytest.param(
            {"env": [variable(configMapKeyRef={"name": "settings", "key": "k"})]},
            "couldn't find key k in ConfigMap default/settings",
            id="no such entry of a config map",
        ),
        pytest.param({"envFrom": [{"secretRef": {"name": "none"}}]}, 'secret "none" not found', id="no such secret"),
        pytest.param(
            {"env": [variable(secretKeyRef={"name": "login", "key": "k"})]},
            "couldn't find key k in Secret default/login",
            id="no such entry of a secret",
        ),
        pytest.param(
            {"env": [variable(secretKeyRef={"name": "login", "key": "raw"})]},
            "not UTF-8",
            id="a secret that is bytes",
        ),
        pytest.param({"env": [{"name": "V", "value": "a\0b"}]}, "contains NUL", id="what no process can take"),
    ],
)
def test_what_cannot_be_had_is_said(fields: dict[str, Any], want: str) -> None:
    manifest = a_pod(**fields)
    with pytest.raises(ConfigError) as refused:
        variables_of(manifest, manifest["spec"]["containers"][0], sources(), {})
    assert want in refused.value.trouble.message
    assert not refused.value.trouble.lasting


def test_of_the_servers_environment_only_harmless_variables_are_handed_on() -> None:
    server = {"PATH": "/bin", "HOME": "/root", "FAIRWAY_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "k", "LANG": "C"}
    assert inherited(server) == {"PATH": "/bin", "HOME": "/root", "LANG": "C"}
    assert "/usr/bin" in inherited({})["PATH"]
