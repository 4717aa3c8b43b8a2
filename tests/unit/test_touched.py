"""`tests.touched` finds the tests that another version of a library could change: CI runs only those with old ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import touched
from tests.touched import BY_NAME, LIBRARIES, ROOT, reached

# What comes with boto3, and is asked for by it alone.
OF_BOTO3 = {"s3transfer", "jmespath", "python-dateutil"}
FOUND = {str(path.relative_to(ROOT / "tests")) for path in touched.touched()}


@pytest.mark.parametrize("path", sorted((ROOT / "packaging/constraints").glob("*.txt")), ids=lambda path: path.stem)
def test_it_looks_for_all_that_the_distributions_bring(path: Path) -> None:
    lines = path.read_text().splitlines()
    brought = {line.partition("==")[0] for line in lines if line[:1].isalpha()} - OF_BOTO3 - {"python-json-logger"}
    assert {name.replace("-", "_") for name in brought} <= LIBRARIES


def test_python_json_logger_is_found_by_its_one_module() -> None:
    (module,) = [ROOT / (name.replace(".", "/") + ".py") for name in BY_NAME]
    assert 'f"pythonjsonlogger.' in module.read_text()
    others = [*(ROOT / "elastiq").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    resolving = [path.name for path in others if "resolve_name" in path.read_text() and "json" in path.read_text()]
    assert resolving == [module.name]


def test_those_that_ask_a_cloud_log_or_serve_metrics_are_among_them() -> None:
    assert {
        "unit/test_logs.py", "unit/test_ec2_client.py", "unit/test_metrics.py", "conformance/test_cloud_ec2.py",
        "integration/test_ec2_http.py", "integration/test_secrets.py", "integration/test_kill_switches.py",
        "integration/ec2_dialects/test_lives.py",
    } <= FOUND  # fmt: skip


def test_those_that_only_decide_are_not() -> None:
    assert not {"unit/test_planner.py", "unit/test_store.py", "integration/test_lease.py"} & FOUND


def test_an_import_counts_wherever_it_is_and_through_whatever_module(tmp_path: Path) -> None:
    tests = {
        "import boto3\n": True,
        "def later():\n    from urllib3 import util\n": True,
        "from tests import ec2_server\n": True,
        "from tests.integration.at_work import AtWork\n": True,
        "import json\nfrom elastiq.plugins.batch.htcondor import HTCondor\n": False,
    }
    for number, (text, comes) in enumerate(tests.items()):
        path = tmp_path / f"test_{number}.py"
        path.write_text(text)
        assert bool(LIBRARIES & reached(path)) is comes, text
