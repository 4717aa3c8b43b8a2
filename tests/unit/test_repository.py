"""Rules that every file of the project keeps."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import daemon_lines

ROOT = Path(__file__).resolve().parents[2]
LONGEST_MODULE = 400
LONGEST_FUNCTION = 70  # a screen

MODULES = sorted(path for top in ("elastiq", "plugins") for path in (ROOT / top).rglob("*.py"))
OUR_FILES = sorted(
    path
    for top in (
        "*.md",
        "*.toml",
        "*.yml",
        "setup.py",
        "run-tests",
        "elastiq.conf.example",
        ".ci/*",
        "systemd/*",
    )
    for path in ROOT.glob(top)
) + sorted(
    path
    for top in ("elastiq", "plugins", "tests", "benchmarks", "packaging", "docs")
    for path in (ROOT / top).rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_a_module_is_one_idea_and_says_which() -> None:
    texts = {name(module): module.read_text(encoding="utf-8") for module in MODULES}
    assert {at: text.count("\n") for at, text in texts.items() if text.count("\n") > LONGEST_MODULE} == {}
    assert [at for at, text in texts.items() if not ast.get_docstring(ast.parse(text))] == []


def test_a_function_fits_on_a_screen() -> None:
    long = {
        f"{name(module)} {node.name}": node.end_lineno - node.lineno + 1
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None
        if node.end_lineno - node.lineno >= LONGEST_FUNCTION
    }
    assert long == {}


def test_the_oldest_python_can_read_every_module() -> None:
    for module in MODULES:
        ast.parse(module.read_text(encoding="utf-8"), module, feature_version=(3, 9))
    # An old python3 has to come as far as looking for a newer one.
    ast.parse((ROOT / "run-tests").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_every_module_annotates_without_evaluating() -> None:
    wanted = "from __future__ import annotations"
    missing = [
        name(module)
        for module in MODULES
        if wanted not in (text := module.read_text(encoding="utf-8")) and len(ast.parse(text).body) > 1
    ]
    assert missing == []


def test_no_file_knows_where_it_was_written() -> None:
    here = str(ROOT) + "/"
    guilty = [name(path) for path in OUR_FILES if here.encode() in path.read_bytes()]
    assert guilty == []


def test_plugins_run_from_a_clone_under_the_name_they_are_installed_by() -> None:
    link = ROOT / "elastiq" / "plugins"
    assert link.resolve() == ROOT / "plugins"
    if link.is_symlink():  # a source package has a real folder there
        assert str(link.readlink()) == "../plugins"


def test_the_count_of_lines_follows_imports_in_functions_but_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "__init__.py": "",
        "service.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import elastiq.unseen\n"
        "def main():\n    from . import late\nclass A:\n    def checks(self):\n"
        "        from elastiq import checked, late\n",
        "checked.py": "1\n",
        "late.py": "import os\nfrom elastiq.deep.inner import x\n",
        "unseen.py": "1\n",
        "deep/__init__.py": "'''doc'''\n",
        "deep/inner.py": "x = 1\n",
    }
    for path, text in files.items():
        target = tmp_path / "elastiq" / path
        target.parent.mkdir(exist_ok=True, parents=True)
        target.write_text(text, encoding="utf-8")
    monkeypatch.setattr(daemon_lines, "ROOT", tmp_path)
    assert sorted(daemon_lines.imported_by(("elastiq.service",))) == [
        "elastiq",
        "elastiq.deep",
        "elastiq.deep.inner",
        "elastiq.late",
        "elastiq.service",
    ]


def test_what_is_imported_on_demand_is_there_and_says_why() -> None:
    for module, why in daemon_lines.ON_DEMAND.items():
        assert daemon_lines.file_of(module) is not None, f"{module} is no more"
        assert why


def test_lines_of_code_are_those_that_do_something() -> None:
    text = (
        '"""Doc,\ntwo lines."""\n\n# why\nx = """a\nb"""  # and a comment\n\n\n'
        'def f():\n    """Doc."""\n    return 1\n'
    )
    assert daemon_lines.lines_of_code(text) == 4
