"""Teams as objects: quotas that are given, taken back and counted."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.fairway import teams
from fairway.apis.fairway.teams import TeamShare
from fairway.apis.machinery.quantities import ZERO, Quantity

CPU, GPU = TeamShare("default-flavor", "cpu"), TeamShare("t4", "nvidia.com/gpu")
amounts = st.integers(0, 64).map(Quantity.parse)


def queue(name: str, cpus: Quantity, gpus: Quantity, *, borrow: bool = False) -> dict[str, Any]:
    empty = {
        "spec": {
            "resourceGroups": [
                {"coveredResources": [share.resource], "flavors": [{"name": share.flavor, "resources": [
                    {"name": share.resource, "nominalQuota": "0"}]}]}
                for share in (CPU, GPU)
            ]
        }
    }  # fmt: skip
    groups = teams.resource_groups(empty, {CPU: cpus, GPU: gpus}, borrow=borrow)
    return teams.manifests(name, name, groups)[1]


@given(st.lists(st.tuples(amounts, amounts), max_size=6), amounts, amounts)
def test_what_teams_have_and_leave_is_the_machine_unless_they_have_more(
    given_out: list[tuple[Quantity, Quantity]], cpus: Quantity, gpus: Quantity
) -> None:
    queues = [queue(f"team-{number}", *quota) for number, quota in enumerate(given_out)]
    left = teams.left_by(queues, {CPU: cpus, GPU: gpus})

    for share, capacity, index in ((CPU, cpus, 0), (GPU, gpus, 1)):
        total = sum((quota[index] for quota in given_out), ZERO)
        if total <= capacity:
            assert left[share] + total == capacity
        else:
            assert left[share] == ZERO


@given(amounts, amounts, amounts, st.sampled_from([True, False, None]))
def test_a_change_keeps_what_it_does_not_name(
    cpus: Quantity,
    gpus: Quantity,
    more: Quantity,
    borrow: bool | None,  # noqa: FBT001 - drawn
) -> None:
    before = queue("vision", cpus, gpus, borrow=True)
    after = {"spec": {**before["spec"], "resourceGroups": teams.resource_groups(before, {CPU: more}, borrow=borrow)}}

    assert teams.quotas_of(after) == {CPU: more, GPU: gpus}
    assert teams.borrows(after) == (borrow is not False)


def test_queues_that_are_no_teams_take_nothing_away() -> None:
    other = queue("other", Quantity.parse(5), ZERO)
    del other["metadata"]["labels"]

    assert teams.left_by([other], {CPU: Quantity.parse(8)}) == {CPU: Quantity.parse(8)}
