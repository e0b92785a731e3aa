"""The Helm chart renders valid objects, and they fit a worker: its file, its signals, its connectors, and its secrets."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from connect.config.properties import read_properties
from sluice.cli import COMMANDS
from tests.support.helm_chart import ChartError, render_chart
from tests.support.kubernetes_schemas import kubernetes_errors
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig

HERE = Path(__file__).parent
KUBERNETES = HERE.parents[2] / "configs" / "kubernetes"
CHART = KUBERNETES / "helm" / "sluice"
MANIFESTS = KUBERNETES / "manifests" / "sluice.yaml"
HEAD = "# The chart in configs/kubernetes/helm/sluice with its default values. Generated: see docs/kubernetes.md."
CASES = {"default": MANIFESTS, "full": HERE / "golden" / "full.yaml", "bare": HERE / "golden" / "bare.yaml"}
Objects = dict[tuple[str, str], dict[str, Any]]


def _values(case: str) -> dict[str, Any]:
    path = HERE / f"{case}.values.yaml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8")) if path.exists() else {}
    return found


def _render(case: str) -> Objects:
    return {(one["kind"], one["metadata"]["name"]): one for one in render_chart(CHART, _values(case))}


@pytest.mark.parametrize("case", CASES)
def test_chart_renders_as_helm_does(case: str) -> None:
    """The golden files and the manifests are written by Helm: with SLUICE_WRITE_GOLDEN=1, and `helm` on the PATH."""
    golden = CASES[case]
    if "SLUICE_WRITE_GOLDEN" in os.environ:
        values = [] if case == "default" else ["--values", str(HERE / f"{case}.values.yaml")]
        command = ["helm", "template", "sluice", str(CHART), "--namespace", "default", "--kube-version", "1.30.0", *values]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        golden.write_text(f"{HEAD}\n{text}" if case == "default" else text)
    documents = yaml.safe_load_all(golden.read_text("utf-8"))
    expected = {(one["kind"], one["metadata"]["name"]): one for one in documents if one}
    assert _render(case) == expected, "write it with: SLUICE_WRITE_GOLDEN=1 python -m pytest tests/unit/kubernetes (needs helm)"


@pytest.mark.parametrize("case", CASES)
def test_objects_match_the_schemas_of_kubernetes(case: str) -> None:
    objects = [one for (kind, _), one in _render(case).items() if kind != "ServiceMonitor"]
    assert [error for one in objects for error in kubernetes_errors(one)] == []


def test_schemas_find_misspelled_fields() -> None:
    stateful_set = _render("default")["StatefulSet", "sluice"]
    stateful_set["spec"]["template"]["spec"]["terminationGracePeriod"] = 5
    (error,) = kubernetes_errors(stateful_set)
    assert "terminationGracePeriod" in error


@pytest.mark.parametrize("case", CASES)
def test_values_match_their_schema(case: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    validator = jsonschema.Draft7Validator(schema)
    defaults = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert list(validator.iter_errors({**defaults, **_values(case)})) == []
    assert set(defaults) | {"global"} == set(schema["properties"]), "values.schema.json does not have every value"
    assert list(validator.iter_errors({**defaults, "replica": 3}))
    assert list(validator.iter_errors({**defaults, "connectors": {"orders.txt": "name=orders"}}))


def _properties(case: str, tmp_path: Path) -> dict[str, str]:
    (config_map,) = (one for (kind, name), one in _render(case).items() if kind == "ConfigMap" and name.endswith("-worker"))
    file = tmp_path / "worker.properties"
    file.write_text(config_map["data"]["worker.properties"])
    return dict(read_properties(file))


@pytest.mark.parametrize("case", CASES)
def test_workers_accept_their_file(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "jaas.conf").write_text("secret")
    mounted = str(tmp_path)
    properties = {key: value.replace("/run/secrets", mounted) for key, value in _properties(case, tmp_path).items()}
    monkeypatch.setenv("SLUICE_POD_HOST", "sluice-0.sluice-workers.default.svc")
    config = WorkerConfig.for_cluster(properties, SecretMask())
    assert config.distributed is not None
    assert config.distributed.group_id == ("shop-connect" if case == "full" else "sluice")
    assert config.rest_advertised_host_name == "sluice-0.sluice-workers.default.svc"


def _pod(case: str) -> dict[str, Any]:
    (found,) = (one for (kind, _), one in _render(case).items() if kind == "StatefulSet")
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


@pytest.mark.parametrize("case", CASES)
def test_pods_are_restricted_and_stop_gracefully(case: str) -> None:
    pod = _pod(case)
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not pod["automountServiceAccountToken"]
    pause_s = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= pause_s + 30
    assert container["readinessProbe"]["httpGet"]["path"] == "/health/ready"
    assert container["livenessProbe"]["httpGet"]["path"] == container["startupProbe"]["httpGet"]["path"] == "/health/live"


@pytest.mark.parametrize("case", CASES)
def test_every_mount_has_a_volume_and_every_reference_an_object(case: str) -> None:
    objects, pod = _render(case), _pod(case)
    volumes = {one["name"]: one for one in pod["volumes"]}
    (container,) = pod["containers"]
    assert {one["name"] for one in container["volumeMounts"]} == set(volumes)
    assert all("subPath" not in one for one in container["volumeMounts"]), "files with subPath do not follow their ConfigMap"
    for name in ("worker", "connectors"):
        config_map = volumes[name]["configMap"]["name"]
        assert ("ConfigMap", config_map) in objects or (case == "bare" and config_map == "team-connectors")
    assert {one["secret"]["secretName"] for one in volumes.values() if "secret" in one} == set(_values(case).get("secrets", ()))
    (stateful_set,) = (one for (kind, _), one in objects.items() if kind == "StatefulSet")
    assert ("Service", stateful_set["spec"]["serviceName"]) in objects
    labels = stateful_set["spec"]["template"]["metadata"]["labels"]
    for (kind, name), one in objects.items():
        if kind == "Service":
            assert one["spec"]["selector"].items() <= labels.items(), name


def test_service_monitor_selects_only_the_service_of_clients() -> None:
    objects = _render("full")
    wanted = objects["ServiceMonitor", "sluice"]["spec"]["selector"]["matchLabels"].items()
    assert [
        name for (kind, name), one in objects.items() if kind == "Service" and wanted <= one["metadata"]["labels"].items()
    ] == ["sluice"]


def test_change_of_the_worker_file_restarts_the_pods_and_a_connector_does_not() -> None:
    def annotations(values: dict[str, Any]) -> Any:
        (found,) = (one for one in render_chart(CHART, values) if one["kind"] == "StatefulSet")
        return found["spec"]["template"]["metadata"]["annotations"]

    assert annotations({"connectors": {"a.properties": "name=a"}}) == annotations({})
    assert annotations({"kafka": {"bootstrapServers": "other:9092"}}) != annotations({})


def test_verification_runs_on_a_schedule_with_the_worker_file_and_its_secrets() -> None:
    values = {**_values("full"), "verification": {"enabled": True, "connector": "orders-source"}}
    (job,) = (one for one in render_chart(CHART, values) if one["kind"] == "CronJob")
    assert (job["apiVersion"], job["spec"]["schedule"], job["spec"]["concurrencyPolicy"]) == ("batch/v1", "0 3 * * *", "Forbid")
    template = job["spec"]["jobTemplate"]["spec"]["template"]
    # The schemas have no CronJob, but its pods.
    stateful_set = _render("full")["StatefulSet", "sluice"]
    stateful_set["spec"]["template"] = template
    assert kubernetes_errors(stateful_set) == []
    pod = template["spec"]
    (container,) = pod["containers"]
    context = COMMANDS["verify"].load().make_context("verify", container["args"][2:])
    assert context.params["connector"] == "orders-source"
    assert context.params["timeout"] == 3600
    assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
    (worker,) = _pod("full")["containers"]
    assert context.params["url"] == f"http://sluice:{worker['ports'][0]['containerPort']}"
    for name in ("envFrom", "image", "securityContext"):
        assert container[name] == worker[name]
    services = [one for one in render_chart(CHART, values) if one["kind"] == "Service"]
    labels = template["metadata"]["labels"].items()
    assert not any(one["spec"]["selector"].items() <= labels for one in services)
    assert not any(kind == "CronJob" for kind, _ in _render("full"))


def test_verification_has_credentials_of_its_own_and_reaches_the_workers() -> None:
    own = {"url": "https://connect:8443", "tokenSecret": "verify-token", "userSecret": "verify-user", "caSecret": "verify-ca"}
    values = {**_values("full"), "verification": {"enabled": True, "connector": "orders-source", **own}}
    objects = {one["kind"]: one for one in render_chart(CHART, values)}
    template = objects["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]
    stateful_set = _render("full")["StatefulSet", "sluice"]
    stateful_set["spec"]["template"] = template
    assert kubernetes_errors(stateful_set) == []
    (container,) = template["spec"]["containers"]
    assert COMMANDS["verify"].load().make_context("verify", container["args"][2:]).params["url"] == "https://connect:8443"
    secrets = {one["name"]: tuple(one["valueFrom"]["secretKeyRef"].values()) for one in container["env"] if "valueFrom" in one}
    assert secrets == {
        "SLUICE_CONNECT_TOKEN": ("verify-token", "token"),
        "SLUICE_CONNECT_USER": ("verify-user", "username"),
        "SLUICE_CONNECT_PASSWORD": ("verify-user", "password"),
    }
    (ca_file,) = (one["value"] for one in container["env"] if one["name"] == "SLUICE_CONNECT_CA_FILE")
    (mount,) = (one for one in container["volumeMounts"] if ca_file.startswith(one["mountPath"] + "/"))
    (volume,) = (one for one in template["spec"]["volumes"] if one["name"] == mount["name"])
    assert volume["secret"]["secretName"] == "verify-ca"
    peers = objects["NetworkPolicy"]["spec"]["ingress"][0]["from"]
    labels = template["metadata"]["labels"]
    assert [one for one in peers if "podSelector" in one and one["podSelector"]["matchLabels"].items() <= labels.items()]


def test_missing_values_are_named() -> None:
    with pytest.raises(ChartError, match=r"verification\.connector is required"):
        render_chart(CHART, {"verification": {"enabled": True}})
    with pytest.raises(ChartError, match=r"kafka\.bootstrapServers is required"):
        render_chart(CHART, {"kafka": {"bootstrapServers": ""}})
    with pytest.raises(ChartError, match=r"ingress\.host is required"):
        render_chart(CHART, {"ingress": {"enabled": True}})


def test_chart_has_the_version_of_the_product() -> None:
    from scripts.build_release import ROOT, read_project

    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert about["appVersion"] == about["version"] == read_project(ROOT)["version"]
