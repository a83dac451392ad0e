"""Cache of accepted specs by their bytes: jobs come in sweeps, and most workloads have the spec of another one.

A spec that was accepted before has been decoded, validated and defaulted, and the fields that it owns are known; only
the metadata is new. A request that this path would refuse takes the full path, which refuses it, and a spec is cached
only after the full path has accepted it without a warning. Only for kinds whose rules judge the spec by itself
(`Rules.validate_metadata`), only in the stored version, and only for users whose specs no admission plugin judges
(`UserInfo.can_impersonate`): plugins complete the metadata as on the full path, and get the spec as it is, not decoded.
"""

from collections import OrderedDict
from typing import Any, Final, NamedTuple

import msgspec

from fairway.apis.machinery.admission import AdmissionRequest
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.schemas.walk import inspect
from fairway.store.patching.claims import Claims
from fairway.store.patching.managedfields import fields_of_metadata, new_entry
from fairway.store.verbs.creating import check_namespace, exists_already, generate_name, identify
from fairway.store.verbs.intake import check_place
from fairway.store.verbs.options import WriteOptions, Written
from fairway.store.verbs.partscache import ObjectParts
from fairway.store.verbs.writing import WriteContext, put

_LARGEST: Final = 64 << 10
_MOST: Final = 512


class RequestParts(msgspec.Struct, forbid_unknown_fields=True):
    """A manifest as it was sent: metadata read, the spec as it was written."""

    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    metadata: dict[str, Any]
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw()


class _AcceptedSpec(NamedTuple):
    """A spec that was accepted."""

    spec: msgspec.Raw
    """As it is stored."""

    owned: msgspec.Raw
    """Its fields, as an owner's record lists them."""


_parts = msgspec.json.Decoder(RequestParts)
_encode = msgspec.json.Encoder().encode
_Name = tuple[str, str, bytes]


def request_parts(kind: Kind, version: str, data: bytes) -> RequestParts | None:
    """A JSON body taken apart; `None` if it has to take the full path."""
    if kind.rules.validate_metadata is None or version != kind.stored or len(data) > _LARGEST:
        return None
    try:
        parts = _parts.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if parts.kind != kind.kind or parts.api_version != kind.api_version(version):
        return None
    # Clients in Go send an empty status with every new object; the full path drops it.
    status = bytes(parts.status)
    dropped = status == b"{}" and kind.status and not kind.created_with_status
    return parts if not status or dropped else None


class SpecCache:
    """The specs that were accepted last, least recently used first."""

    def __init__(self) -> None:
        self._accepted: OrderedDict[_Name, _AcceptedSpec] = OrderedDict()

    def create(
        self, context: WriteContext, kind: Kind, namespace: str, parts: RequestParts, options: WriteOptions
    ) -> Written | None:
        """Store a new object with an accepted spec; `None`, with nothing done, if it has to take the full path."""
        name = (kind.resource, options.field_validation, bytes(parts.spec))
        accepted = self._accepted.get(name)
        if accepted is None or options.dry_run or not options.user.can_impersonate:
            return None
        self._accepted.move_to_end(name)
        manifest: Manifest = {"apiVersion": parts.api_version, "kind": parts.kind, "metadata": parts.metadata}
        if not _is_plain(kind, manifest, namespace):
            return None
        identify(context, manifest, kind)
        manifest["spec"] = accepted.spec
        context.admission.admit(AdmissionRequest(kind, manifest, None, options.user))
        if not manifest["metadata"].get("name"):
            generate_name(context, kind, manifest["metadata"])
        key = key_of(manifest)
        check_namespace(context, kind, key[0])
        if kind.rules.validate_metadata is None or kind.rules.validate_metadata(manifest):
            return None
        exists_already(context, kind, key)
        entries: list[dict[str, Any]] = []
        if options.tracked:
            owner = new_entry(options.manager, "Update", parts.api_version, context.stamp(), "")
            fields = fields_of_metadata(manifest["metadata"], kind.schemas[kind.stored]())
            entries.append({**owner, "fieldsV1": fields | {"f:spec": accepted.owned}})
            manifest["metadata"]["managedFields"] = entries
        written = put(context, kind, key, manifest, None)
        claims = Claims(entries, [None] * len(entries))
        context.recent.keep(written.entry, ObjectParts(manifest["metadata"], claims, accepted.spec, None))
        return written

    def remember(self, kind: Kind, spec: bytes, options: WriteOptions, written: Written) -> None:
        """Cache a spec that the full path has accepted."""
        if written.warnings or options.dry_run:
            return
        stored: Manifest = msgspec.json.decode(written.entry.data)
        owned = stored["metadata"]["managedFields"][0]["fieldsV1"].get("f:spec")
        if owned is None:
            return
        accepted = _AcceptedSpec(msgspec.Raw(_encode(stored["spec"])), msgspec.Raw(_encode(owned)))
        self._accepted[kind.resource, options.field_validation, spec] = accepted
        if len(self._accepted) > _MOST:
            self._accepted.popitem(last=False)


def _is_plain(kind: Kind, manifest: Manifest, namespace: str) -> bool:
    """Whether the metadata needs no further checks; the namespace is filled in."""
    check_place(kind, manifest, namespace, "")
    metadata = manifest["metadata"]
    if metadata.get("resourceVersion") or metadata.get("managedFields"):
        return False
    findings = inspect(kind.schemas[kind.stored]().properties["metadata"], metadata, "metadata")
    return not findings.errors and not findings.unknown
