"""How sessions of the web page end before their time."""

from __future__ import annotations

from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from connect.errors import UnreachableError
from rest.security import sessions
from rest.security.identity import Identity
from rest.security.passwords import hash_token
from rest.security.sessions import SessionCookies
from tests.unit.rest.fake_herder import FakeDocuments, FakeHerder
from tests.unit.rest.security.conftest import PASSWORD_HASH, Answer, Caller, Serve, basic

PAGE = {"X-Requested-With": "sluice", "Sec-Fetch-Site": "same-origin"}
OTHER_HASH = PASSWORD_HASH.replace("c2FsdHNhbHQ", "c2FsdHNhbHU")


def cookie_of(answer: Answer) -> dict[str, str]:
    found: SimpleCookie = SimpleCookie(answer.headers["Set-Cookie"])
    return {"Cookie": "; ".join(f"{name}={one.value}" for name, one in found.items())}


def status(call: Caller, cookie: dict[str, str]) -> int:
    return call("GET", "/connectors", headers=cookie).status


@pytest.fixture
def call(serve: Serve, fake: FakeHerder, tmp_path: Path) -> Caller:
    (tmp_path / "users").write_text(f"alice:{PASSWORD_HASH}\nbob:{PASSWORD_HASH}\n")
    (tmp_path / "tokens").write_text(f"carol:{hash_token('one')}\ncarol:{hash_token('two')}\n")
    caller = serve(
        {
            "rest.authentication": "basic,bearer",
            "rest.authentication.users.file": str(tmp_path / "users"),
            "rest.authentication.tokens.file": str(tmp_path / "tokens"),
        }
    )
    caller.folder = tmp_path
    return caller


def test_signing_out_ends_the_session_of_a_copied_cookie_and_no_other(call: Caller) -> None:
    first, second = (cookie_of(call("POST", "/sluice/auth/session", token="one")) for _ in range(2))
    assert (status(call, first), status(call, second)) == (200, 200)
    assert call("DELETE", "/sluice/auth/session", headers={**first, **PAGE}).status == 204
    assert (status(call, first), status(call, second)) == (401, 200)
    assert call("DELETE", "/sluice/auth/session", headers={**PAGE, "Cookie": "sluice_session=x"}).status == 204


def two_workers(serve: Serve, folder: Path, first: dict[str, str], second: dict[str, str]) -> tuple[Caller, Caller]:
    (folder / "tokens").write_text(f"carol:{hash_token('one')}\n")
    common = {"rest.authentication": "bearer", "rest.authentication.tokens.file": str(folder / "tokens")}
    return serve({**common, **first}), serve({**common, **second})


SECRET = {"rest.authentication.session.secret": "0123456789abcdef0123456789abcdef"}


def test_signing_out_ends_the_session_on_all_workers_that_share_the_secret(
    serve: Serve, fake: FakeHerder, tmp_path: Path
) -> None:
    call, other = two_workers(serve, tmp_path, SECRET, SECRET)
    ended, kept = (cookie_of(call("POST", "/sluice/auth/session", token="one")) for _ in range(2))
    assert (status(other, ended), status(other, kept)) == (200, 200)
    assert call("DELETE", "/sluice/auth/session", headers={**ended, **PAGE}).status == 204
    assert (status(call, ended), status(other, ended)) == (401, 401)
    assert (status(call, kept), status(other, kept)) == (200, 200)
    ((name, end),) = fake.ended_sessions.stored.items()
    assert "carol" not in f"{name} {end}", "the topic does not tell who has signed out"
    later, _ = two_workers(serve, tmp_path, SECRET, SECRET)
    assert (status(later, ended), status(later, kept)) == (401, 200)


def test_worker_that_does_not_know_yet_which_sessions_have_ended_accepts_none(
    serve: Serve, fake: FakeHerder, tmp_path: Path
) -> None:
    call, _ = two_workers(serve, tmp_path, SECRET, SECRET)
    cookie = cookie_of(call("POST", "/sluice/auth/session", token="one"))
    fake.ended_sessions.is_read = False
    answer = call("GET", "/connectors", headers=cookie)
    assert (answer.status, "still starting" in str(answer.body)) == (503, True)
    assert call("GET", "/connectors", token="one").status == 200
    fake.ended_sessions.is_read = True
    assert status(call, cookie) == 200


def test_session_ends_on_the_worker_that_is_asked_also_if_others_cannot_be_told(
    serve: Serve, fake: FakeHerder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    call, other = two_workers(serve, tmp_path, SECRET, SECRET)
    cookie = cookie_of(call("POST", "/sluice/auth/session", token="one"))
    fake.ended_sessions.failure = UnreachableError("no broker")
    assert call("DELETE", "/sluice/auth/session", headers={**cookie, **PAGE}).status == 204
    assert (status(call, cookie), status(other, cookie)) == (401, 200)
    assert "may still be valid on other workers" in caplog.text


def test_workers_without_a_common_secret_store_no_ends_of_sessions(serve: Serve, fake: FakeHerder, tmp_path: Path) -> None:
    call, _ = two_workers(serve, tmp_path, {}, {})
    cookie = cookie_of(call("POST", "/sluice/auth/session", token="one"))
    fake.ended_sessions.is_read = False
    assert call("DELETE", "/sluice/auth/session", headers={**cookie, **PAGE}).status == 204
    assert status(call, cookie) == 401
    assert fake.ended_sessions.stored == {}


def test_changed_password_or_removed_user_ends_the_sessions(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rest.security.credential_files.is_password", lambda password, hashed: password == "p")
    alice, bob = (cookie_of(call("POST", "/sluice/auth/session", headers=basic(name, "p"))) for name in ("alice", "bob"))
    users = (call.folder or Path()) / "users"
    assert (status(call, alice), status(call, bob)) == (200, 200)
    users.write_text(f"# a comment\nbob:{PASSWORD_HASH}\nalice:{OTHER_HASH}\n")
    assert (status(call, alice), status(call, bob)) == (401, 200)
    users.write_text(f"alice:{OTHER_HASH}\n")
    assert (status(call, alice), status(call, bob)) == (401, 401)


def test_removed_token_ends_its_sessions_and_no_others_of_its_owner(call: Caller) -> None:
    one, two = (cookie_of(call("POST", "/sluice/auth/session", token=token)) for token in ("one", "two"))
    assert (status(call, one), status(call, two)) == (200, 200)
    tokens = (call.folder or Path()) / "tokens"
    tokens.write_text(f"carol:{hash_token('two')}\nmallory:{hash_token('three')}\n")
    assert (status(call, one), status(call, two)) == (401, 200)
    tokens.write_text(f"mallory:{hash_token('two')}\n")
    assert status(call, two) == 401, "the token has another owner"


def remembered(cookies: SessionCookies) -> int:
    return len(cookies._ended._ids) + len(cookies._ended._all_until)


def test_ended_sessions_are_remembered_no_longer_than_their_cookies_are_valid() -> None:
    now = [1000.0]
    cookies = SessionCookies("secret", 60, lambda: now[0])

    def started() -> str:
        return cookies.start_session(Identity("alice", "oidc"), is_secure=False).partition(";")[0]

    first, second = started(), started()
    assert cookies.session_of(first) != cookies.session_of(second)
    cookies.end_session(first)
    cookies.end_session(first)
    assert (cookies.session_of(first), remembered(cookies)) == (None, 1)
    assert cookies.session_of(second) is not None
    now[0] += 59
    cookies.end_session(second)
    assert remembered(cookies) == 2
    now[0] += 1
    cookies.end_session(third := started())
    assert (cookies.session_of(third), remembered(cookies)) == (None, 2)


def test_list_of_ended_sessions_is_bounded_for_each_user_and_forgets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_ENDED", 3)
    now = [1000.0]
    cookies = SessionCookies("secret", 60, lambda: now[0])

    def started(user: str = "alice") -> str:
        return cookies.start_session(Identity(user, "oidc"), is_secure=False).partition(";")[0]

    bob, ended = started("bob"), [started() for _ in range(20)]
    for one in ended:
        now[0] += 1
        cookies.end_session(one)
    assert remembered(cookies) == 4
    assert [cookies.session_of(one) for one in ended] == [None] * 20
    assert cookies.session_of(bob) is not None
    now[0] += 1
    assert cookies.session_of(started()) is not None, "a session that began later"
    now[0] += 60
    cookies.end_session(started("bob"))
    assert remembered(cookies) == 1


def test_shared_ends_are_bounded_for_each_user_and_deleted_when_the_cookies_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_ENDED", 3)
    now, documents = [1000.0], FakeDocuments()

    def worker() -> SessionCookies:
        cookies = SessionCookies("secret", 60, lambda: now[0])
        cookies.share(documents)
        return cookies

    first = worker()

    def started(user: str = "alice") -> str:
        return first.start_session(Identity(user, "oidc"), is_secure=False).partition(";")[0]

    bob, ended = started("bob"), [started() for _ in range(10)]
    for one in ended:
        now[0] += 1
        worker().end_session(one)
        assert len(documents.stored) <= 4
    assert [worker().session_of(one) for one in ended] == [None] * 10
    assert worker().session_of(bob) is not None
    now[0] += 1
    assert worker().session_of(started()) is not None, "a session that began later"
    now[0] += 60
    worker().end_session(started("bob"))
    assert len(documents.stored) == 1


def test_documents_of_another_form_end_no_sessions() -> None:
    documents = FakeDocuments()
    cookies = SessionCookies("secret", 60)
    cookies.share(documents)
    cookie = cookies.start_session(Identity("alice", "oidc"), is_secure=False).partition(";")[0]
    cookies.end_session(cookies.start_session(Identity("bob", "oidc"), is_secure=False).partition(";")[0])
    ((_, end),) = documents.stored.items()
    documents.stored = {"a": {}, "b": {**end, "until_ms": None, "user": 1}}
    assert cookies.session_of(cookie) is not None
    cookies.end_session(cookie)
    assert len(documents.stored) == 1, "what cannot be understood is deleted"
