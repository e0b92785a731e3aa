"""Configuration of the registry: accepted and rejected values, and hidden secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from connect.config.parsing import Password
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connectors.registry.avro.converter import AvroConverter
from connectors.registry.client import BoundedCache
from connectors.registry.config import RegistryConfig, SubjectNameStrategy, parse_registry_config
from connectors.registry.json_schema.converter import JsonSchemaConverter
from connectors.registry.protobuf.converter import ProtobufConverter

_URL = "schema.registry.url"


def _settings(configs: Mapping[str, str], *, is_key: bool = False) -> RegistryConfig:
    values = AvroConverter.config_def().parse({"converter.type": "value", _URL: "http://localhost:8081", **configs})
    return parse_registry_config(values, is_key)


def test_credentials_are_removed_from_addresses() -> None:
    settings = _settings({_URL: "http://user:p%40ss@one:8081/api/ , https://two"})
    assert settings.urls == ("http://one:8081/api/", "https://two")
    assert settings.user_info == Password("user:p@ss")
    assert "p@ss" not in repr(settings)


def test_keys_and_values_have_separate_subject_name_strategies() -> None:
    configs = {"key.subject.name.strategy": "RecordNameStrategy"}
    assert _settings(configs, is_key=True).strategy is SubjectNameStrategy.RECORD
    assert _settings(configs).strategy is SubjectNameStrategy.TOPIC


def test_a_token_is_never_printed() -> None:
    settings = _settings({"bearer.auth.token": "hush", "bearer.auth.logical.cluster": "lsrc-1"})
    assert settings.bearer["bearer.auth.token"] == "hush"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({_URL: ""}, "set at least one address"),
        ({_URL: "http://good,user:hush@bad:8081"}, "address 2 of 2 is not of the form http://host:port"),
        ({_URL: "http://user:hush@host:port"}, "address 1 of 1 is not of the form"),
        ({"basic.auth.credentials.source": "NOWHERE"}, "expected URL, USER_INFO or SASL_INHERIT"),
        ({"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "hush"}, "must be user:password"),
        ({"basic.auth.credentials.source": "SASL_INHERIT", "sasl.jaas.config": "x username=hush;"}, "must name a login module"),
        (
            {"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.secret": "hush"},
            "must be given too: bearer",
        ),
        ({"bearer.auth.token": "hush", _URL: "http://a:b@c"}, "a bearer token or a password, not both"),
        ({"proxy.host": "proxy"}, "expected 1 to 65535, since proxy.host is given"),
        ({"schema.registry.ssl.endpoint.identification.algorithm": ""}, "cannot be disabled"),
        ({"value.subject.name.strategy": "com.example.Own"}, "Known are TopicNameStrategy, RecordNameStrategy"),
        ({"max.schemas.per.subject": "0"}, "Value must be at least 1"),
    ],
)
def test_inconsistent_settings_are_rejected_without_showing_secrets(configs: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as failed:
        _settings(configs)
    assert "hush" not in str(failed.value)


@pytest.mark.parametrize("kind", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_secrets_are_of_the_secret_type(kind: type[Any]) -> None:
    words = ("password", "secret", "token", "user.info", "jaas.config", "keystore.key", "certificate.chain", "certificates")
    for key in kind.config_def().keys.values():
        assert (key.type is ConfigType.PASSWORD) == key.name.endswith(words)


def test_an_unconfigured_converter_raises_an_error() -> None:
    with pytest.raises(Exception, match="AvroConverter was not configured, or is closed"):
        AvroConverter().to_connect_data("t", b"\0\0\0\0\1")


def test_configuring_sends_no_request_to_the_registry(configured: Callable[..., Any], registry: Any) -> None:
    for kind in (AvroConverter, JsonSchemaConverter, ProtobufConverter):
        configured(kind).close()
    assert registry.asked == 0


def test_missing_schemas_are_not_cached() -> None:
    kept = BoundedCache(2)
    assert kept.get("a", lambda: None) is None
    assert kept.get("a", lambda: 1) == 1
    assert kept.get("a", lambda: 2) == 1
    assert [kept.get(key, lambda: 3) for key in "bc"] == [3, 3]  # full: what was kept goes
    assert kept.get("a", lambda: 4) == 4
    assert kept.get("a", lambda: 5, ttl_s=0) == 5
