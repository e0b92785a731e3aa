"""Settings of S3 for the worker and for Spark."""

from __future__ import annotations

import pytest

from connectors.spark.config import parse_config
from connectors.spark.s3_settings import S3Settings, read_s3_settings

ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "http://store:9000",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "of the environment",
}


def read(conf: dict[str, str], environment: dict[str, str] | None = None) -> S3Settings:
    keys = {f"spark.hadoop.fs.s3a.{name}": value for name, value in conf.items()}
    found = read_s3_settings(keys, "s3a://bucket/lake", environment or {})
    assert found is not None
    return found


def test_worker_uses_the_settings_that_are_given_to_spark() -> None:
    conf = {
        "endpoint": "store:9000",
        "connection.ssl.enabled": "false",
        "access.key": "a",
        "secret.key": "s",
        "session.token": "t",
    }
    found = read({**conf, "endpoint.region": "eu-west-1"}, ENVIRONMENT)
    assert (found.endpoint, found.region, found.path_style) == ("http://store:9000", "eu-west-1", True)
    assert (found.access_key, found.secret_key, found.session_token) == ("a", "s", "t")
    assert dict(found.options)["fs.s3a.endpoint"] == "store:9000"
    assert dict(found.options)["fs.s3a.path.style.access"] == "true"


def test_settings_of_the_bucket_come_first() -> None:
    found = read({"endpoint": "https://all", "bucket.bucket.endpoint": "https://one", "path.style.access": "false"})
    assert (found.endpoint, found.path_style) == ("https://one", False)


def test_spark_gets_endpoint_and_region_of_the_environment_but_no_credentials() -> None:
    assert dict(read({}, ENVIRONMENT).options) == {
        "fs.s3a.endpoint": "http://store:9000",
        "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.path.style.access": "true",
    }
    assert dict(read({}).options) == {"fs.s3a.path.style.access": "false"}


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(read({"secret.key": "secret", "session.token": "secret"}))


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_location_has_the_scheme_that_spark_knows(scheme: str) -> None:
    parsed = parse_config({"topics": "t", "table.location": f"{scheme}://bucket/lake/"})
    assert parsed.location == "s3a://bucket/lake"
    assert parsed.spark.s3 is not None


def test_other_locations_have_no_settings() -> None:
    assert parse_config({"topics": "t", "table.location": "/lake"}).spark.s3 is None
