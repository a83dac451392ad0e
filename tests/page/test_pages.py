"""Every page shows what the server knows, without a serious finding of axe, in light and dark, wide and narrow."""

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from fairway.testing.servers import Server
from page import scene
from page.conftest import Stage, Visit

PAGES = {
    "overview": "Overview",
    "queue": "Queue",
    "quota": "Quota",
    "nodes": "Nodes",
    "users": "Users",
    "history": "History",
    "whatif": "What if",
}
Open = Callable[..., Visit]


def named(server: Server, namespace: str, title: str) -> str:
    """The name of the job with this title."""
    jobs = server.call("GET", f"{scene.JOBS}/namespaces/{namespace}/managedjobs").body["items"]
    return str(next(job["metadata"]["name"] for job in jobs if job["spec"]["name"] == title))


def check_accessible(page: Page) -> None:
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    serious = [one for one in found if one["impact"] in {"serious", "critical"}]
    assert not serious, [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in serious]


def check_fits(page: Page) -> None:
    """Nothing is wider than the screen, and nothing but a manifest must be scrolled sideways to be read."""
    wide = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not wide, f"{page.url} is wider than the screen"
    cut = page.locator(".nav, .wide, pre:not(.yaml), .seg").evaluate_all(
        "all => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.innerText.slice(0, 80))"
    )
    assert not cut, f"{page.url} cuts off {cut}"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_no_page_has_a_serious_finding_of_axe(visit: Open, stage: Stage, theme: str, width: int) -> None:
    seen = visit(viewport={"width": width, "height": 844}, color_scheme=theme, bypass_csp=True)
    job = f"jobs/vision/{named(stage.server, 'vision', 'sweep-lr')}"

    for path, heading in {**PAGES, job: "sweep-lr"}.items():
        page = seen.go(path, heading)
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_text("Loading …")).to_have_count(0)
        check_accessible(page)
        check_fits(page)


def test_the_overview_shows_quota_with_what_is_borrowed_and_lent(visit: Open) -> None:
    page = visit().go("overview", "Overview")

    expect(page.get_by_role("img", name="GPU in default-flavor: 3 of 2 used, 1 borrowed")).to_be_visible()
    expect(page.get_by_role("img", name="GPU in default-flavor: 1 of 2 used, 1 lent")).to_be_visible()
    expect(page.locator(".stat", has_text="Running").locator(".number")).to_have_text("3")
    page.locator(".stat", has_text="Waiting").click()
    expect(page.get_by_role("heading", name="Queue", level=1)).to_be_visible()
    expect(page.get_by_text("4 jobs, 4 waiting")).to_be_visible()


def test_the_queue_is_in_the_order_of_admission_with_reasons(visit: Open) -> None:
    page = visit().go("queue?queue=cq%3Avision", "Queue")

    expect(page.get_by_text("5 jobs, 3 waiting")).to_be_visible()
    lines = page.locator(".vt .line")
    expect(lines.nth(2)).to_contain_text("sweep-lr")
    texts = lines.all_inner_texts()
    assert [text.split()[0] for text in texts[2:]] == ["1", "2", "3"], texts
    assert "Recovering" in texts[2]
    assert re.search(r"needs 2 CPUs, \d free", texts[2])


def test_the_queue_is_filtered_by_user_state_and_text_and_the_address_remembers(visit: Open) -> None:
    page = visit().go("queue", "Queue")
    page.get_by_label("User").select_option("ben")
    page.get_by_label("State").select_option("waiting")
    expect(page.locator(".vt .line")).to_have_count(1)
    page.get_by_label("State").select_option("")
    page.get_by_label("Search jobs").fill("token")
    expect(page.locator(".vt .line")).to_have_count(1)

    page.reload()

    expect(page.locator(".vt .line")).to_have_count(1)
    expect(page.get_by_label("Search jobs")).to_have_value("token")
    page.get_by_label("Search jobs").fill("nothing like this")
    expect(page.get_by_text("No job fits this filter")).to_be_visible()


def test_the_queue_is_used_with_the_keyboard_alone(visit: Open) -> None:
    page = visit().go("queue", "Queue")
    expect(page.locator(".vt .line").first).to_be_visible()
    page.locator("body").press("/")
    expect(page.get_by_label("Search jobs")).to_be_focused()
    page.locator(".vt .line").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("x")
    expect(page.get_by_text("1 chosen")).to_be_visible()
    page.keyboard.press("x")

    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", name="Where it stands")).to_be_visible()


def test_a_job_that_waits_shows_who_holds_what_is_missing_and_what_would_help(visit: Open, stage: Stage) -> None:
    page = visit().go(f"jobs/vision/{named(stage.server, 'vision', 'sweep-lr')}", "sweep-lr")

    expect(page.get_by_role("heading", name="What is missing, and who holds it")).to_be_visible()
    expect(page.get_by_role("link", name="job train-resnet-", exact=False).first).to_be_visible()
    expect(page.get_by_role("heading", name="What would admit it")).to_be_visible()
    expect(page.locator(".steps > li")).to_have_count(1)
    expect(page.locator(".steps")).to_contain_text("Preempted")
    expect(page.locator(".logbox")).to_contain_text("step 1 of 400")


def test_a_log_is_followed_searched_and_downloaded(visit: Open, stage: Stage) -> None:
    name = named(stage.server, "vision", "train-resnet")
    page = visit().go(f"jobs/vision/{name}", "train-resnet")
    expect(page.locator(".logbox")).to_contain_text("step 400 of 400, loss 0.500")

    page.get_by_label("Search the log").fill("step 12 of")
    expect(page.locator(".logbox .l")).to_have_count(1)
    expect(page.locator(".logbox mark")).to_have_text("step 12 of")
    page.get_by_label("Search the log").fill("")
    expect(page.get_by_text("400 lines")).to_be_visible()
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download").click()
    assert "step 12 of 400" in saved.value.path().read_text()


def test_a_job_has_events_and_a_manifest(visit: Open, stage: Stage) -> None:
    page = visit().go(f"jobs/vision/{named(stage.server, 'vision', 'check-data')}", "check-data")
    expect(page.get_by_text("It failed")).to_be_visible()
    expect(page.locator(".steps")).to_contain_text("exit code 3")

    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_role("cell", name="QuotaReserved").first).to_be_visible()
    page.get_by_role("tab", name="Manifest").click()

    expect(page.locator(".yaml")).to_contain_text("kind: ManagedJob")


def test_other_kinds_of_jobs_are_in_the_queue_too(visit: Open, stage: Stage) -> None:
    pod = {
        "containers": [
            {"name": "main", "image": "local", "command": ["sleep", "600"], "resources": {"requests": {"cpu": "8"}}}
        ],
        "restartPolicy": "Never",
    }
    labels = {"kueue.x-k8s.io/queue-name": "default"}
    manifest = {"metadata": {"name": "plain", "labels": labels}, "spec": {"suspend": True, "template": {"spec": pod}}}
    scene.created(stage.server.call("POST", "/apis/batch/v1/namespaces/speech/jobs", manifest))
    page = visit().go("queue?text=plain", "Queue")

    page.get_by_role("link", name="plain", exact=True).click()

    expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
    expect(page.get_by_text("8 CPU", exact=True)).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel job").click()
    expect(page.get_by_text("There is no workload")).to_be_visible()


def test_the_quota_tree_shows_who_lends_to_whom(visit: Open) -> None:
    page = visit().go("quota", "Quota")

    expect(page.get_by_role("heading", name="Cohort teams")).to_be_visible()
    lending = page.get_by_role("row", name="default-flavor GPU speech: 1 vision: 1")
    expect(lending).to_be_visible()


def test_nodes_show_what_is_held_and_by_which_job(visit: Open) -> None:
    page = visit().go("nodes", "Nodes")

    expect(page.get_by_text("4 of 4 held")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("train-resnet"))).to_be_visible()
    expect(page.get_by_text("Cores busy")).to_be_visible()


def test_the_history_shows_use_waits_and_outcomes_and_saves_csv(visit: Open) -> None:
    page = visit().go("history?range=day", "History")

    expect(page.get_by_role("row").filter(has_text="ana").first).to_be_visible()
    expect(page.get_by_label("Attempts", exact=True)).to_contain_text("Preempted")
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0].startswith("user,cpu hours")
    assert {line.partition(",")[0] for line in lines[1:]} >= {"ana", "ben"}
    page.get_by_label("By", exact=True).select_option("clusterQueue")
    expect(page.get_by_label("Use in all")).to_contain_text("vision")
    page.get_by_role("button", name="12 months").click()
    expect(page.get_by_label("Use in all")).to_contain_text("speech")


def test_what_if_plays_more_quota_forward_and_compares(visit: Open) -> None:
    page = visit().go("whatif", "What if")
    page.get_by_label("ClusterQueue").select_option("vision")
    page.get_by_label("Quota, or +4, -2").fill("+8")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("Another quota: clusterQueue vision, resource cpu, nominal +8")).to_be_visible()

    page.get_by_role("button", name="Play it").click()

    expect(page.get_by_label("By queue")).to_contain_text("vision", timeout=60_000)
    expect(page.get_by_label("Jobs", exact=True)).to_contain_text("sooner")
    expect(page.get_by_role("img", name="Waiting jobs over time, with the changes and as it is")).to_be_visible()


def add_change(page: Page, kind: str, **fields: str) -> None:
    """Fill in the form of a kind of change. Names of fields are their labels."""
    page.get_by_role("button", name=kind).click()
    for label, value in fields.items():
        found = page.locator("form").get_by_label(label.replace("_", " ")).first
        if found.evaluate("element => element.nodeName") == "SELECT":
            found.select_option(value)
        else:
            found.fill(value)
    page.get_by_role("button", name="Add", exact=True).click()


def play_it(page: Page, job: str, change: str) -> None:
    """Play the changes; this is what they do to a job."""
    page.get_by_role("button", name="Play it").click()
    expect(page.get_by_label("Jobs", exact=True).get_by_role("row", name=job)).to_contain_text(change, timeout=60_000)


def test_what_if_plays_nodes_priorities_jobs_and_policies(visit: Open, stage: Stage) -> None:
    eval_coco = named(stage.server, "vision", "eval-coco")
    seen = visit()
    page = seen.go("whatif", "What if")

    add_change(page, "Another node", CPUs="8", Memory="32Gi", GPUs="2", Quota_for="vision")
    play_it(page, "sweep-lr", "sooner")
    page.get_by_role("button", name="Remove Another node").click()
    add_change(page, "New jobs", Name="fresh", Namespace="vision", CPUs="1")
    play_it(page, "fresh", "new")
    page.get_by_role("button", name="Remove New jobs").click()
    add_change(page, "Another priority", Namespace="vision", **{"Job_(object_name)": eval_coco}, Priority="500")
    play_it(page, "eval-coco", "sooner")
    expect(page.get_by_label("Jobs", exact=True)).to_contain_text("preempted once")
    add_change(page, "Another policy", ClusterQueue="vision", Preempts_within_the_queue="Never")
    page.get_by_role("button", name="Play it").click()
    expect(page.get_by_label("Jobs", exact=True)).not_to_contain_text("preempted", timeout=60_000)
    add_change(page, "Without a job", Namespace="vision", **{"Job_(object_name)": eval_coco})
    play_it(page, "eval-coco", "gone")
    add_change(page, "Another quota", ClusterQueue="vision", Resource="no-such-thing")
    page.get_by_role("button", name="Play it").click()
    expect(page.get_by_text("the ClusterQueue has quota of")).to_be_visible()
    assert len(seen.complaints) == 1, seen.complaints  # the browser prints the refusal
    seen.complaints.clear()
