"""What a mask learns is told to whoever has to know it too."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from connect.config.parsing import HIDDEN
from worker.config import secrets
from worker.config.secrets import SecretMask, is_secret_name


def test_secrets_are_told_when_they_are_learned_and_those_known_before_at_once() -> None:
    mask, other, told = SecretMask(), SecretMask(), []
    mask.add({"password": "before-1"})
    assert mask.on_learned(lambda values: told.append(set(values))) == {"before-1"}
    mask.add({"password": "after-1", "secret": "before-1"})
    mask.add({"password": "after-1"})
    assert told == [{"after-1"}]
    other.learn(told[0])
    assert other.mask("before-1 after-1") == "before-1 [hidden]"


def test_what_a_url_lets_in_with_is_hidden_wherever_it_shows_up() -> None:
    mask = SecretMask()
    mask.add(
        {
            "connection.url": "jdbc:postgresql://host/shop?user=sluice&password=p%40rrot-1&ssl=true",
            "other.url": "mysql://sluice:tr0ut-2@host/shop",
            "plain.url": "https://host/a?page=2",
        }
    )
    told = mask.mask("no login for sluice with p@rrot-1 or p%40rrot-1; tr0ut-2 on page 2 of shop")
    assert told == f"no login for sluice with {HIDDEN} or {HIDDEN}; {HIDDEN} on page 2 of shop"


def test_a_reference_inside_a_url_is_no_secret() -> None:
    mask = SecretMask()
    mask.add({"connection.url": "jdbc:postgresql://host/shop?password=${file:/etc/secret.properties:pw}"})
    assert mask.mask("${file:/etc/secret.properties:pw}") == "${file:/etc/secret.properties:pw}"


@pytest.mark.parametrize("key", ["db.password", "sasl.jaas.config", "aws.secret.access.key", "api.key", "auth.token"])
def test_names_of_secrets(key: str) -> None:
    assert is_secret_name(key)


@pytest.mark.parametrize("key", ["key.converter", "topic", "tokens.max.bytes.kept", "key.columns"])
def test_names_that_are_no_secrets(key: str) -> None:
    assert not is_secret_name(key)


def test_secrets_are_hidden_wherever_they_stand() -> None:
    mask = SecretMask()
    mask.add(
        {
            "db.password": "p$w.+d",
            "topic": "orders",
            "odd": "sesame!",
            "sasl.jaas.config": 'X.LoginModule required password="in ner";',
        }
    )
    mask.add({"odd": "sesame!"}, {"odd"})
    shown = mask.mask("dsn p$w.+d, orders, sesame!, in ner, https://joe:other@host/x?password=third&a=1, db.password: 'four th'")
    for secret in ("p$w.+d", "sesame!", "in ner", "other", "third", "four th"):
        assert secret not in shown
    assert "orders" in shown
    assert "@host/x" in shown


@pytest.mark.parametrize(
    "line",
    [
        'PlainLoginModule required username="worker" password="s3cret";',
        "PlainLoginModule required username='worker' user_admin='s3cret';",
        "ScramLoginModule required username=worker password=s3cret;",
        'OAuthBearerLoginModule required clientId="worker" clientSecret="s3cret" scope="worker";',
        'PlainLoginModule required username="worker" password="s3\\cret";',
    ],
)
def test_of_a_login_the_password_is_secret_and_the_name_is_not(line: str) -> None:
    mask = SecretMask()
    mask.add({"sasl.jaas.config": line})
    assert mask.mask("worker: s3cret") == "worker: [hidden]"
    assert mask.mask(f"the whole, {line}") == "the whole, [hidden]"


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    mask = SecretMask()
    mask.add({"password": "ab"})
    assert mask.mask("ab abc cab (ab)") == "[hidden] abc cab ([hidden])"


@pytest.mark.parametrize("secret", ["p@ss w/rd%", "quote\"'back\\slash", "müde-\n-zwei", "plain-secret"])
def test_a_secret_is_hidden_in_each_form_in_which_programs_write_it(secret: str) -> None:
    mask = SecretMask()
    mask.add({"db.password": secret})
    encoded = base64.b64encode(secret.encode()).decode()
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    texts = [
        secret, quote(secret), quote(secret, safe=""), quote_plus(secret), json.dumps(secret), repr(secret),
        json.dumps(secret, ensure_ascii=False), repr({"a": secret}), encoded, f"Basic {basic}", f"key={encoded}",
        encoded.replace("+", "-").replace("/", "_"),
    ]  # fmt: skip
    for text in texts:
        shown = mask.mask(f"before {text} after")
        assert "[hidden]" in shown, text
        assert not {secret, encoded, basic, json.dumps(secret)[1:-1], repr(secret)[1:-1]} & set(shown.split())
        assert shown.startswith("before ")
        assert shown.endswith(" after")


def test_words_that_happen_to_be_base64_stay_readable() -> None:
    mask = SecretMask()
    mask.add({"db.password": "secret-value", "pin.password": "ab"})
    text = "org.apache.kafka.connect.errors.DataException in /var/lib/connectors/orders0123456789 of shop-orders-42"
    assert mask.mask(text) == text


def test_credentials_of_a_request_are_hidden_although_nobody_knows_them() -> None:
    for header in (
        "Authorization: Bearer eyJhbGciOi.x.y",
        "{'Authorization': 'Basic dTpwdw=='}",
        '"authorization": "bearer abc"',
    ):
        shown = SecretMask().mask(header)
        assert "[hidden]" in shown
        assert not any(word in shown for word in ("eyJ", "dTpw", "abc"))


def test_private_key_is_hidden_line_by_line() -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    mask = SecretMask()
    mask.add({"ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----"})
    assert mask.mask(f"read {line} of a file") == "read [hidden] of a file"


def test_secret_that_begins_with_one_learned_earlier_is_hidden_as_a_whole() -> None:
    for others in range(3):
        mask = SecretMask()
        mask.add({f"{number}.password": f"other-{number}" for number in range(others)})
        mask.add({"db.password": "tricycle"})
        mask.add({"old.password": "tricycle-77"})
        assert mask.mask("tricycle-77, tricycle") == f"{HIDDEN}, {HIDDEN}"


def test_secret_is_hidden_in_base64_wherever_a_word_with_it_begins() -> None:
    mask = SecretMask()
    mask.add({"db.password": "tricycle-77"})
    for user in ("u", "us", "use", "user"):
        encoded = base64.b64encode(f"{user}:tricycle-77:{user}".encode()).decode()
        for path in ("", "/", "a/", "ab/", "abc/"):
            shown = mask.mask(f"GET {path}{encoded} of shop")
            assert shown in (f"GET {HIDDEN} of shop", f"GET {path}{HIDDEN} of shop")


def test_learning_secrets_one_by_one_compiles_each_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def count_forms(value: str) -> list[str]:
        compiled.append(value)
        return [value]

    monkeypatch.setattr(secrets, "_forms", count_forms)
    mask, count = SecretMask(), 256
    for number in range(count):
        mask.learn([f"tricycle-{number:03}"])
    assert len(compiled) <= count * 9
    assert mask.mask("tricycle-000 tricycle-130 tricycle-255 tricycle-256") == f"{HIDDEN} {HIDDEN} {HIDDEN} tricycle-256"
