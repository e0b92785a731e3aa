"""How to reach S3: one set of settings for the worker, which writes data files, and for Spark, which commits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_HADOOP = "spark.hadoop."
_S3A = "fs.s3a."
S3A_PREFIX = _HADOOP + _S3A
_SCHEME = re.compile(r"^s3[an]?://")


def is_s3(location: str) -> bool:
    return _SCHEME.match(location) is not None


def with_s3a_scheme(location: str) -> str:
    """The location under the only name of S3 that Spark knows, ``s3a://``."""
    return _SCHEME.sub("s3a://", location)


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Settings of one bucket. What is empty is found in the environment, or from the role of the machine, by every client
    itself."""

    endpoint: str = ""
    """With its scheme; empty for AWS."""
    region: str = ""
    path_style: bool = False
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings of S3A, all that the connector has and those from the environment that S3A does not read there."""


def read_s3_settings(conf: Mapping[str, str], location: str, environment: Mapping[str, str] | None = None) -> S3Settings | None:
    """The settings for a location, from ``spark.hadoop.fs.s3a.*`` (those of the bucket first), else from the standard
    variables; None if the location is not on S3."""
    if not is_s3(location):
        return None
    bucket = _SCHEME.sub("", location).partition("/")[0]
    environment = os.environ if environment is None else environment
    own = {key.removeprefix(_HADOOP): value for key, value in conf.items() if key.startswith(S3A_PREFIX)}

    def given(name: str) -> str | None:
        return own.get(f"{_S3A}bucket.{bucket}.{name}", own.get(_S3A + name))

    endpoint = given("endpoint") or environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    if endpoint and "://" not in endpoint:
        endpoint = f"{'http' if given('connection.ssl.enabled') == 'false' else 'https'}://{endpoint}"
    region = given("endpoint.region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    # Stores other than AWS rarely have a host name per bucket.
    path_style = (given("path.style.access") or str(bool(endpoint))).lower() == "true"
    derived = {"endpoint": endpoint, "endpoint.region": region, "path.style.access": str(path_style).lower()}
    options = {_S3A + name: value for name, value in derived.items() if value} | own
    return S3Settings(
        endpoint=endpoint,
        region=region,
        path_style=path_style,
        access_key=given("access.key") or "",
        secret_key=given("secret.key") or "",
        session_token=given("session.token") or "",
        options=tuple(sorted(options.items())),
    )
