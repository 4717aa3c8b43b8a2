"""Where elastiq is no service, root's start runs it as the owner of its state: the head node that the state is of."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.rig import places

OWNER = "daemon"
CONFIGURATION = """\
[elastiq]
cluster_name = owned
[ec2]
image_id = ami-1
flavour = m5.large
api_url = http://127.0.0.1:1/
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that everybody can enter, with this elastiq, a configuration, and somebody's state."""
    made = Path(tempfile.mkdtemp(prefix="elastiq-owner-"))
    made.chmod(0o755)
    shutil.copytree(places.REPOSITORY / "elastiq", made / "code/elastiq")  # the checkout may be for root alone
    subprocess.run(["chmod", "-R", "a+rX", made / "code"], check=True)
    (made / "elastiq.conf").write_text(CONFIGURATION)
    (made / "state").mkdir(mode=0o750)
    shutil.chown(made / "state", OWNER, OWNER)
    yield made
    elastiqctl(made, "stop")
    shutil.rmtree(made)


def elastiqctl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    places_ = [f"--{name}dir={home / name}" for name in ("state", "run", "log")]
    argv = ["/usr/bin/python3", "-m", "elastiq", f"--config={home / 'elastiq.conf'}", *places_, *words]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(home / "code")}
    return subprocess.run(argv, cwd="/", env=env, capture_output=True, text=True, timeout=120, check=False)


def test_root_starts_it_as_the_owner_of_its_state_and_check_looks_as_him(home: Path) -> None:
    before = elastiqctl(home, "check", "--timeout", "5").stdout
    assert f"looked at as {OWNER}, as whom elastiq runs" in before and "chown" not in before and "make it" not in before

    done = elastiqctl(home, "start")

    assert done.returncode == 0 and f"as {OWNER}, who owns its state" in done.stdout, done.stderr
    owner = pwd.getpwnam(OWNER)
    pid = int((home / "run/elastiq.pid").read_text())
    assert os.stat(f"/proc/{pid}").st_uid == owner.pw_uid
    made = [path for name in ("state", "run", "log") for path in (home / name, *(home / name).iterdir())]
    assert {path.lstat().st_uid for path in made} == {owner.pw_uid} and home / "state/elastiq.db" in made
    assert elastiqctl(home, "restart").returncode == 0, "root can do that, too"
    assert os.stat(f"/proc/{int((home / 'run/elastiq.pid').read_text())}").st_uid == owner.pw_uid
