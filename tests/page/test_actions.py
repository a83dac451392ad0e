"""Every action from the page, with its confirmation; and what other users may not do."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from page import scene
from page.conftest import Stage, Visit

Open = Callable[..., Visit]


def confirm(page: Page, button: str) -> None:
    page.locator("dialog").get_by_role("button", name=button).click()
    expect(page.locator("dialog")).to_have_count(0)


def test_a_job_is_held_released_given_a_priority_cancelled_and_retried(visit: Open, stage: Stage) -> None:
    name = scene.job(stage.server, "vision", "mine", "sleep 600", token=stage.tokens["ana"], cpus=4)
    page = visit("ana").go(f"jobs/vision/{name}", "mine")
    state = page.locator("header.top .pill")

    page.get_by_role("button", name="Hold").click()
    expect(page.locator("dialog")).to_contain_text("A release queues it again")
    page.locator("dialog").get_by_role("button", name="Back").click()
    expect(state).to_have_text("Waiting")
    page.get_by_role("button", name="Hold").click()
    confirm(page, "Hold job")
    expect(state).to_have_text("Held")
    page.get_by_role("button", name="Release").click()
    confirm(page, "Release job")
    expect(state).to_have_text("Waiting")
    page.get_by_role("button", name="Priority").click()
    page.locator("dialog input").fill("-7")
    confirm(page, "Priority job")
    expect(page.locator(".facts")).to_contain_text("-7")
    page.get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel job")
    expect(state).to_have_text("Cancelled")
    page.get_by_role("button", name="Retry").click()
    confirm(page, "Retry job")
    expect(state).to_have_text("Waiting")
    page.get_by_role("button", name="Cancel").click()
    confirm(page, "Cancel job")


def test_what_the_server_refuses_is_said_in_its_words(visit: Open, stage: Stage) -> None:
    name = scene.job(stage.server, "vision", "bold", "sleep 600", token=stage.tokens["ana"], cpus=4)
    seen = visit("ana")
    page = seen.go(f"jobs/vision/{name}", "bold")
    page.get_by_role("button", name="Priority").click()
    page.locator("dialog input").fill("50000")
    page.locator("dialog").get_by_role("button", name="Priority job").click()

    expect(page.get_by_role("alert").filter(has_text="50000")).to_be_visible()

    assert len(seen.complaints) == 1, seen.complaints  # the browser prints the refusal
    seen.complaints.clear()
    scene.patched(stage.server, "vision", name, cancel=True)


def test_many_jobs_are_chosen_and_cancelled_at_once(visit: Open, stage: Stage) -> None:
    for _ in range(5):
        scene.job(stage.server, "speech", "crowd", "sleep 600", token=stage.tokens["ben"], cpus=4)
    page = visit("ben").go("queue?text=crowd", "Queue")
    expect(page.locator(".vt .line")).to_have_count(5)

    page.get_by_label("Choose all").check()
    expect(page.get_by_text("5 chosen")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("dialog")).to_contain_text("Cancel 5 jobs?")
    confirm(page, "Cancel 5 jobs")

    expect(page.get_by_text("5 jobs being cancelled.")).to_be_visible()
    expect(page.get_by_text("No job fits this filter")).to_be_visible()
    page.get_by_label("State").select_option("ended")
    expect(page.locator(".vt .line", has_text="Cancelled")).to_have_count(5)


def test_a_user_of_one_team_sees_only_that_team(visit: Open) -> None:
    page = visit("ana").go("queue", "Queue")
    page.get_by_label("State").select_option("")

    expect(page.locator(".vt .line", has_text="train-resnet")).to_have_count(1)
    expect(page.locator(".vt .line", has_text="train-asr")).to_have_count(0)
    expect(page.get_by_role("link", name="Nodes")).to_have_count(0)
    expect(page.get_by_role("link", name="Users")).to_have_count(0)


def test_a_viewer_sees_everything_and_can_do_nothing(visit: Open, stage: Stage) -> None:
    jobs = stage.server.call("GET", f"{scene.JOBS}/namespaces/vision/managedjobs").body["items"]
    name = next(job["metadata"]["name"] for job in jobs if job["spec"]["name"] == "train-vit")
    page = visit("eva").go(f"jobs/vision/{name}", "train-vit")

    expect(page.locator(".logbox")).to_contain_text("step 1 of")
    expect(page.locator("header.top button")).to_have_count(0)
    page.goto(page.url.partition("#")[0] + "#/queue")
    expect(page.locator(".vt .line", has_text="train-asr")).to_have_count(1)
    page.get_by_label("Choose all").check()
    expect(page.get_by_role("button", name="Cancel")).to_be_disabled()


def test_an_admin_adds_a_user_who_logs_in_and_is_removed(visit: Open, stage: Stage) -> None:
    page = visit().go("users", "Users")
    page.get_by_role("button", name="Add a user").click()
    page.locator("dialog [name=name]").fill("kim")
    page.locator("dialog [name=role]").select_option("viewer")
    page.locator("dialog [name=namespace]").fill("speech")
    page.locator("dialog").get_by_role("button", name="Add").click()
    token = page.locator("#new-token").inner_text()
    assert re.fullmatch(r"fw_\w{43}", token)
    page.get_by_role("button", name="Done").click()

    stage.tokens["kim"] = token
    theirs = visit("kim").go("queue", "Queue")
    expect(theirs.locator(".vt .line", has_text="train-asr")).to_have_count(1)

    page.get_by_role("button", name="New token for kim").click()
    page.locator("dialog").get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Done").click()
    page.reload()
    kim = page.get_by_role("row").filter(has_text="viewer in speech")
    expect(kim).to_contain_text("session")
    kim.get_by_role("button", name=re.compile("Revoke token")).last.click()
    confirm(page, "Revoke")
    page.get_by_role("button", name="Add a role to kim").click()
    confirm(page, "Add the role")
    expect(page.get_by_role("row").filter(has_text="viewer everywhere").filter(has_text="kim")).to_be_visible()
    theirs.context.close()
    page.get_by_role("button", name="Remove kim").click()
    confirm(page, "Remove")
    expect(page.get_by_text("kim is removed.")).to_be_visible()
