"""Archives of files as Secrets, and what owns them."""

import base64

import pytest

from fairway.managedjobs import clusterfiles
from fairway.managedjobs.clusterfiles import CHUNK_BYTES, MOST_BYTES

DIGEST = "ab" * 32
JOB = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "metadata": {"name": "train", "uid": "u1"}}


@pytest.mark.parametrize(("size", "secrets"), [(0, 1), (1, 1), (CHUNK_BYTES, 1), (CHUNK_BYTES + 1, 2), (MOST_BYTES, 8)])
def test_an_archive_has_as_many_secrets_as_it_needs(size: int, secrets: int) -> None:
    names = clusterfiles.chunk_names(DIGEST, size)
    assert len(names) == len(set(names)) == secrets
    assert all(len(name) <= 63 for name in names)


def test_a_secret_holds_its_part_and_stays_below_the_limit_of_kubernetes() -> None:
    secret = clusterfiles.chunk(DIGEST, 3, b"x" * CHUNK_BYTES, [JOB])
    assert base64.b64decode(secret["data"]["part"]) == b"x" * CHUNK_BYTES
    assert CHUNK_BYTES < 1 << 20
    assert secret["immutable"] is True
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "u1"


def test_ten_thousand_jobs_need_ten_anchors_that_fit_into_etcd() -> None:
    jobs = [{**JOB, "metadata": {"name": f"train-{n:05}", "uid": f"{n:036}"}} for n in range(10_000)]
    anchors = [clusterfiles.anchor("x1", index, batch) for index, batch in enumerate(clusterfiles.batches(jobs))]
    assert [len(one["metadata"]["ownerReferences"]) for one in anchors] == [1000] * 10
    assert len({one["metadata"]["name"] for one in anchors}) == 10
    assert all(len(str(one)) < 500_000 for one in anchors)


def test_an_anchor_has_no_owner_before_its_jobs_exist() -> None:
    assert "ownerReferences" not in clusterfiles.anchor("x1")["metadata"]
