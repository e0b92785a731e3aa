"""Users with passwords and tokens of files, and what browsers send by themselves."""

from __future__ import annotations

import hmac
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from connect import extras
from connect.errors import ConfigError
from rest.security import credential_files, passwords
from rest.security.authentication import CredentialCache
from rest.security.credential_files import UsersFile, parse_tokens, parse_users
from rest.security.identity import Identity
from rest.security.passwords import hash_password, hash_token, is_password, new_token
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.security.conftest import PASSWORD_HASH, Serve, basic
from worker.config.worker_config import WorkerConfig

# A test vector of crypt_blowfish.
BCRYPT_PASSWORD, BCRYPT_HASH = "U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
KAFKA_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


def test_password_has_a_new_hash_each_time() -> None:
    first, second = hash_password("s3cret"), hash_password("s3cret")
    assert first != second
    assert is_password("s3cret", first)
    assert not is_password("S3cret", first)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice", "line 1 is not NAME:HASH"),
        ("\n# comment\nalice:s3cret-password", "line 3: expected a hash"),
        (f"a:{PASSWORD_HASH}\na:{PASSWORD_HASH}", "line 2: there is a user a already"),
        (f"a:{PASSWORD_HASH.replace('ln=4', 'ln=30')}", "too expensive"),
        (f"a:{PASSWORD_HASH}:x", "more than NAME:HASH"),
        ("a:$apr1$s3cretsa$s3cret", "or one that htpasswd -B writes"),
        (f"a:{BCRYPT_HASH[:-1]}", "expected a hash"),
        (f"a:{BCRYPT_HASH.replace('$05$', '$15$')}", "line 1: expected a bcrypt hash with a cost of 4 to 14"),
        (f"a:{BCRYPT_HASH.replace('$05$', '$03$')}", "with a cost of 4 to 14"),
    ],
)
def test_malformed_users_file_names_the_line_and_no_password(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        parse_users(text)
    assert "s3cret" not in error.value.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ci:the-token-itself", "line 1: expected a hash"),
        (f"a:{hash_token('x')}\nb:{hash_token('x')}", "line 2: the token is that of a"),
        (f"a:{hash_token('x')}:g:h", "more than"),
    ],
)
def test_malformed_tokens_file_names_the_line_and_no_token(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as error:
        parse_tokens(text)
    assert "the-token-itself" not in error.value.message


def test_unknown_user_costs_as_much_as_a_wrong_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    file.write_text(f"alice:{hash_password('right')}\n")
    users = UsersFile(str(file))
    costs: list[tuple[int, int, int]] = []
    derive, compared = passwords._derive, []
    compare = hmac.compare_digest

    def spy(password: str, salt: bytes, log_n: int, r: int, p: int, size: int) -> bytes:
        costs.append((log_n, r, p))
        return derive(password, salt, log_n, r, p, size)

    def spy_compare(a: Any, b: Any) -> bool:
        compared.append(len(a) == len(b))
        return compare(a, b)

    monkeypatch.setattr(passwords, "_derive", spy)
    monkeypatch.setattr(hmac, "compare_digest", spy_compare)
    assert users.identify("alice", "wrong") is None
    assert users.identify("nobody", "wrong") is None
    found = users.identify("alice", "right")
    assert found is not None
    assert found.subject == "alice"
    assert costs == [costs[0]] * 3
    assert compared == [True] * 3, "in constant time"


def test_bcrypt_hashes_of_all_prefixes_are_checked(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("".join(f"user-{prefix}:${prefix}{BCRYPT_HASH[3:]}\n" for prefix in ("2a", "2b", "2y")))
    call = serve({"rest.authentication": "basic", "rest.authentication.users.file": str(file)})
    for prefix in ("2a", "2b", "2y"):
        assert call("GET", "/connectors", headers=basic(f"user-{prefix}", BCRYPT_PASSWORD)).status == 200
        for wrong in ("U*", "u*u", "U*U\0", "", "x" * 100):
            assert call("GET", "/connectors", headers=basic(f"user-{prefix}", wrong)).status == 401
    assert call("GET", "/connectors", headers=basic("nobody", BCRYPT_PASSWORD)).status == 401


def test_bcrypt_uses_72_bytes_of_a_password_as_htpasswd_does() -> None:
    long = "ä" * 40
    hashed = bcrypt.hashpw(long.encode()[:72], bcrypt.gensalt(4)).decode()
    assert is_password(long, hashed)
    assert not is_password(long[:35], hashed)


def test_bcrypt_is_checked_once_and_not_on_the_event_loop(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    file.write_text(f"alice:{BCRYPT_HASH}\n")
    threads: list[str] = []
    check = bcrypt.checkpw

    def spy(password: bytes, hashed: bytes) -> bool:
        threads.append(threading.current_thread().name)
        return check(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", spy)
    call = serve({"rest.authentication": "basic", "rest.authentication.users.file": str(file)})
    for _ in range(3):
        assert call("GET", "/connectors", headers=basic("alice", BCRYPT_PASSWORD)).status == 200
    assert len(threads) == 1, "a valid password is remembered"
    for _ in range(2):
        assert call("GET", "/connectors", headers=basic("alice", "wrong")).status == 401
    assert len(threads) == 3, "a wrong one is not"
    assert all(name.startswith("rest-authenticate-") for name in threads)


def test_unknown_user_is_checked_like_one_of_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "users"
    file.write_text(f"alice:{BCRYPT_HASH}\nbob:{PASSWORD_HASH}\n")
    checked: list[str] = []

    def accept(_: str, hashed: str) -> bool:
        checked.append(hashed)
        return True

    monkeypatch.setattr(credential_files, "is_password", accept)
    users = UsersFile(str(file))
    names = [f"nobody-{number}" for number in range(64)]
    assert [users.identify(name, "x") for name in names] == [None] * 64, "even if the password is that user's"
    assert set(checked) == {BCRYPT_HASH, PASSWORD_HASH}
    first = list(checked)
    assert [users.identify(name, "x") for name in names] == [None] * 64
    assert checked[64:] == first, "a repeated name takes as long as before"


def test_bcrypt_hash_without_the_package_is_an_error_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_complete", set())
    monkeypatch.setattr(extras, "_is_installed", lambda module: module != "bcrypt")
    parse_users(f"bob:{PASSWORD_HASH}")
    message = r"line 2: a bcrypt hash needs bcrypt, which is not installed; run: pip install 'sluice-connect\[bcrypt\]'"
    with pytest.raises(ConfigError, match=message):
        parse_users(f"bob:{PASSWORD_HASH}\nalice:{BCRYPT_HASH}")


def test_bcrypt_is_imported_only_for_its_hashes(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(f"bob:{PASSWORD_HASH}\n")
    code = (
        "import sys; from rest.security.credential_files import UsersFile;"
        f"UsersFile({str(file)!r}).identify('bob', 'x'); print('bcrypt' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_token_is_long_and_can_be_recognized() -> None:
    token = new_token()
    assert token.startswith("slc_")
    assert len(token) >= 44
    assert token not in hash_token(token)


def test_cached_credentials_end_with_their_file_and_their_time() -> None:
    now = [100.0]
    cache = CredentialCache(lambda: now[0])
    cache.put("Bearer x", Identity("a", "bearer"), (1,))
    assert cache.get("Bearer x", (1,)) is not None
    assert cache.get("Bearer x", (2,)) is None
    assert cache.get("Bearer y", (1,)) is None
    now[0] += 61
    assert cache.get("Bearer x", (1,)) is None
    cache.put("Bearer z", Identity("a", "oidc", expires_at_s=now[0] + 5), (1,))
    now[0] += 6
    assert cache.get("Bearer z", (1,)) is None
    assert "Bearer x" not in repr(cache.__dict__)


def test_users_of_a_file(serve: Serve, tmp_path: Path, fake: FakeHerder) -> None:
    file = tmp_path / "users"
    file.write_text(f"alice:{hash_password('p:ä')}\n")
    call = serve({"rest.authentication": "basic", "rest.authentication.users.file": str(file)})
    assert call("GET", "/connectors", headers=basic("alice", "p:ä")).status == 200
    malformed = [{"Authorization": value} for value in ("Basic !", "Basic é", "Digest x")]
    for headers in (basic("alice", "x"), basic("bob", "p:ä"), *malformed, {}):
        refused = call("GET", "/connectors", headers=headers)
        assert refused.status == 401
        assert refused.headers["WWW-Authenticate"] == 'Basic realm="KafkaConnect"'
        assert refused.body["error_code"] == 401
    file.write_text(f"bob:{hash_password('q')}\n")
    assert call("GET", "/connectors", headers=basic("alice", "p:ä")).status == 401, "a user who was removed"
    assert call("GET", "/connectors", headers=basic("bob", "q")).status == 200
    file.unlink()
    assert call("GET", "/connectors", headers=basic("bob", "q")).status == 401


def test_pages_of_others_cannot_use_the_password_that_a_browser_remembers(serve: Serve, tmp_path: Path, fake: FakeHerder) -> None:
    file = tmp_path / "users"
    file.write_text(f"alice:{PASSWORD_HASH}\n")
    (tmp_path / "users").write_text(f"alice:{hash_password('pw')}\n")
    call = serve(
        {
            "rest.authentication": "basic",
            "rest.authentication.users.file": str(file),
            "access.control.allow.origin": r"https://console\.example",
        }
    )
    fake.put_connector("a", {"connector.class": "x"}, replace=True)
    user = basic("alice", "pw")

    def restart(**more: str) -> int:
        return call("POST", "/connectors/a/restart", headers={**user, **more}).status

    assert restart() == 204
    assert restart(Origin=f"http://127.0.0.1:{call.port}") == 204
    assert restart(Origin="https://console.example") == 204
    assert restart(Origin="https://evil.example") == 403
    assert restart(Origin="null") == 403
    assert call("POST", "/connectors/a/restart", headers={**user, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert len(fake.restarted) == 3


def test_apaches_extension_alone_works_as_before_and_its_users_can_have_roles(
    serve: Serve, tmp_path: Path, fake: FakeHerder
) -> None:
    (tmp_path / "users.properties").write_text("admin=s3cret\nguest=more\n")
    (tmp_path / "roles.yaml").write_text("bindings: [{role: admin, users: ['extension:admin']}, {role: viewer, users: [guest]}]")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "KafkaConnect {\n  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required\n"
        f'  file="{tmp_path}/users.properties";\n}};\n'
    )
    props = {"rest.extension.classes": KAFKA_EXTENSION, "rest.basic.auth.jaas.config.file": str(jaas)}
    alone = serve(props)
    assert alone("DELETE", "/connectors/a", headers=basic("guest", "more")).status == 404
    assert alone("GET", "/connectors").body == "User cannot access the resource."
    call = serve({**props, "rest.authentication": "extension", "rest.authorization.roles.file": str(tmp_path / "roles.yaml")})
    assert call("GET", "/connectors").body == "User cannot access the resource."
    assert call("DELETE", "/connectors/a", headers=basic("guest", "more")).status == 403
    assert call("DELETE", "/connectors/a", headers=basic("admin", "s3cret")).status == 404


def test_several_methods_at_once(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"alice:{hash_password('pw')}\n")
    (tmp_path / "tokens").write_text(f"ci:{hash_token('t')}\n")
    call = serve(
        {
            "rest.authentication": "basic, bearer",
            "rest.authentication.users.file": str(tmp_path / "users"),
            "rest.authentication.tokens.file": str(tmp_path / "tokens"),
        }
    )
    assert call("GET", "/connectors", headers=basic("alice", "pw")).status == 200
    assert call("GET", "/connectors", token="t").status == 200
    refused = call("GET", "/connectors")
    assert refused.headers.get_all("WWW-Authenticate") == ['Basic realm="KafkaConnect"', 'Bearer realm="KafkaConnect"']


@pytest.mark.parametrize(
    ("props", "reason"),
    [
        ({"rest.authentication": "basci"}, "did you mean basic?"),
        ({"rest.authentication": "none,basic"}, "none cannot be combined"),
        ({"rest.authentication": "basic"}, "users.file is not set"),
        ({"rest.authentication": "oidc"}, "oidc.issuer is not set"),
        ({"rest.authorization.roles.file": "x"}, "roles need to know who calls"),
        ({"rest.authorization.anonymous.role": "admin"}, "roles need to know who calls"),
        (
            {"rest.authentication": "oidc", "rest.authentication.oidc.issuer": "http://idp.example"},
            "expected an https URL",
        ),
        (
            {"rest.authentication": "oidc", "rest.authentication.oidc.issuer": "https://idp.example"},
            "Set rest.authentication.oidc.audience",
        ),
        (
            {
                "rest.authentication": "oidc",
                "rest.authentication.oidc.issuer": "https://idp.example",
                "rest.authentication.oidc.audience": "a",
                "rest.authentication.oidc.algorithms": "HS256",
            },
            "signed with a private key",
        ),
        ({"rest.authentication.session.secret": "short"}, "at least 32"),
        ({"rest.authentication.exempt.paths": "/"}, "expected paths"),
    ],
)  # fmt: skip
def test_settings_that_contradict_each_other_are_config_errors(props: dict[str, str], reason: str) -> None:
    needed = {
        "bootstrap.servers": "x:1", "key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "o",
    }  # fmt: skip
    with pytest.raises(ConfigError, match=reason.replace("?", r"\?")) as error:
        WorkerConfig.standalone({**needed, **props})
    assert "short" not in error.value.message.replace("too short", "")
