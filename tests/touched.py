#!/usr/bin/env python3
"""The tests that come to a library whose version differs between distributions: `python3 -m tests.touched`.

A file comes to a library if it, or a module of ours or of the tests that it imports, at whatever place, imports that.
All other tests do the same whatever its version is.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = frozenset({"boto3", "botocore", "urllib3", "prometheus_client"})
BY_NAME = frozenset({"elastiq.jsonlog"})  # it finds python-json-logger by a name that is made when it runs
TIERS = ("unit", "conformance", "integration")


def main() -> None:
    for path in touched():
        print(path.relative_to(ROOT))


def touched() -> list[Path]:
    """The files of the fast tiers with tests that come to one of `LIBRARIES`."""
    files = [path for tier in TIERS for path in sorted((ROOT / "tests" / tier).rglob("test_*.py"))]
    return [path for path in files if (LIBRARIES | BY_NAME) & reached(path)]


def reached(path: Path) -> set[str]:
    """All that is imported from there on: the names of modules, and those of their outermost packages."""
    seen, names, left = {path}, set[str](), [path]
    while left:
        for name in imported(left.pop()):
            names |= {name, name.partition(".")[0]}
            for found in (ROOT / (name.replace(".", "/") + end) for end in (".py", "/__init__.py")):
                if found.exists() and found not in seen:
                    seen.add(found)
                    left.append(found)
    return names


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """The modules that a file imports, at its top or later; of `from a import b` both a and a.b."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


if __name__ == "__main__":
    main()
