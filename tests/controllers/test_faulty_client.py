"""The scenarios of the controllers on a client that loses watches, delays events, and fails writes at random.

    FAIRWAY_FAULT_SEEDS=20 pytest tests/controllers/test_faulty_client.py

Left out are scenarios about the exact moment or number of writes, which faults change, and about Events: none is
recorded for a write whose response was lost.
"""

import asyncio
import inspect
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from controllers.admission import test_eviction
from controllers.admission.plays import play
from controllers.batchjob import test_controller, test_counting, test_ending, test_suspending
from controllers.jobframework import test_following, test_running, test_stopping
from controllers.managedjob import test_lives, test_mishaps
from controllers.placement import test_waiting_for_node
from controllers.pods import test_pod_groups, test_single_pods
from controllers.provisioning import test_guide
from controllers.queuestatus import test_finalizers
from controllers.scheduler import test_scheduler
from controllers.workload import test_with_queueing
from fairway.testing.faults import faulty

SEEDS = int(os.environ.get("FAIRWAY_FAULT_SEEDS", "1"))
FOUND = {
    "test_a_pipeline_runs_its_tasks_one_after_the_other": (7, 9),
    "test_a_workload_that_was_taken_from_its_job_is_said": (7,),
    "test_extended_resources_are_given_out_one_by_one": (4, 9),
}
"""Seeds that found a bug; run every time."""

MODULES = (
    test_controller,
    test_counting,
    test_ending,
    test_eviction,
    test_finalizers,
    test_following,
    test_guide,
    test_lives,
    test_mishaps,
    test_pod_groups,
    test_running,
    test_scheduler,
    test_single_pods,
    test_stopping,
    test_suspending,
    test_waiting_for_node,
    test_with_queueing,
)
LEFT_OUT = {
    "test_a_preempted_workload_keeps_its_quota_until_its_job_has_stopped": "the condition of one moment",
    "test_a_pending_workload_that_is_set_inactive_says_so_without_an_event": "no time may pass between two writes",
    "test_pods_that_are_not_ready_in_time_cost_a_wait_that_is_remembered": "a time to the second",
    "test_a_job_that_waited_long_enough_takes_the_next_candidate_and_keeps_its_place": "a time to the second",
    "test_what_somebody_else_admits_counts_as_well": "who is faster",
    "test_a_chain_of_users_goes_one_after_the_other": "its manifests can be created once",
    "test_a_binding_that_fails_is_taken_back_and_tried_again": "brings its own fault",
    "test_what_a_waiting_pod_is_told_is_written_once": "the number of writes",
    "test_pods_that_get_a_node_at_once_cost_no_write": "the number of writes",
    "test_the_higher_priority_gets_the_room_that_comes_free": "a binding that fails lets the next pod go first",
    "test_a_workload_whose_pods_have_no_node_for_a_moment_says_nothing": "the condition of one moment",
    "test_a_short_job_costs_one_pod_and_one_status": "the number of writes",
    "test_pods_are_made_together": "the number of writes",
    "test_an_admitted_group_starts_as_a_whole": "the number of writes",
    "test_a_job_that_ends_at_once_costs_three_writes": "the number of writes",
    "test_starts_in_one_write_when_it_is_admitted": "the number of writes",
    "test_costs_four_writes_from_the_controller_when_it_ends_at_once": "the number of writes",
    "test_a_failing_job_is_tried_again_later_and_later_until_it_has_failed": "a time to the second",
    "test_a_finished_job_goes_with_its_pods_when_its_time_is_over": "a time to the second",
    "test_pods_that_are_over_give_their_quota_back": "its kubelet writes a time once",
    "test_pods_that_fall_ill_and_recover": "a time to the second",
    "test_a_job_that_is_let_in_at_once_never_says_that_it_was_suspended": "no time may pass between two writes",
    "test_changed_while_it_runs_is_stopped": "if the response is lost, its workload is finished instead of deleted",
    "test_a_success_deleted_by_hand_is_not_run_again": "missed if the watch is cut in that moment, see controllers.md",
    "test_all_succeeded_finishes_the_group_and_lets_its_pods_go": "Events",
    "test_a_job_that_was_let_loose_before_the_controller_knew_it": "Events",
    "test_a_suspended_job_stands_still_at_once_and_goes_on_when_resumed": "Events",
    "test_changed_while_it_waits_changes_its_workload": "Events",
    "test_passes_gates_and_provisioning_parameters_on": "Events",
    "test_the_events_of_a_preemption_name_both_sides": "Events",
    "test_the_events_of_a_job_say_what_became_of_it": "Events",
    "test_the_events_of_deactivations_say_their_cause": "Events",
    "test_the_events_of_a_run_that_takes_too_long_say_so": "Events",
}


def scenarios() -> Iterator[Any]:
    for module in MODULES:
        for name, function in vars(module).items():
            if name.startswith("test_") and name not in LEFT_OUT and _takes_nothing(function):
                for seed in sorted({*range(SEEDS), *FOUND.get(name, ())}):
                    yield pytest.param(module, function, seed, id=f"{_short(module)}-{name}-{seed}")


def _takes_nothing(function: Any) -> bool:
    return inspect.isfunction(function) and not inspect.signature(function).parameters


def _short(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2].removeprefix("test_")


@pytest.mark.parametrize(("module", "scenario", "seed"), list(scenarios()))
def test_scenarios_on_a_faulty_client(module: ModuleType, scenario: Callable[[], None], seed: int) -> None:
    if module is test_with_queueing:
        test_with_queueing._ELSEWHERE[:] = [bool(seed % 2)]
    with faulty(seed):
        scenario()


def test_an_eviction_whose_answer_is_lost_is_counted_once() -> None:
    """Found here: the engine saw its own eviction as somebody else's, wrote it again and counted it twice."""

    async def scenario() -> None:
        async with play(*test_eviction.QUEUES) as on_stage:
            await test_eviction._preempted(on_stage)
            assert on_stage.status("low")["schedulingStats"]["evictions"][0]["count"] == 1

    with faulty(1):
        asyncio.run(scenario())
