"""A configuration is refused for what is wrong with any of its keys, those of Sluice's own included."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.errors import BadRequestError
from worker.config.secrets import SecretMask
from worker.validation.config_validator import ConfigValidator


def check_of(*errors: str) -> ConfigValidator:
    """Over plugins that find these errors."""
    configs = [{"definition": None, "value": {"name": "file", "errors": list(errors)}}]
    answer = {"name": "c", "error_count": len(errors), "groups": [], "configs": configs}
    executor = SimpleNamespace(validate=lambda config, values: answer)
    values = SimpleNamespace(resolve_for_validation=lambda config: SimpleNamespace(values=dict(config), secrets={}))
    return ConfigValidator(cast(Any, executor), cast(Any, values), SecretMask())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("errors.restart.max.attempts", "many", "Invalid value many for configuration errors.restart.max.attempts: Not a number"),
        ("errors.restart.delay.initial.ms", "-4", "Value must be at least 1"),
        ("errors.deadletterqueue.source.topic.replication.factor", "x", "Not a number of type SHORT"),
        ("conversion.strict", "perhaps", "Invalid value perhaps for configuration conversion.strict"),
    ],
)
def test_a_wrong_value_of_a_key_that_apache_has_not_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message) as refused:
        check_of("File is missing").require_valid({"name": "c", key: value})
    assert "contains the following 2 error(s):\nFile is missing\n" in refused.value.message
    with pytest.raises(BadRequestError, match="contains the following 1 error"):
        check_of().require_valid({"name": "c", key: value})


def test_right_values_and_none_are_taken() -> None:
    config = {"name": "c", "errors.restart.max.attempts": "-1", "errors.restart.delay.max.ms": None}
    assert check_of().require_valid(config) == config
