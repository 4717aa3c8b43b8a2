"""Every command of the README, tried as a new user would: in an empty home, in the order of the page."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elastiq.config import load
from tests.integration.test_packaging import ROOT, copy_sources
from tests.waiting import DeadPort

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
# It runs this very test; .ci/run begins with it.
ELSEWHERE = {"./run-tests"}
# What a reader does by hand between two blocks: the five keys, for a cloud that nobody answers for.
EDIT = """
sed -i -e 's/^cluster_name.*/cluster_name = readme/' -e 's/^image_id.*/image_id = ami-1/' \
    -e 's|^region = .*|api_url = http://127.0.0.1:{port}/|' ~/.elastiq/elastiq.conf
"""


def commands(block: str) -> list[str]:
    return [line for line in block.splitlines() if line.strip()]


def test_the_two_commands_for_a_fresh_machine_come_first() -> None:
    assert [commands(block) for block in BLOCKS[:2]] == [["python3 -m elastiq demo"], ["./run-tests"]]
    assert os.access(ROOT / "run-tests", os.X_OK)


def test_every_file_that_the_readme_points_to_is_there() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_five_keys_are_those_that_the_example_sets(tmp_path: Path) -> None:
    keys = re.findall(r"^\| `(\w+)`.*\| `\[(\w+)\]`", README, flags=re.MULTILINE)
    assert len(keys) == 5
    loaded = load(ROOT / "elastiq.conf.example")
    # What is `auto` there is no default, since the default is what a file of elastiq 1.0 means.
    set_there = {line.split(" = ")[0] for line in loaded.set_keys if not line.endswith(" = auto")}
    assert {f"{section}.{key}" for key, section in keys} == set_there


@pytest.mark.timeout(400)
@pytest.mark.skipif(os.geteuid() == 0, reason="needs an ordinary user, since root's files are elsewhere")
def test_every_command_of_the_readme_works(tmp_path: Path) -> None:
    clone = copy_sources(tmp_path / "clone")
    home, tools = tmp_path / "home", tmp_path / "bin"
    home.mkdir()
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    for name in ("condor_q", "condor_status", "condor_drain", "condor_config_val", "condor_version"):
        (tools / name).write_text("#!/bin/sh\nexit 0\n")
        (tools / name).chmod(0o755)
    nobody = DeadPort()
    edit = EDIT.format(port=nobody.number)
    script = ["set -eux", f"trap '{home}/elastiq/bin/elastiqctl stop || true' EXIT"]
    for block in BLOCKS:
        script += [line for line in commands(block) if line not in ELSEWHERE]
        if "elastiq.conf.example" in block:
            script.append(edit)
    # `stop` comes before the last block on the page: what explains needs a daemon that runs.
    script = [line for line in script if line != "elastiqctl stop"] + ["elastiqctl stop"]
    environment = {"HOME": str(home), "PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    for name, value in os.environ.items():
        if name.startswith("PIP_") or name.endswith("_CERT_FILE"):
            environment[name] = value
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", "\n".join(script)],
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "readme" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
