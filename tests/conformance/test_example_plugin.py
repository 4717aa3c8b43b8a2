"""The example of docs/plugins.md keeps both contracts: its own tests, as whoever copies it runs them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "example-plugin"


def example(name: str) -> Any:
    """A module of the example, under its own name: none of it is installed."""
    pytest.register_assert_rewrite(name)
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


elastiq_spool, elastiq_tool = example("elastiq_spool"), example("elastiq_tool")
of_spool, of_tool = example("test_elastiq_spool"), example("test_elastiq_tool")
ToolBench, TestSpool, TestTool = of_tool.ToolBench, of_spool.TestSpool, of_tool.TestTool
test_a_job_that_lacks_something = of_spool.test_a_job_that_lacks_something_makes_the_queue_unknown
test_a_locked_spool = of_spool.test_a_spool_that_another_has_locked_is_unknown_at_once
