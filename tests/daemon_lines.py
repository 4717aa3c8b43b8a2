"""Count our lines that a default daemon (HTCondor and EC2) imports: python3 -m tests.daemon_lines

Imports inside functions count too: the daemon may come to them. An administrator who wants to know
what runs on the head node should be able to read it, so the number has a limit.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 5000
ENTRIES = ("elastiq.service", "elastiq.plugins.batch.htcondor", "elastiq.plugins.cloud.ec2")


def file_of(module: str) -> Path | None:
    """The source of a module of ours, None if there is none of that name."""
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imports(path: Path, module: str) -> Iterator[str]:
    """Every name that a file imports, but for what only the type checker sees."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unseen = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            origin = ".".join([*parent, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imported_by(entries: tuple[str, ...]) -> dict[str, int]:
    """Our modules that these come to import, with their numbers of lines."""
    found: dict[str, int] = {}
    todo = list(entries)
    while todo:
        module = todo.pop()
        path = file_of(module)
        if path is None or module in found or module.partition(".")[0] != "elastiq":
            continue
        found[module] = len(path.read_text(encoding="utf-8").splitlines())
        todo.extend(imports(path, module))
        todo.append(module.rpartition(".")[0])
    return found


def main() -> int:
    missing = [entry for entry in ENTRIES if file_of(entry) is None]
    if missing:
        print(f"not found: {', '.join(missing)}", file=sys.stderr)
        return 1
    found = imported_by(ENTRIES)
    total = sum(found.values())
    largest = sorted(found.items(), key=lambda item: -item[1])[:5]
    print(f"{total} lines of ours in {len(found)} modules (at most {LIMIT});", end=" ")
    print("the largest: " + ", ".join(f"{name} {lines}" for name, lines in largest))
    return 0 if total <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
