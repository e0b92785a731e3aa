from __future__ import annotations

from connect.java.hash_order import describe_map, hash_code, hash_map_order, hash_set_order


def test_string_hash_is_javas() -> None:
    assert hash_code("abc") == 96354
    assert hash_code("é😀") == ((31 * 0xE9 + 0xD83D) * 31 + 0xDE00) & 0xFFFFFFFF


def test_keys_have_the_order_of_a_hash_map() -> None:
    json_converter = ["converter.type", "schemas.enable", "schemas.cache.size", "schema.content", "decimal.format",
                      "replace.null.with.default"]  # fmt: skip
    # As in recording validate-converter-config-ok.
    assert hash_map_order(json_converter) == [
        "decimal.format", "converter.type", "schemas.cache.size", "replace.null.with.default", "schemas.enable", "schema.content",
    ]  # fmt: skip


def test_map_is_formatted_like_java() -> None:
    config = {"name": "c1", "topic": "t", "file": "/data/in.txt", "tasks.max": "1"}
    assert describe_map(config) == "{name=c1, topic=t, file=/data/in.txt, tasks.max=1}"
    assert describe_map({"a": None}) == "{a=null}"
    assert describe_map({}) == "{}"


def test_maps_and_sets_iterate_in_hash_order() -> None:
    assert hash_map_order(["name", "id", "A"]) == ["A", "name", "id"]
    assert sorted(hash_set_order([f"f{i}" for i in range(30)])) == sorted(f"f{i}" for i in range(30))
