"""Checks the structure of the code: import cycles and class sizes.

- No import cycles between modules, nor between folders. A folder without subfolders counts as one node; in a folder that has
  subfolders, each module is a node of its own (``worker/herder.py`` is one, ``worker/sink/`` is another).
- No class has more than 300 lines or assigns more than 15 attributes. A class that needs more says why in a comment on the line
  above it (or above its decorators): ``# Large class: <reason>``.

Imports under ``if TYPE_CHECKING:`` count too. Usage: ``python scripts/check_structure.py [FOLDER]``; exits 1 on any finding.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGES = ("connect", "connectors", "worker", "rest", "sluice")
MAX_LINES = 300
MAX_ATTRIBUTES = 15
MARK = "# Large class: "

Graph = Mapping[str, set[str]]


def read_modules(root: Path) -> dict[str, Path]:
    """Every module of the packages by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(tree: ast.Module, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the packages that a module imports, anywhere in it."""
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
    """Groups of nodes that reach each other (Tarjan's strongly connected components), each sorted."""
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


def nodes_of(modules: Mapping[str, Path]) -> dict[str, str]:
    """The node of each module: its folder, or the module itself where the folder has subfolders."""
    folders = {path.parent for path in modules.values()}
    inner = {folder.parent for folder in folders}
    return {name: name if path.parent in inner else ".".join(name.split(".")[:-1]) or name for name, path in modules.items()}


def import_findings(modules: Mapping[str, Path], trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """One finding for each cycle, with the imports that make it."""
    graph: dict[str, set[str]] = {name: set(imports(tree, modules)) - {name} for name, tree in trees.items()}
    for cycle in find_cycles(graph):
        yield f"import cycle between modules: {', '.join(cycle)}"
    packages = {name for name, path in modules.items() if path.name == "__init__.py"}
    node = nodes_of({name: path for name, path in modules.items() if name not in packages})
    # A package is the node of its modules, unless they are nodes of their own.
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
    """One finding for each class that is too large and does not say why."""
    lines = text.splitlines()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        attributes = {
            target.attr
            for assignment in ast.walk(node)
            if isinstance(assignment, ast.Assign | ast.AnnAssign)
            for target in (assignment.targets if isinstance(assignment, ast.Assign) else [assignment.target])
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self"
        }
        too_large = length > MAX_LINES or len(attributes) > MAX_ATTRIBUTES
        if too_large and not lines[first - 2].strip().startswith(MARK):
            yield f"{path}:{node.lineno}: class {node.name} has {length} lines and {len(attributes)} attributes"


def duplicate_findings(modules: Mapping[str, Path], trees: Mapping[str, ast.Module]) -> Iterator[str]:
    """One finding for each public class name that two modules of a top-level package define."""
    defined: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                defined[name.split(".")[0], node.name].append(name)
    for (package, cls), where in sorted(defined.items()):
        if len(where) > 1:
            yield f"class {cls} is defined {len(where)} times in {package}: {', '.join(where)}"


def main(root: Path) -> int:
    """Prints every finding and returns the exit code."""
    modules = read_modules(root)
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules.items()}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    findings = list(import_findings(modules, trees))
    findings += list(duplicate_findings(modules, trees))
    for name, tree in trees.items():
        findings += class_findings(modules[name].relative_to(root), tree, texts[name])
    for finding in findings:
        print(finding)
    print(f"{len(modules)} modules, {len(findings)} findings", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
