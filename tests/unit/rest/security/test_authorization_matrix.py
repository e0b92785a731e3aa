"""What each role may do on each route, for every route of the app."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

from rest.app import build_api
from rest.security.identity import Role
from rest.security.permissions import PERMISSIONS, Needs, permission_of
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.security.conftest import TOKENS, Caller, Serve, write_tokens
from worker.model import TargetState

SHOP, OTHER = "shop-orders", "billing"
# The role of each caller for connectors of the shop, for others, and for the worker.
CALLERS: dict[str, tuple[int, int, int]] = {
    "root": (3, 3, 3),
    "shop-admin": (3, 0, 0),
    "operator": (2, 0, 0),
    "viewer": (1, 1, 1),
    "shop-viewer": (1, 0, 0),
    "nobody": (0, 0, 0),
}


def routes() -> list[tuple[str, str]]:
    found = []
    for route in build_api(FakeHerder()).routes:
        if isinstance(route, Route):
            found += [(method, route.path) for method in sorted(route.methods or ()) if method not in ("HEAD", "OPTIONS")]
    return found


def test_every_route_has_a_permission() -> None:
    assert set(routes()) - set(PERMISSIONS) == set()
    assert set(PERMISSIONS) - set(routes()) == set(), "a permission without its route hides a renamed one"


def test_unknown_route_needs_an_admin_of_all_connectors() -> None:
    needed = permission_of("GET", "/sluice/unheard-of")
    assert (needed.role, needed.needs) == (Role.ADMIN, Needs.WORKER)


def is_exempt(path: str) -> bool:
    """Whether a path is below one of ``rest.authentication.exempt.paths``, by default ``/health``."""
    return path.split("/")[1] == "health"


def _body(method: str, path: str, connector: str) -> Any:
    if path == "/connectors" and method == "POST":
        return {"name": connector, "config": {"connector.class": "x"}}
    if path.endswith("/reload-turn"):
        return {"worker": "w:1", "done": False}
    if path == "/sluice/preview":
        return {"config": {"name": connector, "connector.class": "x"}, "records": []}
    if path.endswith("/config/validate"):
        return {"name": connector, "connector.class": "x"}
    if path.endswith("/config") and method in ("PUT", "PATCH"):
        return {"connector.class": "x"}
    if path.endswith("/offsets") and method == "PATCH":
        return {"offsets": [{"partition": {"p": "1"}, "offset": None}]}
    if path.endswith("/signals"):
        return {"type": "log"}
    if path.startswith("/admin/loggers/") and method == "PUT":
        return {"level": "INFO"}
    return None


def _prepare(herder: FakeHerder) -> None:
    for name in (SHOP, OTHER):
        herder.configs[name] = {"name": name, "connector.class": "x", "db.password": "s3cret-value"}
        herder.targets[name] = TargetState.STARTED


@pytest.mark.parametrize(("method", "path"), routes())
def test_roles_of_every_route(method: str, path: str, secured: Caller, fake: FakeHerder) -> None:
    permission = PERMISSIONS[method, path]
    for caller, (shop, other, worker) in CALLERS.items():
        for connector, held in ((SHOP, shop), (OTHER, other)):
            _prepare(fake)
            target = path.format(connector=connector, task="0", version="1", logger="root", plugin="x")
            answer = secured(method, target, _body(method, path, connector), token=caller)
            role = permission.role
            if role is None or is_exempt(path):
                allowed = True
            elif permission.needs is Needs.CONNECTOR or (_body(method, path, connector) and permission.needs is Needs.ANY):
                allowed = held >= role
            elif permission.needs is Needs.ANY:
                allowed = max(shop, other) >= role
            else:
                allowed = worker >= role
            if permission.is_signed:
                assert answer.status == 500, "the herder refuses what is not signed"
                continue
            refused = answer.status == 403 and "does not have the role" in str(answer.body)
            assert refused is not allowed, f"{caller} {method} {target}: {answer.status} {answer.body}"
            if caller != "root" and caller != "shop-admin":
                assert "s3cret-value" not in json.dumps(answer.body)
    unknown = secured(method, path.format(connector=SHOP, task="0", version="1", logger="root", plugin="x"))
    if permission.role is not None and not is_exempt(path):
        assert unknown.status == 401
        assert unknown.headers["WWW-Authenticate"] == 'Bearer realm="KafkaConnect"'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/connectors", {"name": OTHER, "config": {"connector.class": "x"}}),
        ("POST", "/connectors", {"config": {"name": OTHER, "connector.class": "x"}}),
        ("POST", "/connectors", {"name": SHOP, "config": {"name": OTHER, "connector.class": "x"}}),
        ("PUT", f"/connectors/{SHOP}/config", {"name": OTHER, "connector.class": "x"}),
        ("PUT", "/connector-plugins/x/config/validate", {"name": OTHER, "connector.class": "x"}),
        ("POST", "/sluice/preview", {"config": {"name": OTHER}, "records": []}),
    ],
)
def test_a_connector_that_a_body_names_needs_the_role_too(
    method: str, path: str, body: Any, secured: Caller, fake: FakeHerder
) -> None:
    _prepare(fake)
    before = dict(fake.configs)
    answer = secured(method, path, body, token="shop-admin")
    assert answer.status in (400, 403), answer.body
    assert fake.configs == before
    assert fake.previewed == []


def test_a_preview_keeps_the_secrets_of_its_connector_and_of_no_other(secured: Caller, fake: FakeHerder) -> None:
    _prepare(fake)
    body = {"config": {"name": SHOP, "connector.class": "x", "db.password": "[hidden]"}, "records": []}
    assert secured("POST", "/sluice/preview", body, token="shop-admin").status == 200
    assert fake.previewed[0][0]["db.password"] == "s3cret-value"
    del body["config"]["name"]  # type: ignore[attr-defined]
    assert secured("POST", "/sluice/preview", body, token="shop-admin").status == 200
    assert fake.previewed[1][0]["db.password"] == "[hidden]"


@pytest.mark.parametrize("member", ["config", "transforms"])
def test_edited_replays_need_an_admin_of_the_connector(member: str, secured: Caller, fake: FakeHerder) -> None:
    _prepare(fake)
    path = f"/sluice/connectors/{SHOP}/dead-letters/replay"
    body = {member: {"transforms": "x"}}
    refused = secured("POST", path, body, token="operator")
    assert (refused.status, "role admin" in str(refused.body)) == (403, True)
    assert secured("POST", path, body, token="shop-admin").status != 403


def test_the_web_page_is_open_and_what_it_shows_is_not(secured: Caller) -> None:
    assert secured("GET", "/ui").status in (200, 404)
    assert secured("GET", "/sluice/progress").status == 401
    for path in ("/ui/../connectors", "/ui/%2e%2e/connectors", "/ui//connectors", "/ui/connectors"):
        assert secured("GET", path).status in (400, 401, 404), path


def test_lists_contain_what_the_caller_may_view(secured: Caller, fake: FakeHerder) -> None:
    _prepare(fake)
    assert secured("GET", "/connectors", token="viewer").body == [OTHER, SHOP]
    assert secured("GET", "/connectors", token="shop-viewer").body == [SHOP]
    expanded = secured("GET", "/connectors?expand=info&expand=status", token="shop-viewer").body
    assert list(expanded) == [SHOP]
    assert expanded[SHOP]["info"]["config"]["db.password"] == "[hidden]"
    assert secured("GET", "/connectors?expand=info", token="root").body[OTHER]["info"]["config"]["db.password"] == "s3cret-value"


def test_health_is_open_and_other_paths_are_not(secured: Caller) -> None:
    assert secured("GET", "/health").status == 200
    assert secured("GET", "/healthy").status == 401
    assert secured("GET", "/openapi.json").status == 401
    assert secured("GET", "/nowhere").status == 401
    assert secured("GET", "/nowhere", token="viewer").status == 404
    assert secured("POST", "/connectors/a/status", token="viewer").status == 405
    assert secured("OPTIONS", "/connectors").status == 200


@pytest.mark.parametrize(
    "path", ["//connectors", "/connectors/", "/connectors;x=1", "/%63onnectors", "/./connectors", "/x/../connectors"]
)
def test_other_spellings_of_a_path_are_no_way_around(path: str, secured: Caller) -> None:
    assert secured("GET", path).status in (400, 401, 404)
    assert secured("DELETE", f"{path}/{OTHER}", token="shop-admin").status in (400, 403, 404, 405)


def test_anonymous_role(serve: Serve, tmp_path: Path, fake: FakeHerder) -> None:
    _prepare(fake)
    call = serve(
        {
            "rest.authentication": "bearer",
            "rest.authentication.tokens.file": write_tokens(tmp_path / "tokens"),
            "rest.authorization.anonymous.role": "viewer",
        }
    )
    shown = call("GET", f"/connectors/{SHOP}")
    assert (shown.status, shown.body["config"]["db.password"]) == (200, "[hidden]")
    assert call("DELETE", f"/connectors/{SHOP}").status == 401
    assert call("GET", "/connectors", token="wrong").status == 401, "wrong credentials are not none"
    assert call("DELETE", f"/connectors/{SHOP}", token="nobody").status == 204, "without a roles file everyone is admin"


def test_changed_roles_apply_to_the_next_request(serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    roles = tmp_path / "roles.yaml"
    roles.write_text("bindings: [{role: viewer, users: [viewer]}]")
    call = serve(
        {
            "rest.authentication": "bearer",
            "rest.authentication.tokens.file": write_tokens(tmp_path / "tokens"),
            "rest.authorization.roles.file": str(roles),
        }
    )
    assert [call("GET", "/connectors", token=name).status for name in ("viewer", "nobody")] == [200, 403]
    roles.write_text("bindings: [{role: viewer, users: [viewer, nobody]}]")
    assert [call("GET", "/connectors", token=name).status for name in ("viewer", "nobody")] == [200, 200]
    roles.write_text("bindings: [{role: viewr, users: [viewer, nobody]}]")
    assert call("GET", "/connectors", token="nobody").status == 200, "a malformed file changes nothing"
    assert "did you mean viewer?" in caplog.text
    roles.unlink()
    assert call("GET", "/connectors", token="nobody").status == 403, "without the file nobody has a role"


def test_session_tells_who_is_calling(secured: Caller) -> None:
    assert secured("GET", "/sluice/auth/session").body == {
        "authentication": ["bearer"], "subject": None, "groups": [], "roles": [], "login": None,
    }  # fmt: skip
    shown = secured("GET", "/sluice/auth/session", token="operator").body
    assert (shown["subject"], shown["groups"]) == ("operator", ["operators"])
    assert shown["roles"] == [{"role": "operator", "connectors": ["shop-*"]}]
    assert set(TOKENS) == set(CALLERS)
