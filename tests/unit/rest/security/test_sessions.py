"""How sessions of the web page end before their time."""

from __future__ import annotations

from http.cookies import SimpleCookie
from pathlib import Path

import pytest

from rest.security.identity import Identity
from rest.security.passwords import hash_token
from rest.security.sessions import SessionCookies
from tests.unit.rest.fake_herder import FakeHerder
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


def test_ended_sessions_are_remembered_no_longer_than_their_cookies_are_valid() -> None:
    now = [1000.0]
    cookies = SessionCookies("secret", 60, lambda: now[0])

    def started() -> str:
        return cookies.start_session(Identity("alice", "oidc"), is_secure=False).partition(";")[0]

    first, second = started(), started()
    assert cookies.session_of(first) != cookies.session_of(second)
    cookies.end_session(first)
    cookies.end_session(first)
    assert (cookies.session_of(first), len(cookies._ended)) == (None, 1)
    assert cookies.session_of(second) is not None
    now[0] += 59
    cookies.end_session(second)
    assert len(cookies._ended) == 2
    now[0] += 1
    cookies.end_session(third := started())
    assert (cookies.session_of(third), len(cookies._ended)) == (None, 2)
