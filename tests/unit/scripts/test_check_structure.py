"""scripts/check_structure.py finds import cycles, large classes, and duplicate class names."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_structure import MAX_ATTRIBUTES, MAX_LINES, find_problems, main


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for folder in path.relative_to(root).parents:
            if folder.name:
                (root / folder / "__init__.py").touch()
    return root


def test_code_without_problems_has_no_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(
        tmp_path,
        {
            "rest/a.py": "import worker.b\nclass A: pass\n",
            "worker/b.py": "import json\nfrom worker import c\n",
            "worker/c.py": "",
        },
    )
    assert main(root) == 0
    assert capsys.readouterr().out == ""


def test_module_cycle_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = write(tmp_path, {"rest/a.py": "from rest import b\n", "rest/b.py": "def f():\n    from rest.a import x\n"})
    assert main(root) == 1
    assert capsys.readouterr().out == "import cycle between modules: rest.a, rest.b\n"


def test_import_for_type_checking_counts(tmp_path: Path) -> None:
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rest.a import x\n"
    assert find_problems(write(tmp_path, {"rest/a.py": "import rest.b\n", "rest/b.py": text})) == [
        "import cycle between modules: rest.a, rest.b"
    ]


def test_folder_cycle_without_a_module_cycle_is_found(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "worker/sink/a.py": "import worker.source.b\n",
            "worker/source/b.py": "",
            "worker/source/c.py": "from worker.sink import d\n",
            "worker/sink/d.py": "",
        },
    )
    (finding,) = find_problems(root)
    assert finding.splitlines() == [
        "import cycle between folders: worker.sink, worker.source",
        "    worker.sink.a -> worker.source.b",
        "    worker.source.c -> worker.sink.d",
    ]


def test_modules_of_a_folder_with_subfolders_are_separate_nodes(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {"worker/model.py": "", "worker/sink/a.py": "import worker.model\n", "worker/herder.py": "import worker.sink.a\n"},
    )
    assert find_problems(root) == []


def large_class(lines: int, attributes: int, above: str = "") -> str:
    body = [f"        self.a{i}, other = {i}, 0" for i in range(attributes)]
    body += ["        pass"] * (lines - 2 - attributes)
    return "\n".join(
        ["import functools", "", above, "@functools.total_ordering", "class Large:", "    def __init__(self):", *body, ""]
    )


@pytest.mark.parametrize(("lines", "attributes"), [(MAX_LINES + 1, 0), (100, MAX_ATTRIBUTES + 1)])
def test_large_class_is_found_unless_its_comment_states_a_reason(tmp_path: Path, lines: int, attributes: int) -> None:
    root = write(tmp_path, {"connect/a.py": large_class(lines, attributes)})
    assert find_problems(root) == [f"connect/a.py:5: class Large has {lines} lines and {attributes} attributes"]
    write(tmp_path, {"connect/a.py": large_class(lines, attributes, "# Not a reason.")})
    assert len(find_problems(root)) == 1
    write(tmp_path, {"connect/a.py": large_class(lines, attributes, "# Large class: a table of\n# many rows.")})
    assert find_problems(root) == []


def test_class_at_the_limits_is_accepted(tmp_path: Path) -> None:
    assert find_problems(write(tmp_path, {"connect/a.py": large_class(MAX_LINES, MAX_ATTRIBUTES)})) == []


def test_attributes_of_nested_classes_do_not_count(tmp_path: Path) -> None:
    nested = "class Outer:\n    class Inner:\n        def f(self):\n" + "".join(f"            self.b{i} = 0\n" for i in range(10))
    own = "    def f(self):\n" + "".join(f"        self.a{i} = 0\n" for i in range(10))
    assert find_problems(write(tmp_path, {"connect/a.py": nested + own})) == []


def test_duplicate_class_name_is_found_within_a_package_only(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {"rest/a.py": "class Reader: pass\n", "rest/b/c.py": "class Reader: pass\n", "sluice/d.py": "class Reader: pass\n"},
    )
    assert find_problems(root) == ["class Reader is defined 2 times in rest: rest.a, rest.b.c"]
