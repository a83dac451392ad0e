"""What comes of a patch of a status, so that the short way and the long way can be held together."""

import json
from dataclasses import replace
from typing import Any

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import FairwayError
from fairway.store.entries import Entry
from fairway.store.verbs import PatchType, WriteOptions
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi


def on_the_long_way(kind: Kind) -> Kind:
    """The kind without what the short way needs."""
    return replace(kind, rules=replace(kind.rules, validate_status=None, status_is_apart=False))


def comparable(entry: Entry) -> Manifest:
    """An object without what tells two alike apart."""
    manifest = decoded(entry)
    del manifest["metadata"]["resourceVersion"]
    return dict(json.loads(_anonymous(json.dumps(manifest), entry)))


def _anonymous(text: str, entry: Entry) -> str:
    return text.replace(f'"{entry.name}"', '"it"').replace(entry.meta.uid, "its uid")


async def outcome(api: LocalApi, kind: Kind, name: str, body: Any, how: WriteOptions) -> Any:
    """What a patch of the status answers, and what is there afterwards."""
    key = ("default" if kind.namespaced else "", name)
    before = api.objects.get(kind, *key)
    answer: Any
    try:
        sent = json.loads(json.dumps(body))  # no part of it stands in two places
        written = await api.objects.patch(kind, kind.stored, key, PatchType.MERGE, sent, how, "status")
        answer = written.warnings, comparable(written.entry), written.entry.meta.finalizers
    except FairwayError as error:
        answer = type(error), _anonymous(str(error), before)
    after = api.objects.get(kind, *key)
    if after.shared is not None:
        stored = decoded(after)
        stored["metadata"].pop("managedFields", None)
        assert after.shared == stored
    assert after.meta.uid == before.meta.uid
    return answer, after is before, comparable(after)
