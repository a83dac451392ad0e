"""Write the data of `fairway.server.protobuf`: which number is which field in the messages of Kubernetes' kinds.

A developer's tool, run by hand when a version of Kubernetes is taken up; nothing needs it at run time. It keeps
structure alone (numbers, names, types, which zero values are shown) and drops every sentence.

    python tools/protobuf/generate.py --modules DIR --version v0.36.2

`DIR` is a folder with Kubernetes' Go modules, such as `$(go env GOMODCACHE)/k8s.io`; `api@VERSION` and
`apimachinery@VERSION` are read there. Two sources are joined by the field's number: `generated.proto` tells the type on
the wire, and the tags of the Go structs tell the name in JSON and whether a zero value is written there.

What is written (`data/messages.json`) is described in `fairway.server.protobuf.messages`, which reads it.
"""

import argparse
import json
import pathlib
import re
import sys
from typing import NamedTuple

DATA = pathlib.Path(__file__).parents[2] / "src" / "fairway" / "server" / "protobuf" / "data" / "messages.json"

KINDS = {
    "v1": (
        "Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume",
        "PersistentVolumeClaim", "Pod", "PodTemplate", "Secret", "Service", "ServiceAccount",
    ),
    "admissionregistration.k8s.io/v1": ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
    "apps/v1": ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"),
    "authentication.k8s.io/v1": ("SelfSubjectReview",),
    "authorization.k8s.io/v1": ("SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"),
    "autoscaling/v1": ("Scale",),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("CronJob", "Job"),
    "coordination.k8s.io/v1": ("Lease",),
    "discovery.k8s.io/v1": ("EndpointSlice",),
    "events.k8s.io/v1": ("Event",),
    "meta.k8s.io/v1": ("DeleteOptions",),
    "networking.k8s.io/v1": ("Ingress", "IngressClass", "NetworkPolicy"),
    "node.k8s.io/v1": ("RuntimeClass",),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "scheduling.k8s.io/v1": ("PriorityClass",),
    "storage.k8s.io/v1": ("StorageClass",),
}  # fmt: skip
"""The kinds that requests may carry; everything that they reach is written."""

APIS = "k8s.io.api."
META = "k8s.io.apimachinery.pkg.apis."
WELL_KNOWN = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "quantity",
    "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1": "fields",
    "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "k8s.io.apimachinery.pkg.apis.meta.v1.Time": "time",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "intorstring",
}
"""Messages that JSON shows as something other than an object."""

SCALARS = {"bool", "bytes", "int32", "int64", "string"}

MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^  (optional|repeated|map)(?:<string, ([\w.]+)>)? ?([\w.]+)? (\w+) = (\d+);", re.MULTILINE)
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
TAGGED = re.compile(r"^\t(?:\w+[ \t]+)?([^\s`]+)[ \t]+`([^`\n]*protobuf:\"\w+,(\d+),[^`\n]*)`", re.MULTILINE)
LIST = re.compile(r"^type (\w+) \[\]\w+$", re.MULTILINE)


class UnknownShape(Exception):
    """A source says something that the data cannot hold."""


class Wire(NamedTuple):
    """What a `.proto` file tells of a field: how often it comes, and its type."""

    name: str
    label: str
    type: str


class Tag(NamedTuple):
    """What a Go struct tells of a field."""

    name: str
    inline: bool
    pointer: bool
    omits_empty: bool
    omits_zero: bool


class Package:
    """The messages of one API group and version."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.name = name
        self.wires = _wires((folder / "generated.proto").read_text(encoding="utf-8"), name)
        sources = [path for path in folder.glob("*.go") if not path.name.startswith(("generated", "zz_"))]
        text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
        self.structs = dict(STRUCT.findall(text))
        self.lists = set(LIST.findall(text))


class Packages(dict[str, Package]):
    """The packages by name (`k8s.io.api.core.v1`), each read when somebody asks for it."""

    def __init__(self, modules: pathlib.Path, version: str) -> None:
        self.modules, self.version = modules, version

    def __missing__(self, name: str) -> Package:
        module, *parts = name.removeprefix("k8s.io.").split(".")
        self[name] = Package(self.modules.joinpath(f"{module}@{self.version}", *parts), name)
        return self[name]


def main() -> None:
    arguments = _arguments()
    packages = Packages(arguments.modules, arguments.version)
    kinds = {f"{version} {kind}": _package(version) + kind for version, names in KINDS.items() for kind in names}
    messages: dict[str, object] = {}
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if _short(name) not in messages:
            messages[_short(name)] = _message(name, packages, waiting)
    _write({kind: _short(name) for kind, name in kinds.items()}, messages)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=pathlib.Path, required=True, help="a folder with Kubernetes' Go modules")
    parser.add_argument("--version", default="v0.36.2", help="the version of the modules")
    return parser.parse_args()


def _package(api_version: str) -> str:
    group, _, version = api_version.rpartition("/")
    group = group.partition(".")[0] or "core"
    return f"{META if group == 'meta' else APIS}{group}.{version}."


def _wires(text: str, package: str) -> dict[str, dict[str, Wire]]:
    """The fields of each message, by number."""
    text = re.sub(r"^\s*//.*\n", "", text, flags=re.MULTILINE)
    found: dict[str, dict[str, Wire]] = {}
    for name, body in MESSAGE.findall(text):
        lines = [line for line in body.splitlines() if line.strip() and not line.strip().startswith("reserved")]
        fields = FIELD.findall(body)
        if len(fields) != len(lines):
            raise UnknownShape(f"{package}.{name} has {len(lines)} lines but {len(fields)} fields")
        found[name] = {
            number: Wire(field, label, _full(values or single, package))
            for label, values, single, field, number in fields
        }
    return found


def _full(type_name: str, package: str) -> str:
    if type_name in SCALARS:
        return type_name
    return type_name[1:] if type_name.startswith(".") else f"{package}.{type_name}"


def _tags(body: str) -> dict[str, Tag]:
    """What a struct's tags say, by number."""
    found: dict[str, Tag] = {}
    for go_type, tag, number in TAGGED.findall(body):
        json_tag = re.search(r'json:"([^"]*)"', tag)
        if json_tag is None:
            raise UnknownShape(f"a field without a JSON name: {tag}")
        name, *words = json_tag.group(1).split(",")
        found[number] = Tag(name, "inline" in words, go_type[0] == "*", "omitempty" in words, "omitzero" in words)
    return found


def _message(name: str, packages: Packages, waiting: list[str]) -> object:
    """The spelled fields of a message, by number; what they refer to is added to `waiting`."""
    package_name, _, message = name.rpartition(".")
    package = packages[package_name]
    wires = package.wires[message]
    if message in package.lists:
        return _type(wires["1"])
    tags = _tags(package.structs[message])
    if set(tags) != set(wires):
        raise UnknownShape(f"{name} has the numbers {sorted(wires)} on the wire, but {sorted(tags)} in its struct")
    spelled = {}
    for number, wire in sorted(wires.items(), key=lambda item: int(item[0])):
        if wire.type not in SCALARS and wire.type not in WELL_KNOWN:
            waiting.append(wire.type)
        is_list = wire.label == "optional" and wire.type.rpartition(".")[2] in package.lists
        if is_list:
            raise UnknownShape(f"{name}.{wire.name} is a list in disguise outside of a map")
        tag = tags[number]
        spelled[number] = f"{tag.name or wire.name} {_type(wire)} {_shown(wire, tag, name)}"
    return spelled


def _type(wire: Wire) -> str:
    mark = {"optional": "", "repeated": "[]", "map": "{}"}[wire.label]
    return mark + WELL_KNOWN.get(wire.type, _short(wire.type))


def _shown(wire: Wire, tag: Tag, message: str) -> str:
    """When JSON shows a field, as Go's encoder has it."""
    is_struct = wire.label == "optional" and wire.type not in SCALARS
    if tag.inline:
        if not is_struct or tag.pointer:
            raise UnknownShape(f"{message}.{wire.name} cannot be shown among the fields of its parent")
        return "inline"
    if tag.pointer:
        return "sent" if tag.omits_empty else "null"
    if tag.omits_zero or (tag.omits_empty and not is_struct):
        return "nonzero"
    return "always"


def _short(name: str) -> str:
    return name.removeprefix(APIS).removeprefix(META)


def _write(kinds: dict[str, str], messages: dict[str, object]) -> None:
    def lines(content: dict[str, object] | dict[str, str]) -> str:
        return ",\n".join(f"{json.dumps(key)}: {json.dumps(content[key])}" for key in sorted(content))

    DATA.parent.mkdir(parents=True, exist_ok=True)
    DATA.write_text(f'{{"kinds": {{\n{lines(kinds)}\n}}, "messages": {{\n{lines(messages)}\n}}}}\n', encoding="utf-8")
    sys.stderr.write(f"{DATA.name}: {len(messages)} messages, {DATA.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
