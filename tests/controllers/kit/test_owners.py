"""The owner index answers what a scan of all objects would."""

from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.owners import OwnerIndex, controller_uid

OWNERS = st.one_of(st.none(), st.sampled_from(["a", "b"]))


def owned(uid: str, owner: str | None, revision: int) -> Manifest:
    references: list[Manifest] = [{"apiVersion": "batch/v1", "kind": "Job", "name": "bystander", "uid": "bystander"}]
    if owner is not None:
        references.append({"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True})
    return {"metadata": {"uid": uid, "name": uid, "ownerReferences": references, "resourceVersion": str(revision)}}


@given(st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), st.one_of(st.just("gone"), OWNERS)), max_size=30))
def test_it_finds_what_a_scan_finds(steps: list[tuple[str, str | None]]) -> None:
    index, stored = OwnerIndex(controller_uid), dict[str, Manifest]()
    for revision, (uid, owner) in enumerate(steps):
        old = stored.pop(uid, None)
        new = None if owner == "gone" else owned(uid, owner, revision)
        if new is not None:
            stored[uid] = new
        if old is not None or new is not None:
            index.note(old, new)
        for one in ("a", "b", "bystander"):
            scanned = [found for found in stored.values() if controller_uid(found) == one]
            key = lambda found: str(found["metadata"]["uid"])  # noqa: E731
            assert sorted(index.of(one), key=key) == sorted(scanned, key=key)
            assert (one in index) == bool(scanned)
