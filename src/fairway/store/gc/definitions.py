"""Serves the kinds of CustomResourceDefinitions: adds them to the registry and removes them.

A definition of a user is given its conditions and its kind is served; one that is deleted takes its objects along and
goes last. Definitions of built-in kinds are published for lists and for `kubectl wait`.
"""

import logging
from dataclasses import replace
from typing import Any

from fairway.apis.components import crd, is_custom
from fairway.apis.extensions.definitions import CLEANUP, kind_of, release
from fairway.apis.extensions.records import DEFINITIONS, RESOURCE
from fairway.apis.machinery.conditions import is_true
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import MethodNotAllowed
from fairway.store.entries import DELETED, Change, Entry
from fairway.store.gc.chores import Chores
from fairway.store.selectors import Selection
from fairway.store.verbs import Objects, PatchType
from fairway.store.verbs.objects import when_durable
from fairway.store.verbs.options import WriteOptions, WriteTarget, Written
from fairway.store.verbs.reading import decoded

_log = logging.getLogger(__name__)
_OPTIONS = WriteOptions(tracked=False, trusted=True)

Condition = tuple[str, bool, str, str]
"""Type, status, reason and message."""


class DefinitionKeeper:
    """Serves the kinds of stored definitions, from the start on and as they come and go."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._store = objects.store
        self._registry = objects.registry
        self._kinds: dict[str, Kind] = {}
        """By name of the definition; also kinds of which no version is served."""

        self._specs: dict[str, tuple[str, int]] = {}
        """The uid and generation that a kind was made from."""

        self._terminating: set[str] = set()
        self._chores: Chores[str] = Chores(self._reconcile, self._store.settled, objects.slices)
        for entry in self._store.collection(RESOURCE).entries.values():
            if not self._registry.is_built_in(entry.name):
                manifest = decoded(entry)
                if is_true(manifest, "Established"):
                    self._serve(entry, manifest)
            self._chores.add(entry.name)
        self._store.observe(self._observe)

    async def publish(self) -> None:
        """Bring the stored definitions of built-in kinds in line with this version; to be called once at the start."""
        served = {kind.resource: crd(kind) for kind in self._registry.kinds if is_custom(kind) and not kind.yields}
        staged: list[Written] = []
        for key, entry in list(self._store.collection(RESOURCE).entries.items()):
            if not self._registry.is_built_in(entry.name):
                continue
            manifest = served.pop(entry.name, None)
            if manifest is None:
                staged.append(self._objects.stage_delete(DEFINITIONS, key))
            elif decoded(entry).get("spec") != manifest["spec"]:
                manifest["metadata"]["resourceVersion"] = str(entry.revision)
                staged.append(self._objects.stage_update(WriteTarget(DEFINITIONS, "v1", key, _OPTIONS, ""), manifest))
        staged += [
            self._objects.stage_create(DEFINITIONS, "v1", "", manifest, _OPTIONS) for manifest in served.values()
        ]
        for written in staged:
            await when_durable(written)
        for entry in list(self._store.collection(RESOURCE).entries.values()):
            if self._registry.is_built_in(entry.name):
                await self._establish(entry)

    async def run(self) -> None:
        """Reconcile definitions until cancelled."""
        await self._chores.run()

    def _observe(self, change: Change) -> None:
        entry = change.entry
        if entry.resource == RESOURCE:
            self._chores.add(entry.name)
        elif change.type == DELETED and entry.resource in self._terminating:
            self._chores.add(entry.resource)

    async def _reconcile(self, name: str) -> None:
        entry = self._store.get(RESOURCE, ("", name))
        if entry is None:
            await self._purge(name)
        elif entry.meta.deletion_timestamp and not self._registry.is_built_in(name):
            await self._terminate(entry)
        else:
            await self._establish(entry)

    async def _establish(self, entry: Entry) -> None:
        manifest = decoded(entry)
        conditions: list[Condition] = [("NamesAccepted", True, "NoConflicts", "no conflicts found")]
        conflict = None
        if self._registry.is_built_in(entry.name):
            conditions.append(("Established", True, "BuiltIn", "this kind is built into Fairway"))
        else:
            conflict = self._conflict(manifest)
            if conflict is None:
                self._serve(entry, manifest)
                text = "the initial names have been accepted"
                conditions.append(("Established", True, "InitialNamesAccepted", text))
            else:
                conditions = [("NamesAccepted", False, *conflict)]
                if not is_true(manifest, "Established"):
                    conditions.append(("Established", False, "NotAccepted", "not all names are accepted"))
        status = manifest.get("status") or {}
        accepted = {} if conflict else {"acceptedNames": manifest["spec"]["names"]}
        stored = next(one["name"] for one in manifest["spec"]["versions"] if one.get("storage"))
        versions = list(dict.fromkeys((*(status.get("storedVersions") or ()), stored)))
        await self._update_status(entry, manifest, conditions, {**accepted, "storedVersions": versions})

    def _conflict(self, manifest: Manifest) -> tuple[str, str] | None:
        """Why names of a definition cannot be used: another kind of the group has one of them."""
        spec = manifest["spec"]
        group, names = spec["group"], spec["names"]
        others = [
            kind
            for kind in self._registry.kinds
            if kind.group == group and kind.resource != manifest["metadata"]["name"]
        ]
        typed = {name for kind in others for name in (kind.plural, kind.singular_name, *kind.short_names)}
        kinds = {name for kind in others for name in (kind.kind, kind.list_kind or f"{kind.kind}List")}
        asked = [
            ("PluralConflict", names["plural"], typed),
            ("SingularConflict", names.get("singular") or "", typed),
            *(("ShortNamesConflict", name, typed) for name in names.get("shortNames") or ()),
            ("KindConflict", names["kind"], kinds),
            ("ListKindConflict", names.get("listKind") or "", kinds),
        ]
        found = next(((reason, name) for reason, name, taken in asked if name in taken), None)
        return None if found is None else (found[0], f'"{found[1]}" is already in use')

    def _serve(self, entry: Entry, manifest: Manifest) -> None:
        """Let the API serve the kind as its definition says now."""
        made_from = (entry.meta.uid, manifest["metadata"].get("generation") or 0)
        if self._specs.get(entry.name) == made_from:
            return
        try:
            kind = kind_of(manifest)
            self._registry.put(kind)
        except (ValueError, LookupError, TypeError) as error:  # stored by a version with other rules
            _log.error("the definition %s cannot be served: %s; replace it or delete it", entry.name, error)
            return
        self._forget(entry.name)
        self._kinds[entry.name], self._specs[entry.name] = kind, made_from

    def _forget(self, name: str) -> None:
        before = self._kinds.pop(name, None)
        self._specs.pop(name, None)
        if before is not None:
            release(before)

    async def _terminate(self, entry: Entry) -> None:
        """Delete the objects of a definition; when none is left, let it go."""
        name, kind = entry.name, self._kinds.get(entry.name)
        if CLEANUP not in entry.meta.finalizers:
            return  # another finalizer holds it
        if kind is not None:
            if name not in self._terminating:
                self._terminating.add(name)
                kind = self._kinds[name] = replace(kind, rules=replace(kind.rules, prepare_create=_refuse_create))
                self._registry.put(kind)
            progress = ("Terminating", True, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
            await self._update_status(entry, decoded(entry), [progress], {})
            if len(self._store.collection(name)):
                await self._delete_all(kind)
                return
            self._registry.remove(name)
            await self._store.settled()
            if len(self._store.collection(name)):  # a create was on its way
                self._registry.put(kind)
                self._chores.add(name)
                return
        current = self._store.get(RESOURCE, entry.key)
        if current is not None:
            kept = [one for one in current.meta.finalizers if one != CLEANUP]
            patch = {"metadata": {"resourceVersion": str(current.revision), "finalizers": kept or None}}
            await self._objects.patch(DEFINITIONS, "v1", entry.key, PatchType.MERGE, patch, _OPTIONS)

    async def _delete_all(self, kind: Kind) -> None:
        entries = self._store.collection(kind.resource).entries.values()
        if any(not entry.meta.deletion_timestamp for entry in entries):
            await self._objects.delete_collection(Selection(kind, ""))

    async def _purge(self, name: str) -> None:
        """A definition is gone: nothing of it stays, and names that it held are free."""
        kind = self._kinds.get(name)
        self._registry_remove(name)
        if kind is not None and len(self._store.collection(name)):
            await self._delete_all(kind)
        self._terminating.discard(name)
        self._forget(name)
        for entry in list(self._store.collection(RESOURCE).entries.values()):
            if entry.name.partition(".")[2] == name.partition(".")[2]:
                self._chores.add(entry.name)

    def _registry_remove(self, name: str) -> None:
        if name not in self._registry.built_in:
            self._registry.remove(name)

    async def _update_status(
        self, entry: Entry, manifest: Manifest, conditions: list[Condition], fields: dict[str, Any]
    ) -> None:
        before = manifest.get("status") or {}
        now = self._objects.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        known = {one["type"]: one for one in before.get("conditions") or ()}
        for kind, holds, reason, message in conditions:
            status = "True" if holds else "False"
            old = known.get(kind) or {}
            since = old.get("lastTransitionTime") if old.get("status") == status else now
            told = {"type": kind, "status": status, "reason": reason, "message": message}
            known[kind] = {**told, "lastTransitionTime": since or now}
        after = {**before, **fields, "conditions": list(known.values())}
        if after != before:
            patch = {"metadata": {"resourceVersion": str(entry.revision)}, "status": after}
            await self._objects.patch(DEFINITIONS, "v1", entry.key, PatchType.MERGE, patch, _OPTIONS, "status")


def _refuse_create(_manifest: Manifest) -> None:
    raise MethodNotAllowed("create not allowed while custom resource definition is terminating")
