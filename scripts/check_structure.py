"""Checks the structure of the code: import cycles, class sizes, and duplicate class names.

- No import cycles between modules, nor between folders. A folder without subfolders is one node of the graph; in a folder with
  subfolders, each module is its own node (``worker/herder.py`` is one, ``worker/sink/`` is another). Imports in functions and
  under ``if TYPE_CHECKING:`` count too.
- No class has more than 300 lines, or more than 15 attributes that its methods assign to ``self``. Fields of dataclasses do not
  count. A larger class needs a reason in the comment directly above it (or above its decorators): ``# Large class: <reason>``.
- No two modules of a top-level package define classes of the same name. Nested classes do not count.

Usage: ``python scripts/check_structure.py [FOLDER]``; prints all findings and exits 1 if there are any.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PACKAGES = ("connect", "connectors", "worker", "rest", "sluice")
MAX_LINES = 300
MAX_ATTRIBUTES = 15
MARK = "# Large class: "

Graph = Mapping[str, set[str]]


def read_modules(root: Path) -> dict[str, Path]:
    """Returns every module of the packages by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(tree: ast.Module, modules: Mapping[str, Path]) -> Iterator[str]:
    """Yields the modules of the packages that a module imports, at any level."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in modules:
                    yield name
                elif node.module in modules:
                    yield node.module


def find_cycles(graph: Graph) -> list[list[str]]:
    """Returns the groups of nodes that reach each other (Tarjan's strongly connected components), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    cycles = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(graph.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(group) > 1:
                cycles.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return cycles


def find_nodes(modules: Mapping[str, Path]) -> dict[str, str]:
    """Returns the node of each module: its folder, or the module itself if the folder has subfolders."""
    folders = {path.parent for path in modules.values()}
    inner = {folder.parent for folder in folders}
    return {name: name if path.parent in inner else ".".join(name.split(".")[:-1]) or name for name, path in modules.items()}


def import_findings(modules: Mapping[str, Path], trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yields a finding for each cycle, with its imports."""
    graph: dict[str, set[str]] = {name: set(imports(tree, modules)) - {name} for name, tree in trees.items()}
    for cycle in find_cycles(graph):
        yield f"import cycle between modules: {', '.join(cycle)}"
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    node = find_nodes({name: path for name, path in modules.items() if name not in packages})
    # The __init__ module of a folder without subfolders belongs to the folder's node.
    node.update({name: name for name in packages})
    between: dict[str, set[str]] = defaultdict(set)
    because: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, targets in graph.items():
        for target in targets:
            if node[name] != node[target]:
                between[node[name]].add(node[target])
                because[node[name], node[target]].append(f"{name} -> {target}")
    for cycle in find_cycles(between):
        lines = [line for source in cycle for target in cycle if (source, target) in because for line in because[source, target]]
        yield f"import cycle between folders: {', '.join(cycle)}\n    " + "\n    ".join(lines)


def class_findings(path: Path, tree: ast.Module, text: str) -> Iterator[str]:
    """Yields a finding for each class that is too large without a stated reason."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        attributes = set(assigned_attributes(node))
        if (length > MAX_LINES or len(attributes) > MAX_ATTRIBUTES) and not has_reason(node, lines):
            yield f"{path}:{node.lineno}: class {node.name} has {length} lines and {len(attributes)} attributes"


def assigned_attributes(node: ast.AST) -> Iterator[str]:
    """Yields the attributes that a class's methods assign to ``self``, without those of nested classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            continue
        # Store context covers plain, annotated, and tuple assignments, ``with ... as``, and loops.
        if (
            isinstance(child, ast.Attribute)
            and isinstance(child.ctx, ast.Store)
            and isinstance(child.value, ast.Name)
            and child.value.id == "self"
        ):
            yield child.attr
        yield from assigned_attributes(child)


def has_reason(node: ast.ClassDef, lines: Sequence[str]) -> bool:
    """Returns whether the comment above a class has the mark of a large class."""
    above = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 2
    while above >= 0 and lines[above].strip().startswith("#"):
        if lines[above].strip().startswith(MARK):
            return True
        above -= 1
    return False


def duplicate_findings(trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """Yields a finding for each class name that several modules of a top-level package define."""
    defined: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                defined[name.split(".")[0], node.name].append(name)
    for (package, cls), where in sorted(defined.items()):
        if len(where) > 1:
            yield f"class {cls} is defined {len(where)} times in {package}: {', '.join(where)}"


def find_problems(root: Path) -> list[str]:
    """Returns all findings about the packages in a folder."""
    modules = read_modules(root)
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    findings = [*import_findings(modules, trees), *duplicate_findings(trees)]
    for name, tree in trees.items():
        findings += class_findings(modules[name].relative_to(root), tree, texts[name])
    return findings


def main(root: Path) -> int:
    """Prints all findings and returns the exit code."""
    findings = find_problems(root)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings" if findings else "No findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
