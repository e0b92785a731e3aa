"""What a mask learns is told to whoever has to know it too."""

from __future__ import annotations

from connect.config.parsing import HIDDEN
from worker.config.secrets import SecretMask


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
