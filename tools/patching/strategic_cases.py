"""Strategic merge patches that `record.py` plays on one `PodTemplate`, each on a fresh copy of it."""

from typing import Any

Json = dict[str, Any]

TEMPLATE: Json = {
    "metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["e.com/a", "e.com/b", "e.com/c"]},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "command": ["sh", "-c"],
                "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}, {"name": "Z", "value": "3"}],
                "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 443}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            },
            {"name": "side", "image": "busybox"},
        ],
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "k", "operator": "Exists"}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}],
        "imagePullSecrets": [{"name": "s"}],
        "securityContext": {"runAsUser": 1, "supplementalGroups": [1, 2]},
    },
}


def _spec(**fields: Any) -> Json:
    return {"template": {"spec": fields}}


def _main(**fields: Any) -> Json:
    return _spec(containers=[{"name": "main", **fields}])


_XYZ = [{"name": "X"}, {"name": "Y"}, {"name": "Z"}]

CASES: dict[str, Json] = {
    "nothing": {},
    "a scalar": _main(image="other"),
    "a new element goes first": _spec(containers=[{"name": "new", "image": "i"}]),
    "new and old elements": _spec(containers=[{"name": "new", "image": "i"}, {"name": "side", "image": "j"}]),
    "old elements turned around": _spec(containers=[{"name": "side"}, {"name": "main"}]),
    "an element deleted": _spec(containers=[{"name": "side", "$patch": "delete"}]),
    "an element deleted that is not there": _spec(containers=[{"name": "nope", "$patch": "delete"}]),
    "one deleted, one changed, one new": _spec(
        containers=[{"name": "side", "$patch": "delete"}, {"name": "main", "image": "i"}, {"name": "n", "image": "i"}]
    ),
    "a list replaced by an element": _spec(containers=[{"$patch": "replace"}, {"name": "only", "image": "i"}]),
    "a map replaced": _spec(nodeSelector={"$patch": "replace", "zone": "z"}),
    "a map deleted": _spec(nodeSelector={"$patch": "delete"}),
    "a map deleted by null": _spec(nodeSelector=None),
    "a key deleted by null": _spec(nodeSelector={"pool": None, "zone": "z"}),
    "a null for what is not there": _spec(priorityClassName=None, nodeSelector={"zone": None}),
    "a list without strategy is replaced": _main(command=["ls"]),
    "an atomic list of objects is replaced": _spec(tolerations=[{"key": "l", "operator": "Exists"}]),
    "a list deleted by null": _spec(tolerations=None),
    "nested elements": _main(env=[{"name": "Y", "value": "9"}, {"name": "W", "value": "0"}]),
    "nested elements deleted": _main(env=[{"name": "X", "$patch": "delete"}, {"name": "Z", "$patch": "delete"}]),
    "nested list replaced": _main(env=[{"name": "Q", "value": "1"}, {"$patch": "replace"}]),
    "ports are matched by number": _main(ports=[{"containerPort": 443, "name": "tls"}, {"containerPort": 8080}]),
    "order set alone": _main(**{"$setElementOrder/env": [{"name": "Z"}, {"name": "X"}, {"name": "Y"}]}),
    "order set for some": _main(**{"$setElementOrder/env": [{"name": "Z"}, {"name": "X"}]}),
    "order set with a new element": _main(
        **{"$setElementOrder/env": [{"name": "Z"}, {"name": "N"}, *_XYZ[:2]]}, env=[{"name": "N", "value": "n"}]
    ),
    "order set with a deleted element": _main(
        **{"$setElementOrder/env": [{"name": "Z"}, {"name": "X"}]}, env=[{"name": "Y", "$patch": "delete"}]
    ),
    "order that the patch does not follow": _main(
        **{"$setElementOrder/env": _XYZ}, env=[{"name": "Y", "value": "1"}, {"name": "X", "value": "1"}]
    ),
    "order of containers": _spec(
        **{"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}]},
        containers=[{"name": "side", "image": "i"}],
    ),
    "order of a list that is not there": _spec(**{"$setElementOrder/initContainers": [{"name": "i"}]}),
    "retained keys": _spec(volumes=[{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]),
    "retained keys without what the patch sets": _spec(
        volumes=[{"name": "v", "$retainKeys": ["name"], "hostPath": {"path": "/x"}}]
    ),
    "retained keys of a map": _spec(securityContext={"$retainKeys": ["runAsUser"], "runAsUser": 7}),
    "scalars merged": {"template": {"metadata": {"finalizers": ["e.com/d", "e.com/b"]}}},
    "scalars deleted": {"template": {"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a", "e.com/x"]}}},
    "scalars deleted, added and ordered": {
        "template": {
            "metadata": {
                "$deleteFromPrimitiveList/finalizers": ["e.com/a"],
                "$setElementOrder/finalizers": ["e.com/c", "e.com/d", "e.com/b"],
                "finalizers": ["e.com/d"],
            }
        }
    },
    "labels": {"template": {"metadata": {"labels": {"a": None, "c": "3"}, "annotations": {"x": "y", "n": None}}}},
    "a new nested object with nulls and directives": _spec(
        affinity={"nodeAffinity": None, "podAffinity": {"$patch": "delete"}}, dnsConfig={"options": [{"name": "n"}]}
    ),
    "image pull secrets by name": _spec(imagePullSecrets=[{"name": "t"}]),
    "resources": _main(resources={"requests": {"memory": None, "cpu": "2"}, "limits": {"cpu": "3"}}),
    "a volume changes its source": _spec(volumes=[{"name": "w", "configMap": None, "secret": {"secretName": "s"}}]),
    "an unknown directive": _spec(nodeSelector={"$patch": "frob"}),
    "an unknown directive in an element": _spec(containers=[{"name": "main", "$patch": "frob"}]),
    "an element without its key": _spec(containers=[{"image": "i"}]),
    "retaining with no list": _spec(securityContext={"$retainKeys": "x"}),
}
