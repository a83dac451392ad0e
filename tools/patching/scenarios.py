"""The table that `record.py` plays: who writes what to one object, step by step.

A scenario has a kind (a key of `KINDS`) and steps, each made by `create`, `update`, `patch`, `strategic`, `json` or
`apply`.
"""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class KindPaths:
    """Where objects of a kind are, and how they begin."""

    api_version: str
    kind: str
    collection: str
    definition: str
    namespaced: bool = True
    status: bool = False


@dataclass(frozen=True, kw_only=True)
class Step:
    """One write. `body` is what is sent, or for `update` a merge patch on the object as it is."""

    verb: str
    manager: str
    body: Any
    subresource: str = ""
    force: bool = False


@dataclass(frozen=True, kw_only=True)
class Scenario:
    name: str
    kind: str
    steps: list[Step] = field(default_factory=list)


_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
KINDS = {
    "ConfigMap": KindPaths(
        api_version="v1", kind="ConfigMap", collection="/api/v1/namespaces/{ns}/configmaps",
        definition="io.k8s.api.core.v1.ConfigMap",
    ),
    "Pod": KindPaths(
        api_version="v1", kind="Pod", collection="/api/v1/namespaces/{ns}/pods", definition="io.k8s.api.core.v1.Pod",
        status=True,
    ),
    "PodTemplate": KindPaths(
        api_version="v1", kind="PodTemplate", collection="/api/v1/namespaces/{ns}/podtemplates",
        definition="io.k8s.api.core.v1.PodTemplate",
    ),
    "Job": KindPaths(
        api_version="batch/v1", kind="Job", collection="/apis/batch/v1/namespaces/{ns}/jobs",
        definition="io.k8s.api.batch.v1.Job", status=True,
    ),
    "Lease": KindPaths(
        api_version="coordination.k8s.io/v1", kind="Lease",
        collection="/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", definition="io.k8s.api.coordination.v1.Lease",
    ),
    "Node": KindPaths(
        api_version="v1", kind="Node", collection="/api/v1/nodes", definition="io.k8s.api.core.v1.Node",
        namespaced=False, status=True,
    ),
    "PriorityClass": KindPaths(
        api_version="scheduling.k8s.io/v1", kind="PriorityClass",
        collection="/apis/scheduling.k8s.io/v1/priorityclasses",
        definition="io.k8s.api.scheduling.v1.PriorityClass", namespaced=False,
    ),
    "ServiceAccount": KindPaths(
        api_version="v1", kind="ServiceAccount", collection="/api/v1/namespaces/{ns}/serviceaccounts",
        definition="io.k8s.api.core.v1.ServiceAccount",
    ),
    "ClusterQueue": KindPaths(
        api_version="kueue.x-k8s.io/v1beta2", kind="ClusterQueue", collection=f"{_KUEUE}/clusterqueues",
        definition="io.x-k8s.kueue.v1beta2.ClusterQueue", namespaced=False, status=True,
    ),
    "LocalQueue": KindPaths(
        api_version="kueue.x-k8s.io/v1beta2", kind="LocalQueue", collection=f"{_KUEUE}/namespaces/{{ns}}/localqueues",
        definition="io.x-k8s.kueue.v1beta2.LocalQueue", status=True,
    ),
    "ResourceFlavor": KindPaths(
        api_version="kueue.x-k8s.io/v1beta2", kind="ResourceFlavor", collection=f"{_KUEUE}/resourceflavors",
        definition="io.x-k8s.kueue.v1beta2.ResourceFlavor", namespaced=False,
    ),
    "Workload": KindPaths(
        api_version="kueue.x-k8s.io/v1beta2", kind="Workload", collection=f"{_KUEUE}/namespaces/{{ns}}/workloads",
        definition="io.x-k8s.kueue.v1beta2.Workload", status=True,
    ),
}  # fmt: skip


def create(manager: str, **body: Any) -> Step:
    return Step(verb="create", manager=manager, body=body)


def update(manager: str, subresource: str = "", **change: Any) -> Step:
    return Step(verb="update", manager=manager, body=change, subresource=subresource)


def patch(manager: str, subresource: str = "", **body: Any) -> Step:
    return Step(verb="merge", manager=manager, body=body, subresource=subresource)


def strategic(manager: str, **body: Any) -> Step:
    return Step(verb="strategic", manager=manager, body=body)


def json(manager: str, *operations: Json) -> Step:
    return Step(verb="json", manager=manager, body=list(operations))


def apply(manager: str, *, force: bool = False, subresource: str = "", **body: Any) -> Step:
    return Step(verb="apply", manager=manager, body=body, force=force, subresource=subresource)


def scenario(name: str, kind: str, *steps: Step) -> Scenario:
    return Scenario(name=name, kind=kind, steps=list(steps))


def _container(name: str = "main", **fields: Any) -> Json:
    return {"name": name, "image": "busybox", **fields}


def _pod(*containers: Json, **fields: Any) -> Json:
    return {"spec": {"containers": list(containers), **fields}}


def _condition(kind: str, status: str = "True", **fields: Any) -> Json:
    return {
        "type": kind, "status": status, "reason": "Because", "message": "so it is",
        "lastTransitionTime": "2026-01-01T00:00:00Z", **fields,
    }  # fmt: skip


_JOB_TEMPLATE: Json = {
    "metadata": {"labels": {"job": "mine"}},
    "spec": {"restartPolicy": "Never", "containers": [_container()]},
}
_JOB: Json = {
    "spec": {"manualSelector": True, "selector": {"matchLabels": {"job": "mine"}}, "suspend": True,
             "template": _JOB_TEMPLATE},
}  # fmt: skip


def _quota(amount: str, flavor: str = "default") -> Json:
    return {
        "coveredResources": ["cpu"],
        "flavors": [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": amount}]}],
    }


def _cluster_queue(**spec: Any) -> Json:
    return {"spec": {"resourceGroups": [_quota("4")], "namespaceSelector": {}, **spec}}


def _workload(**spec: Any) -> Json:
    template = {"spec": {"restartPolicy": "Never", "containers": [_container(resources={"requests": {"cpu": "1"}})]}}
    return {"spec": {"queueName": "q", "podSets": [{"name": "main", "count": 2, "template": template}], **spec}}


_MAPS = [
    scenario("create by plain write owns what it sends", "ConfigMap",
             create("A", metadata={"labels": {"x": "y"}}, data={"k": "1"})),
    scenario("update of one key takes that key alone", "ConfigMap",
             create("A", data={"k": "1", "l": "1"}), update("B", data={"l": "2"})),
    scenario("update that adds and removes keys", "ConfigMap",
             create("A", data={"k": "1", "l": "1"}), update("B", data={"l": None, "m": "1"}),
             update("A", data={"m": None})),
    scenario("update that changes nothing changes no owner", "ConfigMap",
             create("A", data={"k": "1"}), update("B", data={"k": "1"})),
    scenario("second update of the same manager joins its entry", "ConfigMap",
             create("A", data={"k": "1"}), update("B", data={"l": "1"}), update("B", data={"m": "1"}),
             update("B", data={"m": "2"})),
    scenario("merge patch that empties the map", "ConfigMap",
             create("A", data={"k": "1"}), patch("B", data={"k": None}), patch("C", data={"n": "1"})),
    scenario("the whole map goes", "ConfigMap",
             create("A", data={"k": "1"}, metadata={"labels": {"a": "b"}}), patch("B", data=None)),
    scenario("labels, annotations and finalizers by three managers", "ConfigMap",
             create("A", metadata={"labels": {"a": "1"}, "finalizers": ["e.com/a"]}),
             patch("B", metadata={"annotations": {"e.com/b": "1"}, "finalizers": ["e.com/a", "e.com/b"]}),
             patch("C", metadata={"labels": {"a": "2"}, "finalizers": ["e.com/b"]}),
             patch("D", metadata={"finalizers": None})),
    scenario("owner references are matched by uid", "ConfigMap",
             create("A", metadata={"ownerReferences": [
                 {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "11111111-1111-1111-1111-111111111111"}]}),
             patch("B", metadata={"ownerReferences": [
                 {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "11111111-1111-1111-1111-111111111111"},
                 {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "22222222-2222-2222-2222-222222222222"}]})),
    scenario("eleventh and twelfth updater push the oldest into ancient changes", "ConfigMap",
             create("m00", data={"k00": "1"}),
             *(update(f"m{index:02}", data={f"k{index:02}": "1"}) for index in range(1, 13))),
    scenario("resetting ownership with an empty entry", "ConfigMap",
             create("A", data={"k": "1"}), patch("B", metadata={"managedFields": [{}]}), patch("C", data={"l": "1"}),
             apply("D", data={"m": "1"})),
    scenario("resetting ownership with an empty list", "ConfigMap",
             create("A", data={"k": "1"}), patch("B", metadata={"managedFields": []}), apply("D", data={"k": "2"})),
    scenario("ownership edited by hand", "ConfigMap",
             create("A", data={"k": "1", "l": "1"}),
             patch("B", metadata={"managedFields": [
                 {"manager": "Z", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
                  "fieldsV1": {"f:data": {"f:k": {}}}}]}),
             apply("Z", metadata={"labels": {"z": "1"}})),
    scenario("nonsense as ownership is ignored", "ConfigMap",
             create("A", data={"k": "1"}),
             patch("B", metadata={"managedFields": [{"manager": "Z", "operation": "Frob"}]}, data={"l": "1"})),
    scenario("generateName and immutable are fields like others", "ConfigMap",
             create("A", metadata={"generateName": "x-"}, immutable=True, binaryData={"b": "eA=="})),
]  # fmt: skip

_APPLY_MAPS = [
    scenario("apply creates and owns leaves alone", "ConfigMap", apply("A", data={"k": "1"},
             metadata={"labels": {"a": "b"}})),
    scenario("apply the same again is nothing", "ConfigMap", apply("A", data={"k": "1"}), apply("A", data={"k": "1"})),
    scenario("two appliers with the same value share it", "ConfigMap",
             apply("A", data={"k": "1"}), apply("B", data={"k": "1"}), apply("B", data={"k": "1", "l": "1"})),
    scenario("another value is a conflict", "ConfigMap", apply("A", data={"k": "1"}), apply("B", data={"k": "2"})),
    scenario("several conflicts with two managers", "ConfigMap",
             apply("A", data={"k": "1", "l": "1"}), apply("B", data={"k": "1", "l": "1", "m": "1"}),
             apply("C", data={"k": "2", "l": "2", "m": "2"})),
    scenario("conflict with a plain writer names its version", "ConfigMap",
             create("A", data={"k": "1"}), apply("B", data={"k": "2"})),
    scenario("force takes the field from everybody", "ConfigMap",
             apply("A", data={"k": "1", "l": "1"}), apply("B", data={"k": "1"}),
             apply("C", force=True, data={"k": "2"})),
    scenario("force takes the last field of a plain writer", "ConfigMap",
             create("A", data={"k": "1"}), apply("B", force=True, data={"k": "2"})),
    scenario("a field given up by its only owner goes", "ConfigMap",
             apply("A", data={"k": "1", "l": "1"}), apply("A", data={"k": "1"})),
    scenario("a field given up stays for the other applier", "ConfigMap",
             apply("A", data={"k": "1", "l": "1"}), apply("B", data={"l": "1"}), apply("A", data={"k": "1"}),
             apply("B", metadata={"labels": {"b": "1"}})),
    scenario("a field given up stays for the plain writer that changed it", "ConfigMap",
             apply("A", data={"k": "1", "l": "1"}), update("B", data={"l": "2"}), apply("A", data={"k": "1"})),
    scenario("the map itself is given up", "ConfigMap",
             apply("A", data={"k": "1"}), apply("A", metadata={"labels": {"a": "1"}}), apply("A")),
    scenario("an empty map is a field", "ConfigMap", apply("A", data={}), apply("B", data={"k": "1"}), apply("A")),
    scenario("update takes an applied field, applying again conflicts", "ConfigMap",
             apply("A", data={"k": "1"}), update("B", data={"k": "2"}), apply("A", data={"k": "1"}),
             apply("A", force=True, data={"k": "1"})),
    scenario("applying what an updater set meanwhile shares it", "ConfigMap",
             apply("A", data={"k": "1"}), update("B", data={"k": "2"}), apply("A", data={"k": "2"})),
    scenario("update removes an applied field", "ConfigMap",
             apply("A", data={"k": "1", "l": "1"}), patch("B", data={"k": None}),
             apply("A", data={"k": "1", "l": "1"})),
    scenario("same name applies and updates as two managers", "ConfigMap",
             apply("A", data={"k": "1"}), update("A", data={"l": "1"}), apply("A", data={"k": "1", "l": "2"})),
    scenario("finalizers are a set", "ConfigMap",
             apply("A", metadata={"finalizers": ["e.com/a", "e.com/b"]}),
             apply("B", metadata={"finalizers": ["e.com/c", "e.com/b"]}),
             apply("A", metadata={"finalizers": ["e.com/a"]}), apply("A", metadata={"finalizers": []}), apply("B")),
    scenario("finalizers of an updater and an applier", "ConfigMap",
             create("A", metadata={"finalizers": ["e.com/a"]}), apply("B", metadata={"finalizers": ["e.com/b"]}),
             apply("B", metadata={"finalizers": ["e.com/b", "e.com/a"]}),
             apply("B", metadata={"finalizers": ["e.com/c"]}),
             patch("A", metadata={"finalizers": None})),
    scenario("managedFields in a configuration are refused", "ConfigMap", apply("A", metadata={"managedFields": []})),
    scenario("double members of a set are refused", "ConfigMap",
              apply("A", metadata={"finalizers": ["e.com/a", "e.com/a"]})),
    scenario("null for a map that has content", "ConfigMap",
             apply("A", data={"k": "1"}, metadata={"labels": {"a": "1"}}),
             apply("B", data=None, metadata={"labels": None})),
    scenario("kubectl goes from its own side to the server's", "ConfigMap",
             create("kubectl-client-side-apply", data={"k": "1"}, metadata={"annotations": {
                 "kubectl.kubernetes.io/last-applied-configuration":
                     '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{}},"data":{"k":"1"}}'}}),
             apply("kubectl", data={"k": "2"}), apply("kubectl", data={"k": "<3>"})),
    scenario("kubectl does not take over what somebody changed since", "ConfigMap",
             create("kubectl-client-side-apply", data={"k": "1", "l": "1"}, metadata={"annotations": {
                 "kubectl.kubernetes.io/last-applied-configuration":
                     '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{}},"data":{"k":"1","l":"1"}}'}}),
             update("B", data={"k": "5"}), apply("kubectl", data={"k": "2", "l": "2"}),
             apply("other", data={"l": "2"})),
]  # fmt: skip

_PODS = [
    scenario("pod by plain write", "Pod", create("A", **_pod(_container(env=[{"name": "X", "value": "1"}])))),
    scenario("pod with everything that has keys", "Pod",
             create("A", **_pod(
                 _container(ports=[{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
                            env=[{"name": "X", "value": "1"},
                                 {"name": "Y", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                            command=["sh", "-c"], args=["x"],
                            resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                            volumeMounts=[{"name": "v", "mountPath": "/v"}]),
                 _container("side"),
                 volumes=[{"name": "v", "emptyDir": {}}], nodeSelector={"a": "b"},
                 tolerations=[{"key": "k", "operator": "Exists"}],
                 topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                                             "labelSelector": {"matchLabels": {"a": "b"}}}]))),
    scenario("pod image updated", "Pod",
             create("A", **_pod(_container(), _container("side"))),
             strategic("B", spec={"containers": [{"name": "side", "image": "other"}]})),
    scenario("pod applied, then applied again", "Pod",
             apply("A", **_pod(_container(env=[{"name": "X", "value": "1"}], ports=[{"containerPort": 80}]))),
             apply("A", **_pod(_container(env=[{"name": "X", "value": "1"}], ports=[{"containerPort": 80}])))),
    scenario("pod labels by a second applier", "Pod",
             apply("A", **_pod(_container())), apply("B", metadata={"labels": {"b": "1"}},
             spec={"containers": [_container()]}),
             apply("B", metadata={"labels": {"c": "1"}})),
    scenario("pod image conflict inside a list", "Pod",
             apply("A", **_pod(_container())), apply("B", **_pod({"name": "main", "image": "other"})),
             apply("B", force=True, **_pod({"name": "main", "image": "other"}))),
    scenario("pod with two containers of one name is refused", "Pod", apply("A", **_pod(_container(), _container()))),
    scenario("pod with a list where an object belongs is refused", "Pod", apply("A", spec=[])),
    scenario("pod conditions by status writes", "Pod",
             create("A", **_pod(_container())),
             patch("kubelet", "status", status={"phase": "Running", "conditions": [_condition("Ready"),
                   _condition("Initialized")]}),
             strategic("spec-writer", metadata={"labels": {"a": "1"}}),
             Step(verb="strategic", manager="scheduler", subresource="status",
                  body={"status": {"conditions": [_condition("PodScheduled")]}}),
             Step(verb="strategic", manager="kubelet", subresource="status",
                  body={"status": {"conditions": [_condition("Ready", "False")]}})),
    scenario("pod conditions applied by two", "Pod",
             create("A", **_pod(_container())),
             apply("B", subresource="status", status={"conditions": [_condition("e.com/b")]}),
             apply("C", subresource="status", status={"conditions": [_condition("e.com/c")]}),
             apply("B", subresource="status", status={"conditions": [_condition("e.com/b", "False")]}),
             apply("C", subresource="status", status={"conditions": [_condition("e.com/b")]}),
             apply("B", subresource="status", status={})),
]  # fmt: skip

_PROBE = {"exec": {"command": ["true"]}}


def _template(*containers: Json, **spec: Any) -> Json:
    return {"template": {"spec": {"containers": list(containers), **spec}}}


_X, _Y, _Z = ({"name": name, "value": "1"} for name in "XYZ")

# Nothing in a pod template is immutable, so that lists in lists can be played with.
_LISTS = [
    scenario("env elements given up one by one", "PodTemplate",
             apply("A", **_template(_container(env=[_X, _Y, _Z]))), apply("A", **_template(_container(env=[_X, _Z]))),
             apply("A", **_template(_container(env=[_Z, _X]))), apply("A", **_template(_container()))),
    scenario("a container given up goes with its defaults", "PodTemplate",
             apply("A", **_template(_container(), _container("side", ports=[{"containerPort": 80}]))),
             apply("A", **_template(_container()))),
    scenario("a container that another applier declares too stays with his part", "PodTemplate",
             apply("A", **_template(_container(), _container("side", env=[_X, _Y]))),
             apply("B", **_template(_container("side", env=[_Y, _Z]))), apply("A", **_template(_container())),
             apply("B", **_template(_container()))),
    scenario("an element whose value an updater changed goes with the element", "PodTemplate",
             apply("A", **_template(_container(env=[_X, _Y]))),
             strategic("B", template={"spec": {"containers": [{"name": "main", "env": [{"name": "X",
                 "value": "2"}]}]}}),
             apply("A", **_template(_container(env=[_Y])))),
    scenario("a struct that an updater wrote into stays with his part", "PodTemplate",
             apply("A", **_template(_container(), securityContext={"runAsUser": 1, "runAsGroup": 2})),
             patch("B", template={"spec": {"securityContext": {"runAsGroup": 3, "fsGroup": 4}}}),
             apply("A", **_template(_container()))),
    scenario("a struct given up goes with its defaults", "PodTemplate",
             apply("A", **_template(_container(livenessProbe=_PROBE))), apply("A", **_template(_container()))),
    scenario("a struct half given up", "PodTemplate",
             apply("A", **_template(_container(livenessProbe={**_PROBE, "periodSeconds": 3, "timeoutSeconds": 2}))),
             apply("B", **_template(_container(livenessProbe={"timeoutSeconds": 2}))),
             apply("A", **_template(_container(livenessProbe=_PROBE)))),
    scenario("ports have two keys, one with a default", "PodTemplate",
             apply("A", **_template(_container(
                 ports=[{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}]))),
             apply("B", **_template(_container(ports=[{"containerPort": 53, "name": "dns"}]))),
             apply("A", **_template(_container(ports=[{"containerPort": 53, "protocol": "UDP"}]))),
             apply("B", **_template(_container()))),
    scenario("command is atomic", "PodTemplate",
             apply("A", **_template(_container(command=["a"], args=["x", "y"]))),
             apply("B", **_template(_container(args=["x"]))), apply("B",
                 force=True, **_template(_container(args=["x"]))),
             apply("A", **_template(_container()))),
    scenario("node selector and tolerations are atomic", "PodTemplate",
             apply("A", **_template(_container(), nodeSelector={"a": "1"},
                 tolerations=[{"key": "k", "operator": "Exists"}])),
             apply("B", **_template(_container(), nodeSelector={"b": "1"})),
             apply("B", force=True, **_template(_container(), nodeSelector={"b": "1"}, tolerations=[])),
             apply("A", **_template(_container()))),
    scenario("resources are maps of quantities", "PodTemplate",
             apply("A", **_template(_container(resources={"requests": {"cpu": "1", "memory": "1Gi"}}))),
             apply("B", **_template(_container(resources={"requests": {"cpu": "1000m"}, "limits": {"cpu": "2"}}))),
             apply("B", **_template(_container(resources={"limits": {"cpu": "2"}}))),
             apply("A", **_template(_container(resources={})))),
    scenario("double elements that a plain writer made", "PodTemplate",
             apply("A", **_template(_container(env=[_X]))),
             json("B", {"op": "add", "path": "/template/spec/containers/0/env/-", "value": {"name": "X",
                 "value": "2"}}),
             apply("C", **_template(_container(env=[_Y]))),
             json("B", {"op": "remove", "path": "/template/spec/containers/0/env/1"}),
             apply("A", **_template(_container()))),
    scenario("double elements replaced by an applier", "PodTemplate",
             apply("A", **_template(_container(env=[_Y]))),
             json("B", {"op": "replace", "path": "/template/spec/containers/0/env", "value": [_X, {**_X,
                 "value": "2"}, _Z]}),
             apply("C", force=True, **_template(_container(env=[{"name": "X", "value": "3"}])))),
    scenario("double elements gone at once", "PodTemplate",
             apply("A", **_template(_container(env=[_Y]))),
             json("B", {"op": "replace", "path": "/template/spec/containers/0/env", "value": [_X, {**_X,
                 "value": "2"}]}),
             json("C", {"op": "remove", "path": "/template/spec/containers/0/env"})),
    scenario("elements of three managers in one order", "PodTemplate",
             apply("A", **_template(_container(env=[_X, _Y, _Z]))),
             apply("B", **_template(_container(env=[{"name": "N"}, _Z, {"name": "M"}, _X]))),
             json("C", {"op": "add", "path": "/template/spec/containers/0/env/0", "value": {"name": "C"}}),
             apply("A", **_template(_container(env=[_Z, _Y, _X]))),
             apply("B", **_template(_container(env=[{"name": "M"}])))),
    scenario("volumes of two appliers", "PodTemplate",
             apply("A", **_template(_container(), volumes=[{"name": "v", "emptyDir": {}}])),
             apply("B", **_template(_container(), volumes=[{"name": "w", "configMap": {"name": "c"}}, {"name": "v"}])),
             apply("A", **_template(_container())), apply("B", **_template(_container()))),
    scenario("constraints with two required keys", "PodTemplate",
             apply("A", **_template(_container(), topologySpreadConstraints=[
                 {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                 {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}])),
             apply("B", force=True, **_template(_container(), topologySpreadConstraints=[
                 {"maxSkew": 3, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}])),
             apply("A", **_template(_container()))),
    scenario("null in a configuration", "PodTemplate",
             apply("A", **_template(_container(env=None, command=None, image="i"), nodeName=None, affinity=None)),
             apply("A", **_template(_container(env=None, command=None, image="i"), nodeName=None, affinity=None)),
             patch("B", template={"spec": {"nodeName": "n", "affinity": {"nodeAffinity": {}}}}),
             apply("A", **_template(_container(env=None, command=None, image="i"), affinity=None))),
    scenario("null over a scalar that another set", "PodTemplate",
             apply("A", **_template(_container(), nodeName="n")), apply("B", **_template(_container(), nodeName=None))),
    scenario("an updater and an applier of one name, both in lists", "PodTemplate",
             apply("A", **_template(_container(env=[_X]))),
             strategic("A", template={"spec": {"containers": [{"name": "main", "env": [_Y]}]}}),
             apply("A", **_template(_container(env=[_Y]))), apply("A", **_template(_container()))),
    scenario("an element without any key is refused", "PodTemplate",
             apply("A", **_template(_container(), topologySpreadConstraints=[{"maxSkew": 1}]))),
    scenario("a string where a list belongs is refused", "PodTemplate", apply("A", **_template(_container(env="x")))),
]  # fmt: skip

_JOBS = [
    scenario("job by plain write", "Job", create("A", **_JOB)),
    scenario("job resumed by an update", "Job", create("A", **_JOB), update("kueue", spec={"suspend": False})),
    scenario("job template changed in a list map while suspended", "Job",
             create("A", **_JOB),
             strategic("kueue", spec={"template": {"spec": {"nodeSelector": {"pool": "a"},
                                                            "tolerations": [{"key": "k", "operator": "Exists"}]}}}),
             update("kueue", spec={"template": {"spec": {"nodeSelector": None, "tolerations": None}}})),
    scenario("job applied, suspend taken by another", "Job",
             apply("A", **_JOB), update("kueue", spec={"suspend": False}), apply("A", **_JOB),
             apply("A", spec={**_JOB["spec"], "suspend": False})),
    scenario("job gives suspend up", "Job",
             apply("A", **_JOB),
             apply("A", spec={name: value for name, value in _JOB["spec"].items() if name != "suspend"})),
    scenario("job container with resources from another applier", "Job",
             apply("A", **_JOB),
             apply("B", spec={"template": {"spec": {"containers": [
                 {"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}}),
             apply("A", **_JOB)),
    scenario("job status by the controller", "Job",
             create("A", **_JOB),
             patch("controller", "status", status={"ready": 0, "conditions": [
                 _condition("Suspended", lastProbeTime="2026-01-01T00:00:00Z")]})),
    scenario("lease renewed by two holders", "Lease",
             create("A", spec={"holderIdentity": "a", "leaseDurationSeconds": 5}),
             update("B", spec={"holderIdentity": "b", "leaseTransitions": 1})),
    scenario("priority class", "PriorityClass",
             create("A", value=100, description="x"), patch("B", description="y"),
             apply("C", value=100, description="y")),
    scenario("node labels, taints and conditions", "Node",
             create("A", metadata={"labels": {"a": "1"}}, spec={"taints": [{"key": "t", "effect": "NoSchedule"}]}),
             patch("kubelet", "status", status={"capacity": {"cpu": "4"}, "conditions": [_condition("Ready")]}),
             patch("B", spec={"taints": [{"key": "u", "effect": "NoSchedule"}], "unschedulable": True}),
             Step(verb="strategic", manager="kubelet", subresource="status",
                  body={"status": {"capacity": {"cpu": "8"}, "conditions": [_condition("Ready", "False")]}})),
    scenario("service account secrets", "ServiceAccount",
             create("A", secrets=[{"name": "s"}], imagePullSecrets=[{"name": "p"}]),
             apply("B", imagePullSecrets=[{"name": "q"}]),
             apply("B", imagePullSecrets=[{"name": "r"}, {"name": "p"}]), apply("B")),
]  # fmt: skip

_KUEUE_KINDS = [
    scenario("cluster queue by plain write", "ClusterQueue", create("A", **_cluster_queue(cohortName="c"))),
    scenario("cluster queue quota changed", "ClusterQueue",
             create("A", **_cluster_queue()), update("B", spec={"resourceGroups": [_quota("8")]})),
    scenario("cluster queue applied by two with one group each", "ClusterQueue",
             apply("A", **_cluster_queue()), apply("B", spec={"resourceGroups": [_quota("4", "other")]}),
             apply("B", force=True, spec={"resourceGroups": [_quota("4", "other")]})),
    scenario("cluster queue gives its preemption up", "ClusterQueue",
             apply("A", **_cluster_queue(preemption={"withinClusterQueue": "LowerPriority"}, cohortName="c")),
             apply("A", **_cluster_queue(cohortName="c")), apply("A", **_cluster_queue())),
    scenario("cluster queue stop policy by another manager", "ClusterQueue",
             apply("A", **_cluster_queue()), patch("B", spec={"stopPolicy": "Hold"}), apply("A", **_cluster_queue()),
             apply("A", **_cluster_queue(stopPolicy="None"))),
    scenario("cluster queue selector is atomic", "ClusterQueue",
             apply("A", **_cluster_queue(namespaceSelector={"matchLabels": {"a": "1"}})),
             apply("B", spec={"namespaceSelector": {"matchLabels": {"b": "1"}}}),
             apply("B", force=True, spec={"namespaceSelector": {"matchLabels": {"b": "1"}}})),
    scenario("cluster queue status", "ClusterQueue",
             create("A", **_cluster_queue()),
             patch("kueue", "status", status={"pendingWorkloads": 1, "conditions": [_condition("Active")]}),
             patch("kueue", "status", status={"pendingWorkloads": 2})),
    scenario("cluster queue status sent to the main door is ignored", "ClusterQueue",
             create("A", status={"pendingWorkloads": 7}, **_cluster_queue()), patch("B",
                   status={"pendingWorkloads": 9})),
    scenario("cluster queue spec sent to the status door is ignored", "ClusterQueue",
             create("A", **_cluster_queue()),
             patch("B", "status", spec={"stopPolicy": "Hold"}, metadata={"labels": {"a": "1"}},
                   status={"pendingWorkloads": 1})),
    scenario("cluster queue status applied", "ClusterQueue",
             create("A", **_cluster_queue()),
             apply("B", subresource="status", status={"conditions": [_condition("Active")]},
                   spec={"stopPolicy": "Hold"}),
             apply("B", subresource="status", status={"conditions": [_condition("Active", "False"),
                   _condition("Other")]}),
             apply("C", subresource="status", status={"conditions": [_condition("Active")]}),
             apply("B", subresource="status", status={"conditions": [_condition("Other")]})),
    scenario("local queue", "LocalQueue",
             create("A", spec={"clusterQueue": "c"}), apply("B", spec={"clusterQueue": "c", "stopPolicy": "Hold"}),
             apply("B")),
    scenario("resource flavor labels, taints and tolerations", "ResourceFlavor",
             apply("A", spec={"nodeLabels": {"a": "1"}, "nodeTaints": [{"key": "t", "effect": "NoSchedule"}]}),
             apply("B", spec={"nodeLabels": {"b": "1"}}),
             apply("A", spec={"nodeLabels": {"c": "1"}, "tolerations": [{"key": "k", "operator": "Exists"}]}),
             update("C", spec={"nodeLabels": {"c": "2"}})),
    scenario("workload by plain write", "Workload", create("A", **_workload())),
    scenario("workload admitted in steps", "Workload",
             create("job-controller", **_workload(priority=5)),
             apply("kueue-admission", subresource="status", force=True, status={
                 "admission": {"clusterQueue": "c", "podSetAssignments": [
                     {"name": "main", "count": 2, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}}]},
                 "conditions": [_condition("QuotaReserved"), _condition("Admitted")]}),
             patch("kueue-job", "status", status={"reclaimablePods": [{"name": "main", "count": 1}]}),
             apply("kueue-admission", subresource="status", force=True, status={
                 "conditions": [_condition("QuotaReserved", "False"), _condition("Evicted")]}),
             patch("B", spec={"active": False})),
    scenario("workload admission checks are a list map", "Workload",
             create("A", **_workload()),
             apply("check-a", subresource="status", status={"admissionChecks": [
                 {"name": "a", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
             apply("check-b", subresource="status", status={"admissionChecks": [
                 {"name": "b", "state": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
             apply("check-a", subresource="status", status={"admissionChecks": [
                 {"name": "a", "state": "Ready", "message": "go", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
             apply("check-a", subresource="status", status={})),
    scenario("workload pod sets applied by two", "Workload",
             apply("A", **_workload()),
             apply("B", spec={"podSets": [{"name": "main", "topologyRequest": {"preferred": "rack"}, "template": {
                 "spec": {"containers": []}}}]}),
             apply("A", **_workload(priority=3)), apply("A", **_workload())),
    scenario("order of elements when appliers disagree", "Workload",
             create("A", **_workload()),
             apply("B", subresource="status", status={"conditions": [_condition("P"), _condition("Q"),
                   _condition("R")]}),
             apply("C", subresource="status", status={"conditions": [_condition("R"), _condition("X"),
                   _condition("P")]}),
             apply("D", subresource="status", status={"conditions": [_condition("Z"), _condition("Q"),
                   _condition("P")]}),
             apply("C", subresource="status", status={"conditions": [_condition("X"), _condition("R")]})),
]  # fmt: skip

SCENARIOS = [*_MAPS, *_APPLY_MAPS, *_PODS, *_LISTS, *_JOBS, *_KUEUE_KINDS]
