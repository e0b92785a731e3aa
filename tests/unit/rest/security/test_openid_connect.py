"""Tokens and sign-in of an OpenID Connect provider, and attacks on both."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

import pytest
from joserfc.jwk import ECKey, RSAKey

from connect.errors import ConnectError, NotReadyError, UnreachableError
from rest.security.identity import AuthenticationError
from rest.security.oidc_tokens import Provider, TokenVerifier
from rest.security.provider_http import ProviderHttp
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.security.conftest import Answer, Caller, Serve
from tests.unit.rest.security.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdProvider
from worker.config.rest_security_config import OidcConfig


@pytest.fixture(scope="module")
def _provider() -> Iterator[OpenIdProvider]:
    provider = OpenIdProvider()
    yield provider
    provider.close()


@pytest.fixture
def provider(_provider: OpenIdProvider) -> OpenIdProvider:
    _provider.id_token_changes.clear()
    _provider.requests.clear()
    del _provider.keys[1:]
    return _provider


def config(provider: OpenIdProvider, **changes: Any) -> OidcConfig:
    values: dict[str, Any] = {
        "issuer": provider.issuer,
        "audience": ("connect",),
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "scopes": ("openid",),
        "redirect_url": None,
        "subject_claim": "sub",
        "groups_claim": "groups",
        "algorithms": ("RS256", "ES256"),
        "clock_skew_s": 60,
        "ca_file": None,
    }
    return OidcConfig(**{**values, **changes})


@pytest.fixture
def verifier(provider: OpenIdProvider) -> TokenVerifier:
    return TokenVerifier(config(provider), Provider(config(provider)))


def test_valid_token_gives_user_groups_and_claims(provider: OpenIdProvider, verifier: TokenVerifier) -> None:
    found = verifier.identify(provider.token({"typ": "at+jwt"}, aud=["other", "connect"], admin=True))
    assert (found.subject, found.method, found.groups) == ("alice", "oidc", frozenset({"platform"}))
    assert found.claims == {"sub": "alice", "department": "data", "admin": "true"}
    assert not found.is_ambient


def test_groups_may_be_in_an_inner_object(provider: OpenIdProvider) -> None:
    inner = config(provider, groups_claim="realm_access.roles", subject_claim="preferred_username")
    verifier = TokenVerifier(inner, Provider(inner))
    found = verifier.identify(provider.token(realm_access={"roles": ["ops"]}, preferred_username="al"))
    assert (found.subject, found.groups) == ("al", frozenset({"ops"}))


def _part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _unsigned(provider: OpenIdProvider, algorithm: str) -> str:
    now = int(time.time())
    claims = {"iss": provider.issuer, "aud": "connect", "sub": "root", "exp": now + 300}
    return f"{_part({'alg': algorithm, 'typ': 'JWT'})}.{_part(claims)}."


def _signed_with_public_key(provider: OpenIdProvider) -> str:
    """Key confusion: the public key, which everyone knows, as the secret of an HMAC."""
    head, claims, _ = _unsigned(provider, "HS256").split(".")
    secret = provider.keys[0].as_pem(private=False)
    mac = hmac.new(secret, f"{head}.{claims}".encode(), hashlib.sha256).digest()
    return f"{head}.{claims}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def _tampered(provider: OpenIdProvider) -> str:
    head, claims, signature = provider.token().split(".")
    content = json.loads(base64.urlsafe_b64decode(claims + "=="))
    return f"{head}.{_part({**content, 'sub': 'root'})}.{signature}"


def _with_own_key(provider: OpenIdProvider) -> str:
    own = RSAKey.generate_key(2048, {"kid": "key-1"})
    return provider.token({"jwk": own.as_dict(private=False)}, own)


def _critical(provider: OpenIdProvider) -> str:
    return f"{_part({'alg': 'RS256', 'crit': ['x'], 'x': 1, 'kid': 'key-1'})}.{_part({})}.AA"


ATTACKS: dict[str, tuple[Callable[[OpenIdProvider], str], str]] = {
    "alg none": (lambda p: _unsigned(p, "none"), "algorithm"),
    "alg None in other case": (lambda p: _unsigned(p, "nOnE"), "algorithm"),
    "signature left out": (lambda p: _unsigned(p, "RS256"), "signature"),
    "key confusion": (_signed_with_public_key, "algorithm"),
    "tampered claims": (_tampered, "signature"),
    "own key in the header": (_with_own_key, "signature|signed JSON"),
    "algorithm that is not accepted": (lambda p: p.token({"alg": "PS256"}), "algorithm"),
    "other audience": (lambda p: p.token(aud="billing"), "audience"),
    "no audience": (lambda p: p.token(aud=None), "audience"),
    "audience of the sign-in": (lambda p: p.token(aud=CLIENT_ID), "audience"),
    "other issuer": (lambda p: p.token(iss="https://elsewhere.example"), "issuer"),
    "expired": (lambda p: p.token(exp=int(time.time()) - 61), "expired"),
    "without end": (lambda p: p.token(exp=None), "never expires"),
    "end that is no number": (lambda p: p.token(exp="never"), "exp is not a time"),
    "not valid yet": (lambda p: p.token(nbf=int(time.time()) + 120), "not valid yet"),
    "issued in the future": (lambda p: p.token(iat=int(time.time()) + 120), "not valid yet"),
    "other type": (lambda p: p.token({"typ": "logout+jwt"}), "type"),
    "key ID of a path": (lambda p: p.token({"kid": "../../etc/passwd"}), "signature"),
    "key ID that is no text": (lambda p: f"{_part({'alg': 'RS256', 'kid': 7})}.{_part({})}.AA", "key ID|signed JSON"),
    "no user": (lambda p: p.token(sub=None), "claim sub"),
    "user that is no text": (lambda p: p.token(sub={"x": 1}), "claim sub"),
    "huge": (lambda p: p.token(padding="x" * 20_000), "too long"),
    "no token": (lambda p: "eyJ.eyJ.x", "signed JSON"),
    "unknown critical header": (_critical, "signature"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_is_refused(attack: str, provider: OpenIdProvider, verifier: TokenVerifier) -> None:
    forge, expected = ATTACKS[attack]
    token = forge(provider)
    with pytest.raises(AuthenticationError, match=expected) as refused:
        verifier.identify(token)
    assert token not in refused.value.message


def test_clock_skew_is_tolerated(provider: OpenIdProvider, verifier: TokenVerifier) -> None:
    now = int(time.time())
    assert verifier.identify(provider.token(exp=now - 30, nbf=now + 30, iat=now + 30)).subject == "alice"


def test_new_key_is_found_and_a_removed_one_is_forgotten(provider: OpenIdProvider) -> None:
    clock = [1000.0]
    verifier = TokenVerifier(config(provider), Provider(config(provider), clock=lambda: clock[0]))
    old = provider.keys[0]
    assert verifier.identify(provider.token()).subject == "alice"
    new = ECKey.generate_key("P-256", {"kid": "key-2", "use": "sig"})
    provider.keys.insert(0, new)
    token = provider.token({"alg": "ES256"}, new)
    with pytest.raises(AuthenticationError):
        verifier.identify(token)
    assert provider.requests.count("/keys") == 1, "invented key IDs do not flood the provider"
    clock[0] += 11
    assert verifier.identify(token).subject == "alice"
    provider.keys.remove(old)
    former = provider.token(key=old)
    assert verifier.identify(former).subject == "alice", "until the keys are loaded again"
    clock[0] += 3601
    with pytest.raises(AuthenticationError):
        verifier.identify(former)
    provider.keys[:] = [old]


class StuckHttp(ProviderHttp):
    """Once ``is_stuck``, requests wait until they are released, and then fail: no provider can be told when to time out."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(None)
        self.is_stuck = False
        self.asked, self.release = threading.Event(), threading.Event()
        self.count = 0
        self._clock = clock

    def get(self, url: str) -> dict[str, Any]:
        self.count += 1
        if not self.is_stuck:
            return super().get(url)
        self.asked.set()
        assert self.release.wait(WAIT_S)
        self._clock[0] += 10  # the timeout
        raise UnreachableError("no answer")


@pytest.fixture
def stuck() -> StuckHttp:
    return StuckHttp([1000.0])


def test_provider_that_does_not_answer_does_not_delay_callers_whose_keys_are_cached(
    provider: OpenIdProvider, stuck: StuckHttp
) -> None:
    clock = stuck._clock
    keys = Provider(config(provider), stuck, lambda: clock[0])
    verifier = TokenVerifier(config(provider), keys)
    assert verifier.identify(provider.token()).subject == "alice"
    clock[0] += 11
    stuck.is_stuck = True
    invented = provider.token({"kid": "invented"})
    with ThreadPoolExecutor(2) as pool:
        try:
            loading = pool.submit(verifier.identify, invented)
            assert stuck.asked.wait(WAIT_S)
            assert pool.submit(verifier.identify, provider.token()).result(WAIT_S).subject == "alice"
            assert pool.submit(keys.endpoints).result(WAIT_S).jwks_uri == f"{provider.issuer}/keys"
            with pytest.raises(NotReadyError, match="are being loaded"):
                pool.submit(verifier.identify, invented).result(WAIT_S)
            clock[0] += 4000  # the cached keys are due to be loaded again
            assert pool.submit(verifier.identify, provider.token()).result(WAIT_S).subject == "alice"
        finally:
            stuck.release.set()
        with pytest.raises(AuthenticationError):
            loading.result(WAIT_S)
    count = stuck.count
    with pytest.raises(AuthenticationError):
        verifier.identify(invented)
    assert stuck.count == count, "the time between two loads begins at the end of the first"


def test_only_the_first_of_those_who_wait_for_the_keys_asks_a_provider_that_does_not_answer(
    provider: OpenIdProvider, stuck: StuckHttp
) -> None:
    keys = Provider(config(provider), stuck, lambda: stuck._clock[0])
    verifier = TokenVerifier(config(provider), keys)
    stuck.is_stuck = True
    with ThreadPoolExecutor(3) as pool:
        try:
            calls: list[Future[Any]] = [pool.submit(verifier.identify, provider.token()) for _ in range(2)]
            calls.append(pool.submit(keys.endpoints))
            assert stuck.asked.wait(WAIT_S)
        finally:
            stuck.release.set()
        for one in calls:
            with pytest.raises(ConnectError) as failed:
                one.result(WAIT_S)
            assert not isinstance(failed.value, AuthenticationError)
    assert stuck.count == 1


def test_provider_that_does_not_answer_is_no_refusal(provider: OpenIdProvider) -> None:
    gone = config(provider, issuer="http://127.0.0.1:9")
    with pytest.raises(ConnectError) as failed:
        TokenVerifier(gone, Provider(gone)).identify(provider.token(iss="http://127.0.0.1:9"))
    assert not isinstance(failed.value, AuthenticationError)


def test_other_issuer_in_the_discovery_document_is_an_error(provider: OpenIdProvider) -> None:
    other = config(provider, issuer=f"{provider.issuer}/")
    with pytest.raises(ConnectError, match="must be equal"):
        Provider(other).endpoints()


# --- sign-in, with a real server


ROLES = "bindings: [{role: admin, groups: [platform]}, {role: viewer, claims: {department: data}}]"


@pytest.fixture
def call(serve: Serve, provider: OpenIdProvider, tmp_path: Any) -> Caller:
    (tmp_path / "roles.yaml").write_text(ROLES)
    return serve(
        {
            "rest.authentication": "oidc",
            "rest.authentication.oidc.issuer": provider.issuer,
            "rest.authentication.oidc.audience": "connect",
            "rest.authentication.oidc.client.id": CLIENT_ID,
            "rest.authentication.oidc.client.secret": CLIENT_SECRET,
            "rest.authorization.roles.file": str(tmp_path / "roles.yaml"),
        }
    )


def cookies_of(answer: Answer) -> dict[str, str]:
    found: SimpleCookie = SimpleCookie()
    for header in answer.headers.get_all("Set-Cookie") or ():
        found.load(header)
    return {name: morsel.value for name, morsel in found.items()}


def as_header(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}


def sign_in(call: Caller, provider: OpenIdProvider, next_path: str = "/ui/") -> Answer:
    started = call("GET", f"/sluice/auth/login?next={next_path}")
    assert started.status == 302
    back = urlsplit(provider.authorize(started.headers["Location"]))
    return call("GET", f"{back.path}?{back.query}", headers=as_header(cookies_of(started)))


def test_sign_in_starts_a_session(call: Caller, provider: OpenIdProvider, fake: FakeHerder) -> None:
    done = sign_in(call, provider, "/ui/%23/connectors")
    assert (done.status, done.headers["Location"]) == (302, "/ui/#/connectors")
    session = next(one for one in done.headers.get_all("Set-Cookie") or () if one.startswith("sluice_session="))
    assert "HttpOnly" in session
    assert "SameSite=Lax" in session
    assert "Path=/" in session
    cookie = as_header(cookies_of(done))
    shown = call("GET", "/sluice/auth/session", headers=cookie).body
    assert (shown["subject"], shown["login"]) == ("alice", "/sluice/auth/login")
    body = {"connector.class": "x"}
    page = {"X-Requested-With": "sluice-ui", "Sec-Fetch-Site": "same-origin", **cookie}
    assert call("PUT", "/connectors/a/config", body, headers=page).status == 201
    assert call("PUT", "/connectors/a/config", body, headers=cookie).status == 403, "without the header"
    assert call("PUT", "/connectors/a/config", body, headers={**page, "Sec-Fetch-Site": "cross-site"}).status == 403
    foreign = {"X-Requested-With": "x", "Origin": "http://evil.example", **cookie}
    assert call("PUT", "/connectors/a/config", body, headers=foreign).status == 403
    assert call("GET", "/connectors", headers=foreign).status == 200
    ended = call("DELETE", "/sluice/auth/session", headers=page)
    assert ended.status == 204
    assert cookies_of(ended)["sluice_session"] == ""
    assert list(fake.configs) == ["a"]


def test_session_cookie_cannot_be_forged(call: Caller, provider: OpenIdProvider) -> None:
    cookies = cookies_of(sign_in(call, provider))
    value = cookies["sluice_session"]
    flipped = ("B" if value[20] == "A" else "A").join((value[:20], value[21:]))
    sign_in_cookie = cookies_of(call("GET", "/sluice/auth/login"))["sluice_sign_in"]
    for forged in (flipped, "", "x", "=" * 50, sign_in_cookie, value[:40]):
        assert call("GET", "/connectors", headers={"Cookie": f"sluice_session={forged}"}).status == 401
    assert call("GET", "/connectors", headers={"Cookie": f"sluice_session={value}"}).status == 200


@pytest.mark.parametrize(
    "next_path", ["https://evil.example/", "//evil.example", "/%5Cevil.example", "javascript:1", "/%0d%0aX:1"]
)
def test_sign_in_never_leads_to_another_host(next_path: str, call: Caller, provider: OpenIdProvider) -> None:
    assert sign_in(call, provider, next_path).headers["Location"] == "/ui/"


def test_answers_that_do_not_fit_are_refused(call: Caller, provider: OpenIdProvider) -> None:
    started = call("GET", "/sluice/auth/login")
    back = urlsplit(provider.authorize(started.headers["Location"]))
    cookie = as_header(cookies_of(started))
    path = f"{back.path}?{back.query}"
    assert call("GET", path).status == 401, "without the cookie of the browser that began"
    assert call("GET", path.replace("state=", "state=x"), headers=cookie).status == 401
    assert call("GET", path.replace("iss=http", "iss=https"), headers=cookie).status == 401
    assert call("GET", f"{back.path}?error=access_denied&state=x", headers=cookie).status == 401
    other = as_header(cookies_of(call("GET", "/sluice/auth/login")))
    assert call("GET", path, headers=other).status == 401, "login CSRF: the answer of another sign-in"
    assert call("GET", path, headers=cookie).status == 302
    replayed = call("GET", path, headers=cookie)
    assert replayed.status == 500, "a code is good for one exchange"
    assert "hunter2" not in str(replayed.body)


@pytest.mark.parametrize("changes", [{"nonce": "other"}, {"aud": "connect"}, {"aud": [CLIENT_ID, "x"]}, {"exp": 1}], ids=str)
def test_id_token_that_does_not_fit_is_refused(changes: dict[str, Any], call: Caller, provider: OpenIdProvider) -> None:
    provider.id_token_changes.update(changes)
    refused = sign_in(call, provider)
    assert refused.status == 401
    assert "sluice_session" not in cookies_of(refused)


def test_bearer_token_of_the_provider(call: Caller, provider: OpenIdProvider) -> None:
    assert call("GET", "/connectors", token=provider.token()).status == 200
    assert call("GET", "/connectors", token=provider.token(groups=[], department="x")).status == 403
    refused = call("GET", "/connectors", token=provider.token(aud="x"))
    assert (refused.status, refused.body["message"]) == (401, "The token is for another audience")
    session = call("POST", "/sluice/auth/session", token=provider.token())
    assert session.status == 204
    assert call("GET", "/connectors", headers=as_header(cookies_of(session))).status == 200
