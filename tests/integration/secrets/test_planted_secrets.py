"""Promise 9 as a whole: more than a hundred secrets, planted in every configuration and failure of a worker, appear in nothing
that it prints, answers, stores as a status, traces, or measures, and in nothing that commands, page, and assistant show.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from mcp import Client, StdioServerParameters
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Page, Request, expect

from connect.config.properties import write_properties
from rest.client import ConnectClient
from rest.credentials import ClientCredentials
from rest.security.passwords import hash_password, hash_token
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.topics import read_topic
from tests.cluster.worker_process import SLUICE, WorkerProcess
from tests.integration.secrets.planting import Planted
from tests.integration.secrets.plugins import SINK, SOURCE
from tests.support.chromium import TIMEOUT_MS, chromium
from tests.support.span_collector import SpanCollector
from tests.support.waiting import WAIT_S

AROUND = "/+ %\"\\'é&x"
"""Characters that are written in other ways in URLs, JSON, Python's text, and base64."""
JSON = "org.apache.kafka.connect.json.JsonConverter"
AVRO = "io.confluent.connect.avro.AvroConverter"
NAMES = (
    "db.password", "database.password", "connection.password", "password", "ssl.keystore.password", "ssl.key.password",
    "ssl.truststore.password", "ssl.keystore.key", "aws.secret.access.key", "client.secret", "api.key", "api-key", "apikey",
    "private.key", "private-key", "auth.token", "oauth.token.value", "basic.auth.user.info", "credentials.json",
    "schema.registry.token", "spark.conf.spark.hadoop.fs.s3a.secret.key",
)  # fmt: skip
PREFIXES = ("producer.override.", "consumer.override.", "admin.override.", "key.converter.", "predicates.p.", "transforms.t.")
URLS = (
    "jdbc:postgresql://u:{}@127.0.0.1:1/db", "jdbc:postgresql://127.0.0.1:1/db?user=u&password={}",
    "jdbc:sqlserver://h;password={};x=1",
    "postgresql://u:{}@h/db", "https://u:{}@registry:8081", "mysql://root:{}@h:3306/db", "https://h/path?token={}",
    "https://h/?access_key={}", "jdbc:oracle:thin:scott/{}@h:1521:db", "mongodb://u:{}@a,b/?x=1",
)  # fmt: skip


@dataclass
class Site:
    """A worker with planted secrets, and everything that it and its tools have shown."""

    planted: Planted
    worker: WorkerProcess
    folder: Path
    admin: ClientCredentials
    collector: SpanCollector
    shown: dict[str, list[str]] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)

    def show(self, place: str, text: str) -> None:
        self.shown.setdefault(place, []).append(text)

    def as_viewer(self) -> ConnectClient:
        return ConnectClient(self.worker.url, credentials=ClientCredentials(token=(self.folder / "viewer").read_text()))

    def ask(self, client: ConnectClient, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, answer = client.send(method, path, body)
        self.asked.add((method, path.partition("?")[0]))
        self.show("REST", f"{method} {path}: {status} {answer if isinstance(answer, str) else json.dumps(answer)}")
        return status, answer


def worker_settings(planted: Planted, folder: Path, broker: EmbeddedBroker) -> dict[str, str]:
    name = f"secrets-{uuid4().hex[:8]}"
    kinds = ("producer", "consumer", "admin")
    (folder / "provided.properties").write_text(
        f"one={planted.secret('file provider')}\ntwo={planted.secret('file provider URL')}\n"
    )
    (folder / "dir").mkdir()
    (folder / "dir" / "pin").write_text(planted.secret("directory provider"))
    (folder / "users").write_text(f"admin:{hash_password(password := planted.secret('REST user'))}\n")
    (folder / "admin").write_text(password)
    (folder / "viewer").write_text(planted.secret("REST token"))
    (folder / "tokens").write_text(f"viewer:{hash_token((folder / 'viewer').read_text())}\n")
    (folder / "roles.yaml").write_text("bindings: [{role: viewer, users: [viewer]}, {role: admin, users: [admin]}]")
    return {
        "bootstrap.servers": broker.bootstrap, "group.id": name, "key.converter": JSON, "value.converter": JSON,
        "value.converter.schemas.enable": "false", "task.executors": "1", "offset.flush.interval.ms": "200",
        **{f"{what}.storage.topic": f"{name}-{what}" for what in ("config", "offset", "status")},
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
        "offset.storage.partitions": "1", "status.storage.partitions": "1", "task.shutdown.graceful.timeout.ms": "1000",
        "rest.authentication": "basic,bearer", "rest.authentication.users.file": str(folder / "users"),
        "rest.authentication.tokens.file": str(folder / "tokens"), "rest.authorization.roles.file": str(folder / "roles.yaml"),
        "rest.authentication.session.secret": planted.secret("session secret") + "x" * 32,
        "rest.authentication.oidc.client.secret": planted.secret("OIDC client secret"),
        "rest.audit.log.file": str(folder / "audit"), "tracing.enabled": "true", "task.stall.timeout.ms": "1000",
        "config.providers": "file,env,dir", "config.providers.file.class": "FileConfigProvider",
        "config.providers.env.class": "EnvVarConfigProvider", "config.providers.dir.class": "DirectoryConfigProvider",
        "value.converter.basic.auth.user.info": f"u:{planted.secret('worker converter')}",
        "my.own.password": planted.secret("unknown key of the worker"),
        **{f"{kind}.ssl.key.password": planted.secret(f"worker {kind} key") for kind in kinds},
        **{f"{kind}.sasl.oauthbearer.client.credentials.client.secret": planted.secret(f"worker {kind} OAuth") for kind in kinds},
        **{f"{kind}.sasl.jaas.config": jaas(planted.secret(f"worker {kind} JAAS")) for kind in kinds},
        **{f"listeners.https.ssl.{what}.password": planted.secret(f"worker {what}") for what in ("key", "keystore")},
    }  # fmt: skip


def jaas(secret: str) -> str:
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{secret}";'


def connectors(planted: Planted, folder: Path, topic: str) -> dict[str, dict[str, str]]:
    """Connectors by name, of all kinds and for all ways of failing."""

    def leaks(name: str) -> dict[str, str]:
        plain = {f"leak.{number}": planted.secret(f"{name} leak.{number}") for number in range(3)}
        hard = {f"leak.{number}": planted.secret(f"{name} leak.{number}", AROUND) for number in range(3, 6)}
        return {**plain, **hard, "leak.6": "-----BEGIN KEY-----\n" + planted.secret(f"{name} leak.6") + "\n-----END KEY-----"}

    def source(name: str, does: str) -> dict[str, str]:
        return {"connector.class": SOURCE, "tasks.max": "1", "does": does, **leaks(name)}

    provided = "${file:" + str(folder / "provided.properties")
    database = "jdbc:postgresql://127.0.0.1:1/db?user=u&password="
    lines = {"connector.class": "FileStreamSource", "topic": topic, "file": str(folder / "in.txt")}
    sink = {
        "topics": topic,
        "tasks.max": "1",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
    }
    dead = {
        "errors.deadletterqueue.topic.name": f"{topic}-dlq",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    named = {
        f"{prefix}{key}": planted.secret(f"{prefix}{key}")
        for prefix in ("", *PREFIXES)
        for key in NAMES
        if prefix in ("", "key.converter.")
    }
    nested = {f"{prefix}{key}": planted.secret(f"{prefix}{key}") for prefix in PREFIXES for key in NAMES[4:8]}
    urls = {f"url.{number}": url.format(planted.secret(f"URL {url}")) for number, url in enumerate(URLS)}
    quoted = {"url.quoted": f"https://u:{quote(planted.secret('quoted URL', AROUND), safe='')}@h/"}
    return {
        "running": source("running", ""),
        "retrying": source("retrying", "retry"),
        "failed": source("failed", "fail"),
        "unstarted": source("unstarted", "fail start"),
        "crashed": {**source("crashed", "crash"), "task.isolation": "dedicated"},
        "leaky-sink": {"connector.class": SINK, **sink, **dead, **leaks("leaky-sink")},
        "named": {**lines, **named, **nested, **urls, **quoted},
        "provided": {
            **lines,
            "a.password": provided + ":one}",
            "code": "${dir:" + str(folder / "dir") + ":pin}",
            "some.url": "https://u:" + provided + ":two}@h/",
            "b.password": "${env:PLANTED_IN_ENVIRONMENT}",
            "file": "/nowhere/${env:PLANTED_IN_ENVIRONMENT}/x",
        },
        "avro": {
            "connector.class": "FileStreamSink",
            **sink,
            "errors.tolerance": "none",
            "file": str(folder / "out.txt"),
            "value.converter": AVRO,
            "value.converter.schema.registry.url": f"http://u:{planted.secret('registry URL')}@127.0.0.1:1",
            "value.converter.basic.auth.credentials.source": "USER_INFO",
            "value.converter.basic.auth.user.info": f"u:{planted.secret('registry basic auth', '+&')}",
        },
        "refused-by-broker": {
            "connector.class": "FileStreamSink",
            **sink,
            "errors.tolerance": "none",
            "file": str(folder / "out2.txt"),
            "consumer.override.security.protocol": "SASL_PLAINTEXT",
            "consumer.override.sasl.mechanism": "PLAIN",
            "consumer.override.sasl.jaas.config": jaas(planted.secret("JAAS of a consumer")),
        },
        "jdbc": {
            "connector.class": "JdbcSource",
            "connection.url": database + planted.secret("JDBC URL"),
            "connection.password": planted.secret("JDBC password", AROUND),
            "mode": "bulk",
            "topic.prefix": "t-",
            "connection.attempts": "1",
        },
        "provided-jdbc": {
            "connector.class": "JdbcSource",
            "connection.url": database + provided + ":two}",
            "connection.password": "${env:PLANTED_IN_ENVIRONMENT}",
            "mode": "bulk",
            "topic.prefix": "t-",
            "connection.attempts": "1",
        },
        "postgres": {
            "connector.class": "PostgresConnector",
            "database.hostname": "127.0.0.1",
            "database.port": "1",
            "database.user": "u",
            "database.password": planted.secret("PostgreSQL password", AROUND),
            "database.dbname": "d",
            "topic.prefix": "p",
            "plugin.name": "pgoutput",
        },
    }


@pytest.fixture
def site(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    planted = Planted()
    collector = SpanCollector()
    settings = worker_settings(planted, tmp_path, broker)
    worker = WorkerProcess(SLUICE, tmp_path, "worker", settings)
    admin = ClientCredentials(user="admin", password=(tmp_path / "admin").read_text())
    worker.client = ConnectClient(worker.url, credentials=admin)
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_RESOURCE_ATTRIBUTES": f"db.password={planted.secret('resource attribute')}",
        "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={planted.secret('header of the exporter')}",
        "PLANTED_IN_ENVIRONMENT": planted.secret("environment provider"),
        "PGPASSWORD": planted.secret("PGPASSWORD"),
        "PYTHONPATH": os.getcwd(),
    }
    worker.start(environment=environment)
    for name, value in (("URL", worker.url), ("USER", "admin"), ("PASSWORD", admin.password)):
        monkeypatch.setenv(f"SLUICE_CONNECT_{name}", value or "")
    monkeypatch.setenv("PLANTED_IN_ENVIRONMENT", environment["PLANTED_IN_ENVIRONMENT"])
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLUICE_BOOTSTRAP_SERVERS", broker.bootstrap)
    worker.wait_until_up()
    yield Site(planted, worker, tmp_path, admin, collector)
    worker.end()
    collector.close()


def create_connectors(site: Site, configs: Mapping[str, Mapping[str, str]]) -> None:
    client = site.worker.client
    for name, config in configs.items():
        status, answer = client.send("POST", "/connectors", {"name": name, "config": dict(config)})
        if status != 201:  # what an admin has sent is no secret to the admin
            site.show("REST", f"POST {name}: {status} {json.dumps(answer)}")
    assert set(client.connectors()) == set(configs) - {"jdbc", "provided-jdbc", "postgres"}
    for name in ("failed", "unstarted", "crashed", "avro"):
        client.wait_for(name, "FAILED", timeout_s=WAIT_S)
    # A task's figures show that it runs, and repeats its call.
    site.worker.wait_for(
        lambda: "stalled" in json.dumps(client.send("GET", "/connectors/retrying/status")), WAIT_S, "a stalled task"
    )
    site.worker.wait_for(lambda: client.dead_letters("leaky-sink")["records"] >= 3, WAIT_S, "dead letters")


def ask_everything(site: Site, configs: Mapping[str, Mapping[str, str]]) -> None:
    """Calls each route: as a viewer, who may see no secret, and as an admin, except for configurations, which admins see."""
    admin = site.worker.client
    with site.as_viewer() as viewer:
        for name in admin.connectors():
            for rest in ("", "/config", "/tasks", "/status", "/offsets", "/topics", "/tasks/0/status"):
                site.ask(viewer, "GET", f"/connectors/{name}{rest}")
            for rest in ("history", "history/1", "progress", "diagnosis", "logs?tail=1000", "verification"):
                site.ask(viewer, "GET", f"/sluice/connectors/{name}/{rest}")
            for rest in ("dead-letters", "dead-letters/causes"):
                site.ask(admin, "GET", f"/sluice/connectors/{name}/{rest}")
            site.ask(admin, "GET", f"/sluice/connectors/{name}/history")
        for path in (
            "/", "/health", "/health/live", "/health/ready", "/metrics", "/openapi.json", "/connectors?expand=info&expand=status",
            "/connector-plugins", "/admin/loggers", "/sluice/progress?connectors=" + ",".join(configs), "/sluice/diagnosis",
            "/sluice/connectors-dir", "/sluice/auth/session",
        ):  # fmt: skip
            site.ask(viewer, "GET", path)
        site.ask(viewer, "PUT", "/connectors/named/config", configs["named"])
        site.ask(viewer, "PATCH", "/connectors/named/config", {"a.password": site.planted.secret("refused change")})
        site.ask(viewer, "POST", "/connectors", {"name": "refused", "config": configs["named"]})
        site.ask(viewer, "POST", "/sluice/connectors/named/rollback", {"version": 1})
        for name in ("running", "failed", "leaky-sink"):
            site.ask(viewer, "POST", f"/sluice/connectors/{name}/connection-test")
        plugin_paths = [quote(plugin, safe="") for plugin in (SOURCE, SINK, "JdbcSource", "PostgresConnector")]
        for plugin in plugin_paths:
            site.ask(viewer, "GET", f"/connector-plugins/{plugin}/config")
            site.ask(viewer, "GET", f"/sluice/connector-plugins/{plugin}/external-system")
        site.show("metrics", str(site.ask(viewer, "GET", "/metrics")[1]))
    for name, config in configs.items():
        plugin = config["connector.class"]
        for more in ({}, {"does": "refuse"}, {"does": "fail validate"}, {"tasks.max": "x"}):
            site.ask(
                admin, "PUT", f"/connector-plugins/{quote(plugin, safe='')}/config/validate", {"name": name, **config, **more}
            )
        for path in ("/sluice/connection-test", "/sluice/data-collections"):
            site.ask(admin, "POST", path, {"config": dict(config)})
            site.ask(admin, "POST", path, {"config": {"name": name, **config}})
        if name in admin.connectors():
            site.ask(admin, "POST", f"/sluice/connectors/{name}/connection-test")
        site.ask(admin, "POST", "/sluice/preview", {"config": {"name": name, **config}, "records": [{"value": 1}]})
    site.ask(admin, "POST", "/sluice/connectors/leaky-sink/dead-letters/replay", {"dry_run": True})
    site.ask(admin, "POST", "/connectors/failed/restart?includeTasks=true", None)
    with ConnectClient(
        site.worker.url, credentials=ClientCredentials(user="admin", password=site.planted.secret("wrong password"))
    ) as other:
        site.ask(other, "GET", "/connectors")
    with ConnectClient(site.worker.url, credentials=ClientCredentials(token=site.planted.secret("wrong token"))) as other:
        site.ask(other, "GET", "/connectors")


def change_everything(site: Site) -> None:
    """Calls the routes that change something, last. Answers with configurations, which admins see, are asked for with errors."""
    admin = site.worker.client
    partition = {"partition": {"secret": site.planted.secret("partition of an offset")}, "offset": {"n": 1}}
    for method, path, body in (
        ("PATCH", "/connectors/running/config", {"leak.0": site.planted.secret("body that is no config"), "x": [1]}),
        ("POST", "/sluice/connectors/running/rollback", {"version": 999}),
        ("POST", "/sluice/connectors/running/signals", {"type": "log", "data": {"message": "m"}}),
        ("POST", "/sluice/connectors/running/verification", {}),
        ("POST", "/connectors/running/tasks/0/restart", None),
        ("PUT", "/connectors/running/pause", None),
        ("PUT", "/connectors/running/resume", None),
        ("PUT", "/connectors/running/topics/reset", None),
        ("PUT", "/connectors/running/stop", None),
        ("PATCH", "/connectors/failed/offsets", {"offsets": [partition]}),
        ("DELETE", "/connectors/failed/offsets", None),
        ("DELETE", "/connectors/unstarted", None),
        ("PUT", "/admin/loggers/worker", {"level": "DEBUG"}),
        ("GET", "/admin/loggers/worker", None),
        ("POST", "/sluice/auth/session", {"user": "admin", "password": site.planted.secret("password of a wrong sign-in")}),
        ("DELETE", "/sluice/auth/session", None),
    ):  # fmt: skip
        site.ask(admin, method, path, body)


def find_routes_not_asked(site: Site) -> list[str]:
    """Returns the routes of the worker's OpenAPI document that nothing has asked."""
    document = site.worker.client.send("GET", "/openapi.json")[1]
    return [
        f"{method.upper()} {path}"
        for path, item in document["paths"].items()
        for method in item
        if not any(method.upper() == asked and re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), at) for asked, at in site.asked)
    ]


def call_commands(site: Site, files: Path, sluice: Callable[..., None]) -> None:
    record, client = site.folder / "records", site.folder / "client"
    for words in (
        ("get",), ("get", "-o", "json"), ("describe", "*"), ("describe", "*", "-o", "json"), ("diagnose",),
        ("diagnose", "-o", "json"), ("top", "--count", "1"), ("logs", "running"), ("logs", "failed", "-o", "json"),
        ("history", "named"), ("history", "failed", "--version", "1"), ("offsets", "get", "named"), ("dlq", "ls"),
        ("dlq", "ls", "-o", "json"), ("dlq", "show", "leaky-sink", "--trace"), ("dlq", "group", "leaky-sink"),
        ("dlq", "replay", "leaky-sink", "--dry-run"), ("plugins",), ("loggers", "ls"), ("lint", files),
        ("lint", "--strict", "-o", "json", files), ("plan", files), ("plan", "-o", "json", files), ("apply", "--dry-run", files),
        ("preview", files / "named.properties", "--records", record), ("auth", "whoami"), ("doctor",),
        ("topic", "describe", "__consumer_offsets", "--command-config", client),
        ("dlq", "replay", "leaky-sink", "--dry-run", "--transforms", site.folder / "transforms"),
        *(
            (command, *more, "--worker", site.folder / "providers", files / f"{name}.properties")
            for name in ("running", "failed", "retrying", "unstarted", "leaky-sink", "provided-jdbc", "jdbc", "postgres")
            for command in ("doctor", "tables")
            for more in ((), ("-o", "json"))
        ),
    ):  # fmt: skip
        sluice(*words)


def look_at_page(site: Site, role: str, page: Page) -> None:
    """Opens all views. Answers with configurations are an admin's to see; what the page shows and stores is not."""

    finished: list[Request] = []
    page.on("requestfinished", lambda request: finished.append(request))
    tabs: tuple[str, ...] = (
        "",
        "/config",
        "/history",
        "/offsets",
        "/logs",
        "/dead-letters",
        "/diagnosis",
        "/verification",
        "/activity",
        "/edit",
    )
    if role == "admin":
        tabs = tabs[:-1]  # whoever may change a URL gets it with its password into the form
    page.goto(f"{site.worker.url}/ui/")
    expect(page.locator("tbody tr").first).to_be_visible()
    site.show("page", page.content())
    for name in ("named", "leaky-sink"):
        for tab in tabs:
            page.goto(f"{site.worker.url}/ui/#/connectors/{name}{tab}")
            expect(page.get_by_role("heading", level=1)).to_contain_text(name)
            expect(page.locator(".loading")).to_have_count(0)
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            site.show("page", f"{role} {name}{tab}: {page.content()} {page.locator('body').inner_text()}")
            values = page.eval_on_selector_all("input, textarea, select", "all => all.map(one => one.value)")
            site.show("page", json.dumps(values))
        page.goto(f"{site.worker.url}/ui/#/connectors/{name}/config")
        with page.expect_download() as download:
            page.get_by_role("button", name=".properties").click()
        site.show("downloads", Path(download.value.path()).read_text())
    site.show("page", page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"))
    for request in finished if role == "viewer" else ():
        response = request.response() if request.resource_type in ("fetch", "xhr", "document") else None
        if response is not None and response.ok:
            with contextlib.suppress(PlaywrightError):  # the browser keeps no bodies of pages that it has left
                site.show("answers to the page", f"{request.url} {response.text()}")


def open_pages(site: Site) -> None:
    token = (site.folder / "viewer").read_text()
    with chromium() as browser:
        for role, header in (("viewer", f"Bearer {token}"), ("admin", site.admin.authorization() or "")):
            context = browser.new_context(extra_http_headers={"Authorization": header})
            context.set_default_timeout(TIMEOUT_MS)
            page = context.new_page()
            page.on("console", lambda message: site.show("console", message.text))
            look_at_page(site, role, page)
            context.close()


async def ask_assistant(site: Site, files: Path) -> None:
    words = ["-c", "from sluice.cli import main; main()", "mcp", "--url", site.worker.url, "--root", str(files)]
    environment = {
        "PYTHONPATH": os.getcwd(),
        "SLUICE_CONNECT_USER": "admin",
        "SLUICE_CONNECT_PASSWORD": site.admin.password or "",
    }
    async with Client(
        StdioServerParameters(command=sys.executable, args=words, env=environment), read_timeout_seconds=60
    ) as client:
        calls: list[tuple[str, dict[str, Any]]] = [
            ("list_connectors", {}), ("diagnose", {}), ("plan", {"files": ["."]}), ("lint", {"files": ["."]}),
            ("preview", {"file": "named.properties", "records": [1]}),
        ]  # fmt: skip
        calls += [
            (tool, {"name": name})
            for name in ("named", "failed", "leaky-sink", "running")
            for tool in ("describe", "diagnose", "logs")
        ]
        known = {tool.name for tool in (await client.list_tools()).tools}
        for tool, arguments in calls:
            assert tool in known, sorted(known)
            result = await client.call_tool(tool, arguments)
            site.show("assistant", f"{tool} {arguments} " + "".join(getattr(one, "text", "") for one in result.content))


def read_dead_letter_headers(site: Site, broker: EmbeddedBroker, queue: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": queue, "enable.auto.commit": False})
    consumer.assign([TopicPartition(queue, 0, 0)])
    for message in consumer.consume(3, WAIT_S):
        site.show("dead letters", str(message.headers()))
    consumer.close()


@pytest.mark.timeout(600)
@pytest.mark.long
def test_more_than_a_hundred_planted_secrets_appear_nowhere(
    site: Site, broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"planted-{uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        producer.produce(topic, f'"{number}"'.encode())
    producer.flush()
    del producer
    configs = connectors(site.planted, site.folder, topic)
    assert len(site.planted.places) > 100
    create_connectors(site, configs)
    ask_everything(site, configs)

    files = site.folder / "files"
    files.mkdir()
    for name, config in configs.items():
        (files / f"{name}.properties").write_text(write_properties({"name": name, **config, "tasks.max": "2"}))
    (site.folder / "client").write_text(f"ssl.key.password={site.planted.secret('client file')}\n")
    (site.folder / "records").write_text("1\n")
    (site.folder / "transforms").write_text(
        "transforms=t\ntransforms.t.type=org.apache.kafka.connect.transforms.InsertField$Value\n"
        f"transforms.t.static.field=f\ntransforms.t.static.value=v\ntransforms.t.password={site.planted.secret('replay')}\n"
    )
    (site.folder / "providers").write_text(
        write_properties({key: value for key, value in site.worker.properties.items() if key.startswith("config.providers")})
    )
    capsys.readouterr()

    def sluice(*words: object) -> None:
        code = run(build(COMMANDS), [str(word) for word in words])
        shown = "".join(capsys.readouterr())
        site.show("commands", f"{words}: {code} {shown}")
        # 2 is also the code for wrong configurations, which these commands report.
        assert code != 2 or (words[0] in ("lint", "plan", "apply", "tables") and "Usage: " not in shown), shown

    call_commands(site, files, sluice)
    open_pages(site)
    asyncio.run(ask_assistant(site, files))
    read_dead_letter_headers(site, broker, f"{topic}-dlq")
    change_everything(site)
    assert find_routes_not_asked(site) == []
    names = site.worker.properties
    site.show("status topic", str([str(one) for one in read_topic(broker.bootstrap, names["status.storage.topic"])]))

    # The stacks of all threads, and a process that ends like one with a broken native library.
    site.worker.print_stacks()
    os.kill(site.worker.pid, signal.SIGSEGV)
    site.worker.wait_for_exit()
    broken = dict(site.worker.properties) | {
        "rest.authentication.session.secret": site.planted.secret("short"),
        "status.storage.partitions": "x",
    }
    site.worker.properties = broken
    site.worker.start()
    site.worker.wait_for_exit()
    site.show("log and output", site.worker.out.read_text())
    site.show("traces", f"{site.collector.received!r} {site.collector.spans}")
    site.show("audit log", (site.folder / "audit").read_text())

    found = {place: sorted({one for text in texts for one in site.planted.found_in(text)}) for place, texts in site.shown.items()}
    assert {place: leaks for place, leaks in found.items() if leaks} == {}
    # It looked where secrets were.
    assert set(found) >= {
        "REST", "metrics", "commands", "page", "downloads", "answers to the page", "assistant", "dead letters", "status topic",
        "log and output", "audit log", "traces",
    }  # fmt: skip
    for place, mark in (
        ("REST", "[hidden]"),
        ("dead letters", "[hidden]"),
        ("log and output", "[hidden]"),
        ("metrics", "leaky_value"),
    ):
        assert mark in "".join(site.shown[place]), place
