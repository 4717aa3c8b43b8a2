"""docs/plugins.md: its example is installed, configured and asked for a plan, as the page says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.test_example_plugin import EXAMPLE, ToolBench

PAGE = (EXAMPLE.parent / "plugins.md").read_text("utf-8")


def block(begin: str) -> str:
    """The indented block of the page that begins so."""
    found = re.search(rf"(?m)^    {re.escape(begin)}\n(?:    .*\n|\n(?=    ))*", PAGE)
    assert found, begin
    return re.sub(r"(?m)^    ", "", found.group())


@pytest.mark.timeout(200)
def test_the_example_is_found_once_it_is_installed_and_plans(tmp_path: Path) -> None:
    source = shutil.copytree(EXAMPLE, tmp_path / "example-plugin")  # pip builds in place
    installed = tmp_path / "installed"
    install = ["pip", "install", "./example-plugin"]
    assert f"    {' '.join(install)}\n" in PAGE
    pip = [sys.executable, "-m", *install, "--quiet", "--no-deps", "--target", str(installed)]
    subprocess.run(pip, cwd=tmp_path, check=True, timeout=180)
    shutil.rmtree(source)

    cloud = ToolBench(tmp_path)
    spool = tmp_path / "spool"
    for number in range(6):
        path = spool / f"jobs/{number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"cpus": 1, "state": "waiting"}))
    (spool / "workers").mkdir()
    config = tmp_path / "elastiq.conf"
    text = block("[elastiq]").replace("/srv/spool", str(spool)).replace("/usr/local/bin/cloud-tool", str(cloud.tool))
    config.write_text(text)

    def elastiqctl(*arguments: str) -> str:
        places = [f"--{place}={tmp_path / place}" for place in ("statedir", "rundir", "logdir")]
        argv = [sys.executable, "-c", "from elastiq.cli import main; main()", f"--config={config}", *places, *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), str(EXAMPLE.parents[1])])}
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "spool.directory = " in elastiqctl("conf")
    plan = json.loads(elastiqctl("plan", "--json"))
    assert [(order["offer"], order["count"]) for order in plan["launch"]] == [("tool/small", 2)]
