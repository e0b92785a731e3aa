"""The schemas of the Kubernetes objects that our chart creates, strict: an unknown field is an error.

``kubernetes_schemas.json`` is an extract of Kubernetes' own API (1.30), as the package kubernetes-validate distributes it. The
package has 17,000 files, so tests use the extract. To renew it, unpack the package and run
``python -m tests.support.kubernetes_schemas <folder>/kubernetes_validate/kubernetes-json-schema/v1.30.0-local-strict``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

_OMITTED = ("description", "format", "$schema", "$id")
_EXTRACT = Path(__file__).with_suffix(".json")
_KINDS = {
    "ConfigMap": "configmap-v1",
    "Ingress": "ingress-networking-v1",
    "NetworkPolicy": "networkpolicy-networking-v1",
    "PodDisruptionBudget": "poddisruptionbudget-policy-v1",
    "Service": "service-v1",
    "ServiceAccount": "serviceaccount-v1",
    "StatefulSet": "statefulset-apps-v1",
}


@cache
def _definitions() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(_EXTRACT.read_text("utf-8"))
    return found


def kubernetes_errors(one: Mapping[str, Any]) -> list[str]:
    """Returns what is wrong with an object, each with the path to it."""
    schema = {"$ref": f"#/definitions/{_KINDS[one['kind']]}", "definitions": _definitions()}
    validator = jsonschema.Draft7Validator(schema)
    return [f"{one['kind']}: {error.json_path}: {error.message}" for error in validator.iter_errors(one)]


def extract(folder: Path) -> dict[str, Any]:
    """Returns the schemas of the kinds, and those that they refer to, without descriptions."""
    definitions = json.loads((folder / "_definitions.json").read_text("utf-8"))["$defs"]
    found: dict[str, Any] = {}
    waiting = list(_KINDS.values())
    while waiting:
        name = waiting.pop()
        if name not in found:
            one = definitions[name] if name in definitions else json.loads((folder / f"{name}.json").read_text("utf-8"))
            found[name] = _plain(one, waiting)
    return dict(sorted(found.items()))


def _plain(node: Any, referred: list[str]) -> Any:
    if isinstance(node, list):
        return [_plain(one, referred) for one in node]
    if not isinstance(node, dict):
        return node
    plain = {}
    for key, value in node.items():
        if key == "$ref":
            name = value.rpartition("/")[2]
            referred.append(name)
            plain[key] = f"#/definitions/{name}"
        # A property of such a name is an object, not a text.
        elif not (key in _OMITTED and isinstance(value, str)) and not key.startswith("x-kubernetes-"):
            plain[key] = _plain(value, referred)
    return plain


if __name__ == "__main__":
    _EXTRACT.write_text(json.dumps(extract(Path(sys.argv[1])), separators=(",", ":")) + "\n", "utf-8")
