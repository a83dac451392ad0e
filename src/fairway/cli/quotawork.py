"""What `fairway quota` reads of a server, compares and writes."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from fairway.apis.fairway import teams
from fairway.apis.fairway.quotas import QUOTA_LABEL, QuotaSpec, parse
from fairway.apis.machinery.conditions import is_true
from fairway.apis.machinery.kind import Manifest
from fairway.cli.manifests import ManifestError, read
from fairway.cli.session import Session
from fairway.cli.teamwork import DEFAULT_QUEUE, TeamState
from fairway.client.rest import paths
from fairway.errors import BadRequest, FairwayError, NotFound, ValidationError
from fairway.quota import kueue, yunikorn
from fairway.quota.compare import (
    Action,
    FieldDifference,
    ObjectDifference,
    ObjectKey,
    blocked_by_workloads,
    compare,
    owner,
    patch_of,
)
from fairway.quota.kueue import Shortfall

API: Final = "fairway.dev/v1alpha1"
KIND: Final = "QuotaDefinition"
DEFINITIONS: Final = f"{paths.FAIRWAY}/quotadefinitions"
_KINDS: Final = {
    "AdmissionCheck": (teams.KUEUE, "admissionchecks"),
    "ResourceFlavor": (teams.KUEUE, "resourceflavors"),
    "Cohort": (teams.KUEUE, "cohorts"),
    "ClusterQueue": (teams.KUEUE, "clusterqueues"),
    "LocalQueue": (teams.KUEUE, "localqueues"),
    "Namespace": ("v1", "namespaces"),
    "RoleBinding": (f"{kueue.RBAC}/v1", "rolebindings"),
}


class QuotaError(FairwayError):
    """A definition that cannot be used or applied as it is."""


class QuotaFile(NamedTuple):
    """A definition from a file, or as it was applied."""

    name: str
    spec: Manifest
    quota: QuotaSpec


def read_definition(file: str) -> QuotaFile:
    """The one definition of a file; an error names every wrong field."""
    found = read([file])
    if len(found) != 1:
        raise ManifestError(f"{file}: expected one {KIND}, found {len(found)} objects")
    where, manifest = found[0]
    if (manifest["apiVersion"], manifest["kind"]) != (API, KIND):
        raise ManifestError(
            f"{where}: expected kind {KIND} of {API}, found {manifest['kind']} of {manifest['apiVersion']}; "
            "`fairway quota import` prints a definition of what is there"
        )
    return parsed(manifest)


def parsed(manifest: Manifest) -> QuotaFile:
    name, spec = str(manifest["metadata"].get("name") or ""), manifest.get("spec")
    if not isinstance(spec, dict):
        raise ManifestError(f"{KIND} {name}: spec is missing; it has flavors and organizations")
    quota, errors = parse(spec)
    if errors:
        raise ValidationError(KIND, name, errors)
    return QuotaFile(name, spec, quota)


class QuotaState:
    """The objects of a server that a definition is rendered into."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.rest = session.rest

    @cached_property
    def live(self) -> dict[ObjectKey, Manifest]:
        return self._listed(_KINDS)

    @cached_property
    def _homes(self) -> dict[ObjectKey, Manifest]:
        """Namespaces and roles alone, for a scheduler whose queues are no objects."""
        return self._listed(("Namespace", "RoleBinding"))

    def _listed(self, kinds: Iterable[str]) -> dict[ObjectKey, Manifest]:
        found: dict[ObjectKey, Manifest] = {}
        for kind in kinds:
            api_version, plural = _KINDS[kind]
            query = {}
            if kind == "RoleBinding":
                if not self.session.is_cluster:
                    continue
                query["labelSelector"] = QUOTA_LABEL
            for one in self._list(api_version, plural, kind, **query):
                metadata = one["metadata"]
                if "deletionTimestamp" not in metadata:
                    key = ObjectKey(kind, metadata.get("namespace", ""), metadata["name"])
                    found[key] = {**one, "apiVersion": api_version, "kind": kind}
        return found

    def _list(self, api_version: str, plural: str, kind: str, **query: str) -> list[Manifest]:
        try:
            return list(self.rest.get(paths.resource(api_version, plural), **query)["items"])
        except NotFound:
            raise QuotaError(
                f"{self.session.place} does not serve {kind} of {api_version}: install Kueue, or use --target yunikorn"
            ) from None

    @cached_property
    def definitions(self) -> dict[str, Manifest]:
        """The applied ones, by name; none where the kind is not installed."""
        try:
            found = self.rest.get(DEFINITIONS)["items"]
        except NotFound:
            return {}
        return {one["metadata"]["name"]: one for one in found}

    @cached_property
    def stores_definitions(self) -> bool:
        return not self.session.is_cluster or self.rest.exists(DEFINITIONS)

    def config_map(self, quota: QuotaSpec) -> Manifest | None:
        """YuniKorn's configuration; `None` if there is none."""
        path = paths.resource("v1", "configmaps", yunikorn.namespace_of(quota), yunikorn.CONFIG_MAP)
        try:
            found: Manifest = self.rest.get(path)
        except NotFound:
            return None
        return {"apiVersion": "v1", "kind": "ConfigMap", **found}

    def differences(self, definition: QuotaFile, targets: Sequence[str]) -> list[ObjectDifference]:
        """Everything that is not as defined."""
        found: list[ObjectDifference] = []
        if "kueue" in targets:
            found += self._kueue(definition)
        else:
            homes = [*kueue.namespaces(definition.quota, definition.name), *self._role_bindings(definition)]
            found += compare(homes, self._homes, definition.name)
        if not self.session.is_cluster:
            found += self._accounts(definition)
        if "yunikorn" in targets:
            found += self._yunikorn(definition)
        return found

    def _kueue(self, definition: QuotaFile) -> list[ObjectDifference]:
        rendered = kueue.render(definition.quota, definition.name, checked=self.stores_definitions)
        desired = [*rendered, *self._role_bindings(definition)]
        found = compare(desired, self.live, definition.name)
        if any(one.action in (Action.DELETE, Action.RELEASE) for one in found):
            found = self._blocked(found)
        return found

    def _role_bindings(self, definition: QuotaFile) -> list[Manifest]:
        return kueue.role_bindings(definition.quota, definition.name) if self.session.is_cluster else []

    def _blocked(self, found: list[ObjectDifference]) -> list[ObjectDifference]:
        """What has workloads stays, and with it what it uses: a queue its flavors and cohort, a cohort its parent."""
        held, stays = self._held(), -1
        while stays < (now := sum(bool(one.blocked) for one in found)):
            stays = now
            found = blocked_by_workloads(found, held, self._used(found))
        return found

    def _yunikorn(self, definition: QuotaFile) -> list[ObjectDifference]:
        config_map = self.config_map(definition.quota)
        found = yunikorn.compare_configs(yunikorn.render(definition.quota), config_of(config_map))
        if config_map is None or owner(config_map) == definition.name:
            return found
        foreign = "it is not in the definition, and its ConfigMap was not written by it: `fairway quota import` has it"
        return [one._replace(blocked=foreign) if one.action is Action.DELETE else one for one in found]

    def _held(self) -> dict[ObjectKey, int]:
        """How many unfinished workloads each queue has."""
        found: dict[ObjectKey, int] = {}
        for one in self._list(teams.KUEUE, "workloads", "Workload"):
            if is_true(one, "Finished"):
                continue
            local = ObjectKey("LocalQueue", one["metadata"]["namespace"], one["spec"].get("queueName", ""))
            admitted = ((one.get("status") or {}).get("admission") or {}).get("clusterQueue")
            leads = (self.live.get(local) or {"spec": {}})["spec"].get("clusterQueue")
            home = ObjectKey("Namespace", "", one["metadata"]["namespace"])
            for key in (local, home, ObjectKey("ClusterQueue", "", admitted or leads or "")):
                found[key] = found.get(key, 0) + 1
        return found

    def _used(self, changes: Iterable[ObjectDifference]) -> dict[ObjectKey, list[str]]:
        """By flavor, check, cohort and ClusterQueue, what refers to it and stays."""
        after = dict(self.live)
        for one in changes:
            if one.action is Action.DELETE and not one.blocked:
                del after[one.key]
            elif one.desired is not None:
                after[one.key] = one.desired
        found: dict[ObjectKey, list[str]] = {}
        for key, manifest in after.items():
            spec = manifest.get("spec") or {}
            used = {ObjectKey("Cohort", "", spec.get("cohortName") or spec.get("parentName") or "")}
            if key.kind == "LocalQueue":
                used.add(ObjectKey("ClusterQueue", "", spec.get("clusterQueue", "")))
            checks = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
            used |= {ObjectKey("AdmissionCheck", "", check["name"]) for check in checks}
            for group in spec.get("resourceGroups") or ():
                used |= {ObjectKey("ResourceFlavor", "", flavor["name"]) for flavor in group["flavors"]}
            for of in used:
                found.setdefault(of, []).append(str(key))
        return found

    # Users and groups of a server of ours

    @cached_property
    def _bindings(self) -> dict[ObjectKey, dict[str, str]]:
        """By user and group: the role in each namespace."""
        found = {}
        for kind, plural in (("User", "users"), ("Group", "groups")):
            for one in self.rest.get(f"{paths.FAIRWAY}/{plural}")["items"]:
                held = {bound.get("namespace") or "": bound["role"] for bound in one["spec"].get("bindings") or ()}
                found[ObjectKey(kind, "", one["metadata"]["name"])] = held
        return found

    def _accounts(self, definition: QuotaFile) -> Iterator[ObjectDifference]:
        """Roles that users and groups lack, or have only because of the definition as it was applied before."""
        wanted = _roles(definition.quota)
        applied = self.definitions.get(definition.name)
        same = applied is None or applied["spec"] == definition.spec
        before = {} if applied is None or same else _roles(parse(applied["spec"])[0])
        for key in dict.fromkeys((*wanted, *before)):
            has, wants = self._bindings.get(key), wanted.get(key, {})
            gone = [
                namespace
                for namespace, role in before.get(key, {}).items()
                if namespace not in wants and (has or {}).get(namespace) == role
            ]
            fields = [
                FieldDifference(f"bindings[{namespace}]", (has or {}).get(namespace), role)
                for namespace, role in wants.items()
                if (has or {}).get(namespace) != role
            ]
            fields += [FieldDifference(f"bindings[{namespace}]", (has or {})[namespace], None) for namespace in gone]
            if not fields:
                continue
            blocked = ""
            if has is None and key.kind == "User":
                blocked = f"there is no such user: add it with `fairway users add {key.name}`, then apply again"
            yield ObjectDifference(key, Action.UPDATE if has is not None else Action.CREATE, tuple(fields), blocked)

    def put_accounts(self, spec: Manifest) -> None:
        """Name in the teams of a spec who has roles in their namespaces now."""
        if self.session.is_cluster:
            bound = [one for key, one in self.live.items() if key.kind == "RoleBinding"]
            names = {binding: role for role, (binding, _) in kueue.ROLES.items()}
            held = [
                (one["metadata"]["namespace"], names[one["metadata"]["name"]], subject["kind"], subject["name"])
                for one in bound
                if one["metadata"]["name"] in names
                for subject in one.get("subjects") or ()
            ]
        else:
            held = [
                (namespace, role, key.kind, key.name)
                for key, roles in self._bindings.items()
                for namespace, role in roles.items()
                if namespace
            ]
        words = {"editor": "submit", "admin": "admin"}
        for team in (team for one in spec["organizations"] for team in one.get("teams", [one])):
            namespaces = {team.get("namespace", team["name"])}
            for namespace, role, kind, name in held:
                if namespace in namespaces and role in words:
                    members = team.setdefault(words[role], {})
                    members.setdefault(f"{kind.lower()}s", []).append("*" if name == "system:authenticated" else name)

    def withdraw_roles(self, changes: Iterable[ObjectDifference]) -> None:
        """Before the definition is written: which roles are to go is known from the one that was applied last."""
        for one in changes:
            gone = tuple(field for field in one.fields if field.defined is None)
            if one.key.kind in ("User", "Group") and gone:
                self._write_roles(one._replace(fields=gone))

    def grant_roles(self, changes: Iterable[ObjectDifference]) -> None:
        """After their namespaces are there."""
        for one in changes:
            if one.key.kind in ("User", "Group") and not one.blocked and any(field.defined for field in one.fields):
                self._write_roles(one)

    def _write_roles(self, one: ObjectDifference) -> None:
        held = dict(self._bindings.get(one.key) or {})
        for field in one.fields:
            namespace = field.path.removeprefix("bindings[").removesuffix("]")
            if field.defined is None:
                held.pop(namespace, None)
            else:
                held[namespace] = field.defined
        spec = {"bindings": [{"role": role, **({"namespace": at} if at else {})} for at, role in held.items()]}
        if one.action is Action.CREATE:
            self.rest.create(f"{paths.FAIRWAY}/groups", {"metadata": {"name": one.key.name}, "spec": spec})
        else:
            path = paths.user(one.key.name) if one.key.kind == "User" else paths.group(one.key.name)
            self.rest.patch(path, {"spec": spec})

    # Writing

    def operations(
        self, definition: QuotaFile, targets: Sequence[str], changes: Sequence[ObjectDifference]
    ) -> list[Manifest]:
        """The writes that make all of it as defined, the definition itself first: what fails later shows as drift."""
        found = [self._definition(definition, targets)] if self.stores_definitions else []
        for one in changes:
            if one.blocked or one.key.kind not in _KINDS:
                continue
            api_version, _ = _KINDS[one.key.kind]
            named = {"apiVersion": api_version, "kind": one.key.kind, "name": one.key.name}
            if one.key.namespace:
                named["namespace"] = one.key.namespace
            if one.action is Action.DELETE and one.live is not None:
                found.append({"verb": "delete", **named, "uid": one.live["metadata"]["uid"]})
            elif one.live is None and one.desired is not None:
                found.append({"verb": "create", "manifest": _marked(one.desired)})
            elif one.live is not None:
                version = one.live["metadata"]["resourceVersion"]
                found.append({"verb": "patch", **named, "resourceVersion": version, "patch": patch_of(one)})
        if "yunikorn" in targets:
            found += self._yunikorn_write(definition, changes)
        return [one for one in found if one]

    def _definition(self, definition: QuotaFile, targets: Sequence[str]) -> Manifest:
        spec = {**definition.spec, "targets": list(targets)}
        present = self.definitions.get(definition.name)
        named = {"apiVersion": API, "kind": KIND}
        if present is None:
            return {"verb": "create", "manifest": {**named, "metadata": {"name": definition.name}, "spec": spec}}
        if present["spec"] == spec:
            return {}
        gone = {field: None for field in present["spec"] if field not in spec}
        version = present["metadata"]["resourceVersion"]
        # Lists are replaced as a whole by a merge patch, and maps are merged: only `yunikorn` is one.
        if isinstance(spec.get("yunikorn"), dict):
            old = present["spec"].get("yunikorn") or {}
            spec["yunikorn"] = {field: None for field in old if field not in spec["yunikorn"]} | spec["yunikorn"]
        patch = {"spec": gone | spec}
        return {"verb": "patch", **named, "name": definition.name, "resourceVersion": version, "patch": patch}

    def _yunikorn_write(self, definition: QuotaFile, changes: Sequence[ObjectDifference]) -> list[Manifest]:
        config_map = self.config_map(definition.quota)
        ours = config_map is not None and owner(config_map) == definition.name
        if ours and not any(one.key.kind in ("Queue", "Partition") for one in changes):
            return []
        labels, data = {QUOTA_LABEL: definition.name}, {yunikorn.CONFIG_KEY: config_text(definition.quota)}
        named = {"apiVersion": "v1", "kind": "ConfigMap"}
        namespace = yunikorn.namespace_of(definition.quota)
        if config_map is None:
            metadata = {"name": yunikorn.CONFIG_MAP, "namespace": namespace, "labels": labels}
            return [{"verb": "create", "manifest": {**named, "metadata": metadata, "data": data}}]
        version = config_map["metadata"]["resourceVersion"]
        where = {"name": yunikorn.CONFIG_MAP, "namespace": namespace, "resourceVersion": version}
        patch = {"metadata": {"labels": labels}, "data": data}
        if yunikorn.COMPRESSED_KEY in (config_map.get("binaryData") or {}):
            patch["binaryData"] = {yunikorn.COMPRESSED_KEY: None}  # YuniKorn would read it instead
        return [{"verb": "patch", **named, **where, "patch": patch}]

    def default_queue(self, definition: QuotaFile, changes: Sequence[ObjectDifference]) -> tuple[list[Manifest], str]:
        """On one machine, what keeps the default queue to what the teams leave; and a sentence about it."""
        if self.session.is_cluster or any(team.name == DEFAULT_QUEUE for _, team in definition.quota.teams):
            return [], ""
        after = {key.name: one for key, one in self.live.items() if key.kind == "ClusterQueue"}
        for one in changes:
            if one.key.kind == "ClusterQueue" and not one.blocked:
                after.pop(one.key.name, None)
                if one.desired is not None:
                    after[one.key.name] = one.desired
        return TeamState(self.session).default_queue_patches(list(after.values()))


def _marked(manifest: Manifest) -> Manifest:
    if manifest["kind"] != "Namespace":
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {teams.MADE: "fairway"}}}


def _roles(quota: QuotaSpec) -> dict[ObjectKey, dict[str, str]]:
    """By user and group: the role in each namespace, the stronger of two."""
    found: dict[ObjectKey, dict[str, str]] = {}
    for role in kueue.ROLES:
        for organization, team in quota.teams:
            members = kueue.accounts(organization, team)[role]
            for kind, names in (("User", members.users), ("Group", members.groups)):
                for one in names:
                    if one != "*":
                        held = found.setdefault(ObjectKey(kind, "", one), {})
                        held.update(dict.fromkeys(team.namespaces, role))
    return found


def shortfalls(
    quota: QuotaSpec, targets: Iterable[str], *, cluster: bool, checked: bool = True
) -> list[tuple[str, Shortfall]]:
    """By target, what it cannot express; `checked` says that something answers the check of limits and budgets."""
    found = [("kueue", one) for one in kueue.shortfalls(quota, checked=checked)] if "kueue" in targets else []
    if "kueue" in targets and not cluster:
        for organization, team in quota.teams:
            for members in kueue.accounts(organization, team).values():
                if "*" in members.users + members.groups:
                    rule = "a server has no group of everybody; the nearest is a group that all users are in"
                    found.append(("kueue", Shortfall("Everybody", f"{team.path}.submit", rule)))
    if "yunikorn" in targets:
        found += [("yunikorn", one) for one in yunikorn.shortfalls(quota)]
    return found


def config_of(config_map: Manifest | None) -> Any:
    """The queues in a ConfigMap of YuniKorn."""
    try:
        return yunikorn.config_of(config_map)
    except BadRequest as error:
        raise QuotaError(f"{yunikorn.CONFIG_KEY} of the ConfigMap {yunikorn.CONFIG_MAP}: {error}") from None


def config_text(quota: QuotaSpec) -> str:
    """`queues.yaml`."""
    return yaml_text(yunikorn.render(quota))


def yaml_text(value: Any) -> str:
    import yaml  # noqa: PLC0415 - not for every command

    return str(yaml.dump(value, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=False))
