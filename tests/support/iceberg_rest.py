"""A REST catalog of Iceberg: PyIceberg's SQL catalog behind the paths of the REST catalog specification that Spark uses."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pyiceberg import exceptions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

from sluice.embedded.ports import free_ports

TOKEN = "a-secret-token"

_CODES: dict[type[Exception], tuple[int, str]] = {
    exceptions.NoSuchTableError: (404, "NoSuchTableException"),
    exceptions.NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    exceptions.NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    exceptions.TableAlreadyExistsError: (409, "AlreadyExistsException"),
    exceptions.CommitFailedException: (409, "CommitFailedException"),
}


def _error(code: int, kind: str, message: str) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "type": kind, "code": code}}, code)


def _namespace(text: str) -> tuple[str, ...]:
    return tuple(text.split("\x1f"))


def _loaded(table: Table) -> Response:
    body = {"metadata-location": table.metadata_location, "metadata": json.loads(table.metadata.model_dump_json())}
    return Response(json.dumps(body), media_type="application/json")


Refuse = Callable[[str, str], tuple[int, str] | None]
"""From the method and the path of a request: the status and the type of an error to answer with, or None to serve it."""


def _serve(method: str, path: str) -> None:
    """Serves every request."""


def make_app(folder: Path, properties: Mapping[str, str], refuse: Refuse = _serve, lose: Refuse = _serve) -> FastAPI:
    """The server's application; requests need the token. What ``lose`` names is served, and the answer is an error."""
    catalog = SqlCatalog("rest", uri=f"sqlite:///{folder}/catalog.db", **{"warehouse": f"file://{folder}", **properties})
    app = FastAPI()
    lock = threading.Lock()

    for error, (code, kind) in _CODES.items():

        def answer(_: Request, e: Exception, code: int = code, kind: str = kind) -> JSONResponse:
            return _error(code, kind, str(e))

        app.add_exception_handler(error, answer)

    @app.middleware("http")
    async def authenticate(request: Request, call_next: Any) -> Any:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _error(401, "NotAuthorizedException", "unknown token")
        refused = refuse(request.method, request.url.path)
        if refused is not None:
            return _error(refused[0], refused[1], "refused by the test")
        answer = await call_next(request)
        lost = lose(request.method, request.url.path)
        return answer if lost is None else _error(lost[0], lost[1], "lost by the test")

    @app.get("/v1/config")
    def config() -> Any:
        return {"defaults": {}, "overrides": {}}

    @app.get("/v1/namespaces")
    def namespaces(parent: str = "") -> Any:
        found = catalog.list_namespaces(_namespace(parent) if parent else ())
        return {"namespaces": found}

    @app.post("/v1/namespaces")
    def create_namespace(body: dict[str, Any]) -> Any:
        catalog.create_namespace(tuple(body["namespace"]), body.get("properties") or {})
        return {"namespace": body["namespace"], "properties": {}}

    @app.api_route("/v1/namespaces/{namespace}", methods=["GET", "HEAD"])
    def namespace(namespace: str) -> Any:
        properties = catalog.load_namespace_properties(_namespace(namespace))
        return {"namespace": _namespace(namespace), "properties": properties}

    @app.get("/v1/namespaces/{namespace}/tables")
    def tables(namespace: str) -> Any:
        found = catalog.list_tables(_namespace(namespace))
        return {"identifiers": [{"namespace": list(one[:-1]), "name": one[-1]} for one in found]}

    @app.post("/v1/namespaces/{namespace}/tables")
    def create(namespace: str, body: dict[str, Any]) -> Any:
        spec = PartitionSpec.model_validate(body.get("partition-spec") or {"spec-id": 0, "fields": []})
        schema = Schema.model_validate(body["schema"])
        properties = body.get("properties") or {}
        return _loaded(catalog.create_table((*_namespace(namespace), body["name"]), schema, None, spec, properties=properties))

    @app.get("/v1/namespaces/{namespace}/tables/{name}")
    def load(namespace: str, name: str) -> Any:
        return _loaded(catalog.load_table((*_namespace(namespace), name)))

    @app.head("/v1/namespaces/{namespace}/tables/{name}")
    def exists(namespace: str, name: str) -> Any:
        catalog.load_table((*_namespace(namespace), name))
        return Response(status_code=204)

    @app.delete("/v1/namespaces/{namespace}/tables/{name}")
    def drop(namespace: str, name: str) -> Any:
        catalog.drop_table((*_namespace(namespace), name))
        return Response(status_code=204)

    @app.post("/v1/namespaces/{namespace}/tables/{name}")
    def commit(namespace: str, name: str, body: dict[str, Any]) -> Any:
        identifier = {"namespace": list(_namespace(namespace)), "name": name}
        request = CommitTableRequest.model_validate({**body, "identifier": identifier})
        with lock:
            table = catalog.load_table((*_namespace(namespace), name))
            done = catalog.commit_table(table, request.requirements, request.updates)
        metadata = json.loads(done.metadata.model_dump_json())
        return {"metadata-location": done.metadata_location, "metadata": metadata}

    return app


@contextlib.contextmanager
def rest_catalog(
    folder: Path, properties: Mapping[str, str] | None = None, refuse: Refuse = _serve, lose: Refuse = _serve
) -> Iterator[str]:
    """The URI of a catalog that runs in this process for a with block. Its tables are below the folder, unless the properties
    have another warehouse."""
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    app = make_app(folder, properties or {}, refuse, lose)
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the REST catalog did not start")
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
