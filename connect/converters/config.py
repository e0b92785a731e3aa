"""The configuration key that every converter has."""

from __future__ import annotations

from connect.config.definition import NO_DEFAULT, ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of

TYPE = "converter.type"
KEY_TYPE = "key"
VALUE_TYPE = "value"
HEADER_TYPE = "header"


def converter_config_def() -> ConfigDef:
    """Returns a new ConfigDef with ``converter.type``, which the worker sets according to the converter's use."""
    return ConfigDef().define(
        TYPE,
        ConfigType.STRING,
        NO_DEFAULT,
        validator=one_of(KEY_TYPE, VALUE_TYPE, HEADER_TYPE),
        importance=Importance.LOW,
        doc="How this converter will be used.",
    )


def type_for(is_key: bool) -> str:
    """Returns the ``converter.type`` of a key or value converter. As in Apache, the user's setting is ignored."""
    return KEY_TYPE if is_key else VALUE_TYPE
