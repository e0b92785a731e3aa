"""Chains compiled to Spark SQL give the results of the transformations: over the vectors, and over random chains."""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connect.record import ConnectRecord
from connect.record_format import record_from_json, record_to_json
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.transforms.errors import NotCompilable
from tests.conformance.transforms_kind import comparable_record
from tests.integration.spark.random_chains import RandomChains
from tests.integration.spark.sql_chains import LEFT, Chain, compile_chain, run_by_row, run_in_spark
from tests.support import randomness

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SELECTION = Path(__file__).parents[2] / "conformance" / "cases" / "transforms.jsonl"
VECTORS = Path(os.environ.get("SLUICE_VECTORS", SELECTION))
LEAST_IN_SQL = 0.28
"""The share of the vectors that SQL must compute. Half of the vectors are errors, or have no schema."""
_FILTER = "org.apache.kafka.connect.transforms.Filter"


@pytest.fixture
def spark(props: dict[str, str]) -> Iterator[Any]:
    lease = session.lease(parse_config(props).spark)
    yield lease.session()
    lease.release()


def _chain_config(case: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a connector with the transformation of a case; a predicate selects the records that Filter drops."""
    kind, own = case["class"], case["config"]
    if kind == "chain":
        return dict(own)
    if ".predicates." in kind:
        predicate = {"predicates": "p", "predicates.p.type": kind, **{f"predicates.p.{k}": v for k, v in own.items()}}
        return {"transforms": "t", "transforms.t.type": _FILTER, "transforms.t.predicate": "p", **predicate}
    return {"transforms": "t", "transforms.t.type": kind, **{f"transforms.t.{k}": v for k, v in own.items()}}


def _compile_cases(cases: list[dict[str, Any]]) -> list[tuple[dict[str, Any], Chain]]:
    """The cases whose chain SQL can compute, with equal chains and schemas together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        given = case["input"]
        schemas = [(given[part] or {}).get("schema") for part in ("key", "value")]
        group = json.dumps([_chain_config(case), given["topic"], case["kind"], schemas])
        groups.setdefault(group, []).append(case)
    compiled: list[tuple[dict[str, Any], Chain]] = []
    chains = 0
    for members in groups.values():
        try:
            if members[0]["input"]["topic"] is None:
                continue
            records: list[ConnectRecord] = [record_from_json(case["input"]) for case in members]
            chain = compile_chain(_chain_config(members[0]), records, chains)
        except (NotCompilable, ConnectError):
            continue
        chains += 1
        compiled += [(case, chain) for case in members]
    return compiled


def test_sql_gives_the_results_of_the_vectors(spark: Any) -> None:
    cases = [json.loads(line) for line in VECTORS.read_text("utf-8").split("\n") if line]
    cases = [case for case in cases if case["stage"] == "apply"]
    compiled = _compile_cases(cases)
    chains = list({id(chain): chain for _, chain in compiled}.values())
    run_in_spark(spark, chains)
    seen: Counter[int] = Counter()
    wrong: list[str] = []
    counts: Counter[str] = Counter(vectors=len(cases))
    for case, chain in compiled:
        result = chain.results[seen[id(chain)]]
        seen[id(chain)] += 1
        expected = case["expected"]
        is_error = isinstance(expected, dict) and "error" in expected
        counts["by row" if result is LEFT else "in SQL"] += 1
        if result is LEFT:
            continue
        if ".predicates." in case["class"]:
            expected = None if expected else case["input"]
        shown = _shown(result)
        wanted = expected if is_error or expected is None else comparable_record(expected)
        if shown != wanted:
            wrong.append(f"{case['id']} {chain.config}: {shown}, expected {wanted}")
    print(f"vectors: {counts['vectors']}, computed in SQL: {counts['in SQL']}, left to the transformations: {counts['by row']}")
    assert counts["in SQL"] >= LEAST_IN_SQL * counts["vectors"]
    assert not wrong, "\n".join(wrong[:20])


def _shown(record: ConnectRecord | None) -> Any:
    return None if record is None else comparable_record(record_to_json(record))


@pytest.mark.parametrize("number", range(randomness.size("SLUICE_ROUNDS", 1)))
def test_sql_gives_the_results_of_the_transformations(spark: Any, number: int) -> None:
    random_chains = RandomChains(number)
    chains: list[Chain] = []
    while len(chains) < 40:
        config, records = random_chains.case()
        with contextlib.suppress(NotCompilable, ConnectError):
            chains.append(compile_chain(config, records, len(chains)))
    run_in_spark(spark, chains[:32])
    run_in_spark(spark, chains[32:], generates_code=True)
    in_sql = 0
    for chain in chains:
        for record, result in zip(chain.records, chain.results, strict=True):
            if result is LEFT:
                continue
            in_sql += 1
            expected = run_by_row(chain, record)
            assert not isinstance(expected, Exception), f"{chain.config}: {record} fails: {expected}, and not {result}"
            assert _shown(result) == _shown(expected), f"{chain.config}: {record_to_json(record)}"
    assert in_sql > 20
