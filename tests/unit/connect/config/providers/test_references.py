"""References in configurations, as Kafka's ConfigTransformer takes them."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.providers.references import Expiry, find_references, is_reference, resolve_references
from connect.errors import ConfigError

# Kafka's own expression; it is not what the code uses, for it takes cubic time on hostile text.
_KAFKAS = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")


class Told(ConfigProvider):
    """Answers what it was told, and notes what it was asked."""

    def __init__(self, data: dict[str, dict[str, str]], ttl_ms: int | None = None) -> None:
        self.data = data
        self.ttl_ms = ttl_ms
        self.asked: list[tuple[str, set[str]]] = []

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        self.asked.append((path, set(keys or ())))
        return ConfigData(self.data[path], self.ttl_ms)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${p:k}", [("p", "", "k")]),
        ("${p:a/b:k}", [("p", "a/b", "k")]),
        ("${p:a:b:c}", [("p", "a", "b:c")]),
        ("x${p:k}y${q:r:s}z", [("p", "", "k"), ("q", "r", "s")]),
        ("$${p:k}", [("p", "", "k")]),
        ("${p:${q:k}}", [("p", "${q", "k")]),
        ("${abc} ${abc${p:k}", [("abc${p", "", "k")]),
        ("${topic}-${timestamp}", []),
        ("${:k} ${p:} ${p::k}", [("", "", "k"), ("p", "", ""), ("p", "", "k")]),
        ("${p:k", []),
    ],
)
def test_references_are_recognized(text: str, found: list[tuple[str, str, str]]) -> None:
    assert [(r.provider, r.path, r.key) for r in find_references(text)] == found


@given(st.text(alphabet="${}:ab", max_size=30))
def test_references_match_kafkas_expression(text: str) -> None:
    expected = [(m[1], m[3] or "", m[4], m.start(), m.end()) for m in _KAFKAS.finditer(text)]
    assert [(r.provider, r.path, r.key, r.start, r.end) for r in find_references(text)] == expected


def test_references_are_replaced_once_by_their_values() -> None:
    provider = Told({"": {"k": "${p:other}", "other": "no"}, "a": {"x": "1", "y": "2"}})
    config = {"one": "<${p:k}>", "two": "${p:a:x}-${p:a:y}", "three": "${q:a:b} ${p:a:z}", "four": None, "five": "plain"}
    found = resolve_references(config, {"p": provider})
    assert found.values == {"one": "<${p:other}>", "two": "1-2", "three": "${q:a:b} ${p:a:z}", "four": None, "five": "plain"}
    assert found.secrets == {"${p:other}", "1", "2"}
    assert [(key, reference.text) for key, reference in found.unresolved] == [("three", "${p:a:z}")]
    assert provider.asked == [("", {"k"}), ("a", {"x", "y", "z"})]
    assert found.expiries == ()
    assert "p:other" not in repr(found)


def test_expiring_values_are_reported_once_per_path() -> None:
    config = {"one": "${p:a:x}", "two": "${p:a:x}", "three": "${q:b:y}"}
    providers = {"p": Told({"a": {"x": "1"}}, 500), "q": Told({"b": {"y": "1"}}, -1)}
    assert resolve_references(config, providers).expiries == (Expiry("p", "a", 500, restarts_only_if_changed=False),)


def test_failing_provider_is_named_with_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_references({"db.password": "${vault:a:x}"}, {"vault": Told({})})
    assert caught.value.message == "KeyError: 'a' (config provider 'vault', for ${vault:a:x} of db.password)"
    assert caught.value.key == "db.password"


def test_single_reference_is_distinguished_from_text_with_references() -> None:
    assert [is_reference(text) for text in ("${p:k}", "${p:k}x", "${p:k}${p:l}", "p:k", "")] == [True, False, False, False, False]
