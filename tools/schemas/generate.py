"""Write the schema data of `fairway.apis.machinery.schemas` from OpenAPI documents and custom resource definitions.

A developer's tool, run by hand when a version of Kubernetes, Kueue, KubeRay or the autoscaler is taken up; nothing
needs it at run time. It keeps structure alone (names, types, limits, how lists merge) and drops every sentence.

    python tools/schemas/generate.py --openapi DIR --crd FILE.yaml --crd FILE.yaml

    python tools/schemas/generate.py --more DIR
    python tools/schemas/generate.py --crd FILE.yaml --crd FILE.yaml

`DIR` holds what an API server with Kueue's definitions installed answers below `/openapi/v3`, one document per file
(`*.json`). Each `--crd` adds the version `v1` of a kind that this server does not know.

With `--more`, it is the folder `api/openapi-spec/v3` of the module `k8s.io/kubernetes`, and only `operators.json` is
written: kinds that are stored because operators start with them (`apis/stored.py`), and the definitions that these need
beyond `kubernetes.json`.

With `--crd` alone, the files of these definitions' groups (`FILES` in `definitions.py`) are written anew, so all kinds
of a group are given together: this is how a kind is added whose definition is known (`docs/develop/api.md`, "Adding a
kind").

What is written (`data/*.json`): one definition per line, its nodes as `apis.machinery.schemas.definitions` reads them.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from fairway.apis.machinery.schemas.definitions import FILES

Json = dict[str, Any]

DATA = pathlib.Path(__file__).parents[2] / "src" / "fairway" / "apis" / "machinery" / "schemas" / "data"

API = "io.k8s.api."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
POD_TEMPLATE = API + "core.v1.PodTemplateSpec"
INLINED = {
    "affinity": "Affinity",
    "containers": "Container",
    "dnsConfig": "PodDNSConfig",
    "env": "EnvVar",
    "envFrom": "EnvFromSource",
    "initContainers": "Container",
    "lifecycle": "Lifecycle",
    "podSecurityContext": "PodSecurityContext",
    "sidecars": "Container",
    "spec": "PodSpec",
    "tolerations": "Toleration",
    "topologySpreadConstraints": "TopologySpreadConstraint",
    "volumeMounts": "VolumeMount",
    "volumes": "Volume",
}
"""Fields of custom kinds that often repeat a type of Kubernetes, or a list of it; a reference says the same."""

KUBERNETES_KINDS = [
    *(
        f"core.v1.{kind}{suffix}"
        for kind in ("Namespace", "Node", "Pod", "Event", "ConfigMap", "Secret", "ServiceAccount", "PodTemplate")
        for suffix in ("", "List")
    ),
    "core.v1.Binding",
    "batch.v1.Job",
    "batch.v1.JobList",
    "scheduling.v1.PriorityClass",
    "scheduling.v1.PriorityClassList",
    "coordination.v1.Lease",
    "coordination.v1.LeaseList",
    "authentication.v1.SelfSubjectReview",
    "authorization.v1.SelfSubjectAccessReview",
    "authorization.v1.SelfSubjectRulesReview",
    "authorization.v1.SubjectAccessReview",
]
OPERATOR_KINDS = [
    *(
        f"core.v1.{kind}"
        for kind in ("Service", "Endpoints", "LimitRange", "PersistentVolume", "PersistentVolumeClaim")
    ),
    *(f"apps.v1.{kind}" for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
    *(f"rbac.v1.{kind}" for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")),
    *(f"networking.v1.{kind}" for kind in ("Ingress", "IngressClass", "NetworkPolicy")),
    *(f"admissionregistration.v1.{kind}WebhookConfiguration" for kind in ("Mutating", "Validating")),
    "autoscaling.v1.Scale",
    "autoscaling.v2.HorizontalPodAutoscaler",
    "batch.v1.CronJob",
    "discovery.v1.EndpointSlice",
    "events.v1.Event",
    "node.v1.RuntimeClass",
    "policy.v1.PodDisruptionBudget",
    "storage.v1.StorageClass",
]
CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
META_KINDS = ["ObjectMeta", "ListMeta", "Status", "DeleteOptions", "Patch", "WatchEvent", "LabelSelector"]
KUEUE_KINDS = [
    "AdmissionCheck",
    "ClusterQueue",
    "Cohort",
    "LocalQueue",
    "ProvisioningRequestConfig",
    "ResourceFlavor",
    "Topology",
    "Workload",
    "WorkloadPriorityClass",
]
KUEUE_VERSIONS = ["v1beta1", "v1beta2"]

ZERO_FILLED = {
    "AttachedVolume", "ContainerExtendedResourceRequest", "ContainerStateTerminated", "ContainerStatus",
    "DaemonEndpoint", "Event", "HTTPHeader", "HostIP", "ISCSIVolumeSource", "ImageVolumeStatus", "JobCondition",
    "LinuxContainerUser", "NamespaceCondition", "NodeAddress", "NodeAllocatableResourceClaimStatus",
    "NodeCondition", "NodeSystemInfo", "NonResourceRule", "PodCondition", "PodExtendedResourceClaimStatus",
    "PodIP", "PodResourceClaimStatus", "ResourceHealth", "ResourceRule", "ResourceStatus",
    "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview", "SubjectAccessReviewStatus",
    "SubjectRulesReviewStatus", "Sysctl", "VolumeMountStatus",
}  # fmt: skip
"""Where a field that the document calls required may in fact be left out: an API server writes Go's zero value then.

Everywhere else its validation asks for the field, so there a zero default is no default.
"""

LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip
ALTERNATIVES = ("allOf", "anyOf", "oneOf", "not")
ZEROS: tuple[Any, ...] = ("", 0, False, {}, [])


class UnknownSchema(Exception):
    """A document says something that the data cannot hold."""


def main() -> None:
    arguments = _arguments()
    if arguments.more:
        _write_more(_documents(arguments.more))
        return
    custom = dict(_custom(path) for path in arguments.crd)
    if not arguments.openapi:
        _write_groups(custom)
        return
    schemas = _documents(arguments.openapi)

    kubernetes = [API + kind for kind in KUBERNETES_KINDS] + [META + kind for kind in META_KINDS]
    kueue = [f"io.x-k8s.kueue.{version}.{kind}" for version in KUEUE_VERSIONS for kind in KUEUE_KINDS]
    files: dict[str, Json] = {"kubernetes": {}, "kueue": {}, "ray": {}, "autoscaling": {}}
    for name in kueue:
        files["kueue"] |= _with_list(name, _node(schemas[name], builtin=False, owner=name))
    for name, schema in custom.items():
        target = "ray" if name.startswith("io.ray.") else "autoscaling"
        files[target] |= _with_list(name, _node(schema, builtin=False, owner=name))

    waiting = kubernetes + [name for content in files.values() for name in _references(content)]
    while waiting:
        name = waiting.pop()
        if name.startswith("io.k8s.") and name not in files["kubernetes"]:
            node = _builtin(name, schemas)
            files["kubernetes"][name] = node
            waiting.extend(_references(node))
    for file, content in files.items():
        _write(file, content)


def _documents(folder: pathlib.Path) -> Json:
    schemas: Json = {}
    for document in sorted(folder.glob("*.json")):
        content = json.loads(document.read_text(encoding="utf-8"))
        schemas.update(content.get("components", {}).get("schemas", {}))
    return schemas


@cache
def _kubernetes() -> Json:
    known: Json = json.loads((DATA / "kubernetes.json").read_text(encoding="utf-8"))
    return known


def _write_more(schemas: Json) -> None:
    known = _kubernetes()
    content: Json = {}
    lists = [API + kind for kind in OPERATOR_KINDS if not kind.endswith(".Scale")] + [CRD]
    waiting = [API + "autoscaling.v1.Scale", *lists, *(f"{name}List" for name in lists)]
    while waiting:
        name = waiting.pop()
        if name not in known and name not in content:
            node = content[name] = _builtin(name, schemas)
            waiting.extend(_references(node))
    _write("operators", content)


def _write_groups(custom: Json) -> None:
    groups: dict[str, Json] = {}
    for name, schema in custom.items():
        file = next(file for prefix, file in FILES.items() if name.startswith(prefix))
        groups.setdefault(file, {}).update(_with_list(name, _node(schema, builtin=False, owner=name)))
    for file, content in groups.items():
        _write(file, content)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--openapi", type=pathlib.Path, help="a folder of OpenAPI v3 documents")
    parser.add_argument("--more", type=pathlib.Path, help="the same, of k8s.io/kubernetes: write operators.json alone")
    parser.add_argument("--crd", type=pathlib.Path, action="append", default=[], help="a CustomResourceDefinition")
    return parser.parse_args()


def _custom(path: pathlib.Path) -> tuple[str, Json]:
    """The name and schema of the version `v1`, or else of the stored one, of a CustomResourceDefinition."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
    versions = sorted(spec["versions"], key=lambda version: (version["name"] != "v1", not version["storage"]))
    version = versions[0]
    schema = version["schema"]["openAPIV3Schema"]
    schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    schema["properties"]["metadata"] = {"$ref": META + "ObjectMeta"}
    group = ".".join(reversed(spec["group"].split(".")))
    return f"{group}.{version['name']}.{spec['names']['kind']}", schema


def _with_list(name: str, node: Any) -> Json:
    items = {"items": f"#{name}"}
    known = {"apiVersion": "string", "items": items, "kind": "string", "metadata": f"#{META}ListMeta"}
    return {name: node, f"{name}List": {"properties": known, "required": ["items"]}}


def _builtin(name: str, schemas: Json) -> Any:
    if name == QUANTITY:
        return ":quantity"
    if name == INT_OR_STRING:
        return ":int-or-string"
    if name == META + "MicroTime":
        return "string:micro-time"
    node = _node(schemas[name], builtin=True, owner=name)
    if node == "object":  # a type with its own decoder, such as FieldsV1: holds anything
        return {"type": "object", "open": True}
    return node


def _node(schema: Json, *, builtin: bool, owner: str) -> Any:
    """One node of the data: a string if a type, a format or a reference says it all, else an object."""
    if not builtin and _is_pod_template(schema):
        return f"#{POD_TEMPLATE}"
    node: Json = {}
    reference = _reference(schema)
    if reference:
        node["ref"] = reference
    elif schema.get("x-kubernetes-int-or-string"):
        node["format"] = "int-or-string"
    elif any(word in schema for word in ALTERNATIVES):
        raise UnknownSchema(f"{owner}: {json.dumps(schema)[:300]}")
    else:
        node |= {word: schema[word] for word in ("type", "format") if schema.get(word)}
    _add_children(node, schema, builtin=builtin, owner=owner)
    _add_facts(node, schema)
    default = schema.get("default")
    if default is not None and (not builtin or default not in ZEROS):
        node["default"] = default
    if node.get("default") == {} and reference:
        del node["default"]
    return _short(node)


def _referring(name: str, schema: Json) -> Json:
    """A field of a custom kind, as a reference where it repeats the type of Kubernetes that its name suggests."""
    if name not in INLINED:
        return schema
    single = schema.get("items", schema)
    definition = API + f"core.v1.{INLINED[name]}"
    own, known = single.get("properties"), _kubernetes()[definition]["properties"]
    if not own or not set(own) <= set(known) or (name == "spec" and "containers" not in own):
        return schema
    reference = {"$ref": definition}
    kept = {word: value for word, value in schema.items() if word.startswith("x-") or word in {"type", "maxItems"}}
    return {**kept, "items": reference} if "items" in schema else reference


def _is_pod_template(schema: Json) -> bool:
    properties = schema.get("properties", {})
    return set(properties) == {"metadata", "spec"} and "containers" in properties["spec"].get("properties", {})


def _reference(schema: Json) -> str:
    whole = schema.get("allOf", [])
    reference = whole[0].get("$ref", "") if len(whole) == 1 else schema.get("$ref", "")
    return str(reference).rsplit("/", 1)[-1]


def _add_children(node: Json, schema: Json, *, builtin: bool, owner: str) -> None:
    if "properties" in schema:
        node["properties"] = {
            name: _property(name, value if builtin else _referring(name, value), schema, builtin=builtin, owner=owner)
            for name, value in sorted(schema["properties"].items())
        }
    if "items" in schema:
        node["items"] = _node(schema["items"], builtin=builtin, owner=owner)
    values = schema.get("additionalProperties")
    if isinstance(values, dict):
        node["values"] = _node(values, builtin=builtin, owner=owner)


def _property(name: str, schema: Json, parent: Json, *, builtin: bool, owner: str) -> Any:
    node = _node(schema, builtin=builtin, owner=f"{owner}.{name}")
    if not builtin or owner.rsplit(".", 1)[-1] not in ZERO_FILLED or name not in parent.get("required", []):
        return node
    zero = schema.get("default", {"array": [], "object": {}}.get(schema.get("type", ""), ""))
    return {**(node if isinstance(node, dict) else _long(node)), "default": zero}


def _add_facts(node: Json, schema: Json) -> None:
    facts = {
        "required": sorted(schema.get("required", [])),
        "enum": schema.get("enum", []),
        "nullable": schema.get("nullable", False),
        "open": schema.get("x-kubernetes-preserve-unknown-fields", False),
        "limits": {word: schema[word] for word in LIMITS if word in schema},
        "list_keys": schema.get("x-kubernetes-list-map-keys", []),
        "atomic": schema.get("x-kubernetes-map-type") == "atomic",
        "merge_key": schema.get("x-kubernetes-patch-merge-key", ""),
        "merge_strategy": schema.get("x-kubernetes-patch-strategy", ""),
    }
    node |= {word: fact for word, fact in facts.items() if fact}
    if schema.get("x-kubernetes-list-type", "atomic") != "atomic":
        node["list_type"] = schema["x-kubernetes-list-type"]


def _short(node: Json) -> Any:
    """Leave out what the reader of the data fills in itself."""
    words = set(node)
    if words == {"ref"}:
        return f"#{node['ref']}"
    if words <= {"type", "format"}:
        return node.get("type", "") + (f":{node['format']}" if "format" in node else "")
    if node.get("type") == "object" and words & {"properties", "values"}:
        del node["type"]
    if node.get("type") == "array":
        del node["type"]
    return node


def _long(node: str) -> Json:
    if node.startswith("#"):
        return {"ref": node[1:]}
    kind, _, kind_format = node.partition(":")
    return {"type": kind} | ({"format": kind_format} if kind_format else {})


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, str) and node.startswith("#"):
        yield node[1:]
    elif isinstance(node, dict):
        if isinstance(node.get("ref"), str):
            yield node["ref"]
        for value in node.values():
            yield from _references(value)


def _write(file: str, content: Json) -> None:
    lines = [
        f"{json.dumps(name)}: {json.dumps(node, separators=(',', ':'), ensure_ascii=False)}"
        for name, node in sorted(content.items())
    ]
    path = DATA / f"{file}.json"
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    sys.stdout.write(f"{path.name}: {len(content)} definitions, {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
