"""The web page over HTTP: its files, its sessions, and who may use them from where."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from fairway.errors import NotFound, TooManyRequests, Unauthorized
from fairway.server.access.roles import Binding, Role
from fairway.server.access.users import MOST_SESSIONS, Users
from fairway.server.page.files import all_files
from fairway.server.page.sessions import CODE_SECONDS, LoginCodes
from fairway.testing.clock import VirtualClock
from fuzz.world import Answer, World

HOST = "127.0.0.1:7437"
ORIGIN = f"https://{HOST}"
JOBS = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
PAGE = ((b"host", HOST.encode()), (b"origin", ORIGIN.encode()), (b"x-fairway-page", b"1"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as found:
        yield found


def login(world: World, **how: str) -> Answer:
    return world.ask("POST", "/page/session", how, token="", headers=PAGE)


def cookie_of(answer: Answer) -> bytes:
    return answer.header(b"set-cookie").partition(b";")[0]


def session(world: World, token: str = "") -> bytes:
    answer = login(world, token=token or world.token)
    assert answer.code == 201, answer
    return cookie_of(answer)


def ask(world: World, method: str, path: str, cookie: bytes, body: object = None, **changed: str) -> Answer:
    """A request as the page sends it, but for the headers that are given; an empty one is left out."""
    headers = {
        "host": HOST,
        "origin": ORIGIN,
        "x-fairway-page": "1",
        "sec-fetch-site": "same-origin",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    sent = [(name.encode(), value.encode()) for name, value in headers.items() if value]
    return world.ask(method, path, body, token="", headers=[*sent, (b"cookie", cookie)])


def test_a_browser_is_led_from_the_root_to_the_page_and_other_clients_are_not(world: World) -> None:
    html = world.ask("GET", "/", token="", headers=[(b"accept", b"text/html,*/*")])

    assert (html.code, html.header(b"location")) == (302, b"/page/")
    assert "/apis" in world.ask("GET", "/").json["paths"]
    assert world.ask("GET", "/page", token="").header(b"location") == b"/page/"


def test_files_are_served_to_everybody_with_a_strict_policy(world: World) -> None:
    answer = world.ask("GET", "/page/", token="")

    assert (answer.code, answer.header(b"content-type")) == (200, b"text/html; charset=utf-8")
    policy = answer.header(b"content-security-policy").decode()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert answer.header(b"x-content-type-options") == b"nosniff"
    again = world.ask("GET", "/page/", token="", headers=[(b"if-none-match", answer.header(b"etag"))])
    assert (again.code, again.body) == (304, b"")


@pytest.mark.parametrize("path", ["/page/nothing.js", "/page/../page.py", "/page/views/%2e%2e/%2e%2e/page.py"])
def test_what_is_no_file_of_the_page_is_not_found(world: World, path: str) -> None:
    assert world.ask("GET", path, token="").code == 404


def test_the_page_is_small_whole_and_asks_nobody_else() -> None:
    files = all_files()

    assert sum(len(file.body) for file in files.values()) < 300_000
    for name, file in files.items():
        text = file.body.decode()
        outside = [url for url in re.findall(r"https?://[^\s\"')]+", text) if url != "http://www.w3.org/2000/svg"]
        assert outside == [], name
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=\"|\bon[a-z]+=\"|innerHTML|\beval\(", text), name
        for imported in re.findall(r"(?:from|import) \"\.\.?/([\w/.]+)\"", text):
            assert any(known.endswith(imported) for known in files), (name, imported)
        if name.endswith(".js"):
            assert text.count("\n") < 400, name


def test_a_token_opens_a_session_whose_cookie_no_script_can_read(world: World) -> None:
    answer = login(world, token=world.token)

    cookie = answer.header(b"set-cookie").decode()
    assert re.fullmatch(r"fairway-7437=fw_\w{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure", cookie), (
        cookie
    )
    assert world.token not in cookie
    who = ask(world, "GET", "/page/session", cookie_of(answer)).json
    assert (who["user"], who["admin"], who["everywhere"], who["nodes"]) == ("admin", True, True, True)
    assert ask(world, "GET", JOBS, cookie_of(answer)).code == 200


def test_over_plain_http_the_cookie_is_not_for_https_alone(world: World) -> None:
    headers = [(b"host", HOST.encode()), (b"origin", f"http://{HOST}".encode()), (b"x-fairway-page", b"1")]
    answer = world.ask("POST", "/page/session", {"token": world.token}, token="", headers=headers)

    assert not answer.header(b"set-cookie").endswith(b"Secure")


def test_a_code_opens_one_session_as_the_user_who_got_it(world: World) -> None:
    token = world.add_user("ben", Binding(Role.EDITOR, "default"))
    code = world.ask("POST", "/page/codes", {}, token=token).json["code"]

    opened = login(world, code=code)
    again = login(world, code=code)

    who = ask(world, "GET", "/page/session", cookie_of(opened)).json
    assert (who["user"], who["admin"], who["everywhere"]) == ("ben", False, False)
    assert who["namespaces"] == [{"name": "default", "writes": True}]
    assert again.code == 401
    assert "fairway dashboard" in again.json["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"token": 3}', b'{"name": "ben"}', b"x" * 5000])
def test_a_login_that_cannot_be_read_is_refused(world: World, body: bytes) -> None:
    answer = world.ask("POST", "/page/session", body, token="", headers=PAGE)

    assert answer.code in {400, 413}
    assert not answer.header(b"set-cookie")


@pytest.mark.parametrize("token", ["", "fw_" + "0" * 43, "é"])
def test_a_wrong_token_opens_nothing(world: World, token: str) -> None:
    assert login(world, token=token).code == 401


def test_a_session_opens_no_other_session(world: World) -> None:
    cookie = session(world)
    inside = cookie.partition(b"=")[2].decode()

    assert ask(world, "POST", "/page/codes", cookie, {}).code == 403
    assert login(world, token=inside).code == 401


FROM_ELSEWHERE = {
    "another site": {"sec_fetch_site": "cross-site"},
    "another port of this host": {"sec_fetch_site": "same-site", "origin": "https://127.0.0.1:8000"},
    "a form, which sends no header of its own": {"x_fairway_page": ""},
    "an old browser at another port": {"sec_fetch_site": "", "origin": "https://127.0.0.1:8000"},
    "a page without an origin": {"sec_fetch_site": "", "origin": "null"},
    "nobody knows where": {"sec_fetch_site": "", "origin": ""},
    "an address that somebody typed": {"sec_fetch_site": "none", "origin": ""},
}


@pytest.mark.parametrize("headers", FROM_ELSEWHERE.values(), ids=FROM_ELSEWHERE)
@pytest.mark.parametrize("what", ["POST", "DELETE"])
def test_a_session_changes_nothing_for_a_request_from(world: World, headers: dict[str, str], what: str) -> None:
    cookie = session(world)
    path = "/api/v1/namespaces" if what == "POST" else "/page/session"

    answer = ask(world, what, path, cookie, {"metadata": {"name": "stolen"}}, **headers)

    assert answer.code == 403
    assert world.ask("GET", "/api/v1/namespaces/stolen").code == 404
    assert ask(world, "GET", "/page/session", cookie).json["user"] == "admin"


@pytest.mark.parametrize(
    ("site", "code"), [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)]
)
def test_a_session_reads_for_the_page_and_for_its_user_alone(world: World, site: str, code: int) -> None:
    assert ask(world, "GET", JOBS, session(world), sec_fetch_site=site).code == code


def test_nobody_is_logged_in_by_another_site(world: World) -> None:
    headers = [(b"host", HOST.encode()), (b"origin", b"https://example.com"), (b"x-fairway-page", b"1")]

    assert world.ask("POST", "/page/session", {"token": world.token}, token="", headers=headers).code == 403


def test_a_token_in_the_header_counts_and_the_cookie_beside_it_does_not(world: World) -> None:
    cookie = session(world)
    ben = world.add_user("ben", Binding(Role.VIEWER, "default"))
    headers = [(b"host", HOST.encode()), (b"cookie", cookie)]

    assert world.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "a"}}, token=ben, headers=headers).code == 403


@pytest.mark.parametrize(
    "cookie", [b"fairway-7437=", b"fairway-7437=fw_x", b"fairway-8000=" + b"a" * 46, b";;=", b"a=b"]
)
def test_a_cookie_that_is_none_of_ours_is_nobody(world: World, cookie: bytes) -> None:
    assert ask(world, "GET", JOBS, cookie).code == 403
    assert ask(world, "GET", "/page/session", cookie).json == {"user": ""}


def test_logging_out_ends_the_session_at_once(world: World) -> None:
    cookie = session(world)

    answer = ask(world, "DELETE", "/page/session", cookie)

    assert b"Max-Age=0" in answer.header(b"set-cookie")
    assert ask(world, "GET", JOBS, cookie).code == 401
    assert world.ask("GET", JOBS).code == 200, "the token that opened it still works"


def test_a_session_ends_with_the_token_that_opened_it(world: World) -> None:
    token = world.add_user("ben", Binding(Role.VIEWER))
    cookie = session(world, token)
    account = world.users.get("ben")
    assert account is not None

    world.users.revoke("ben", account.tokens[0].id)

    assert ask(world, "GET", "/page/session", cookie).json == {"user": ""}
    left = world.users.get("ben")
    assert left is not None
    assert left.tokens == ()


def test_a_session_is_listed_with_the_token_that_opened_it(world: World) -> None:
    session(world)

    tokens = world.ask("GET", "/apis/fairway.dev/v1alpha1/users/admin").json["status"]["tokens"]

    assert tokens[1]["sessionOf"] == tokens[0]["id"]


def test_a_session_survives_another_process_and_expires_with_its_parent(tmp_path: Path) -> None:
    clock = VirtualClock()
    users = Users(tmp_path, clock)
    users.add("ben", (Binding(Role.VIEWER),), expires=clock.now() + timedelta(hours=1))
    account = users.get("ben")
    assert account is not None

    token = users.add_session("ben", of=account.tokens[0].id, expires=clock.now() + timedelta(hours=12))

    assert Users(tmp_path, clock).find(token) is not None
    clock.advance(3601)
    assert Users(tmp_path, clock).find(token) is None


def test_a_user_has_a_bounded_number_of_sessions_and_the_oldest_go(tmp_path: Path) -> None:
    clock = VirtualClock()
    users = Users(tmp_path, clock)
    token = users.add("ben", (Binding(Role.VIEWER),))
    account = users.get("ben")
    assert account is not None
    parent = account.tokens[0].id

    opened = [
        users.add_session("ben", of=parent, expires=clock.now() + timedelta(hours=12)) for _ in range(MOST_SESSIONS + 5)
    ]

    assert [users.find(one) is not None for one in opened] == [False] * 5 + [True] * MOST_SESSIONS
    assert users.find(token) is not None
    with pytest.raises(NotFound):
        users.add_session("ben", of="unknown", expires=clock.now())


def test_codes_work_once_and_for_five_minutes_and_are_bounded() -> None:
    now = 0.0
    codes = LoginCodes(lambda: now)
    first, second = codes.issue("ana", "t1"), codes.issue("ben", "t2")

    assert codes.redeem(first).user == "ana"
    for used in (first, "", "guessed"):
        with pytest.raises(Unauthorized):
            codes.redeem(used)
    now = CODE_SECONDS
    with pytest.raises(Unauthorized):
        codes.redeem(second)
    for _ in range(1000):
        codes.issue("ana", "t1")
    with pytest.raises(TooManyRequests):
        codes.issue("ana", "t1")


def test_how_busy_the_machine_is_can_be_read_by_those_who_read_nodes(world: World) -> None:
    ben = world.add_user("ben", Binding(Role.EDITOR, "default"))

    busy = ask(world, "GET", "/page/machine", session(world)).json

    assert 0 < busy["memory"]["used"] < busy["memory"]["total"]
    assert ask(world, "GET", "/page/machine", session(world, ben)).code == 403
    assert world.ask("GET", "/page/machine", token="").code == 401
