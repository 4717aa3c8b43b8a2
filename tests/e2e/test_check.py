"""`elastiqctl check` on a real pool, as the daemon's unprivileged user: what it finds, and that it touches nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.cluster import Cluster, wait_for
from tests.e2e.conftest import StartDaemon
from tests.e2e.daemon import Daemon
from tests.e2e.rig import htcondor, user
from tests.e2e.test_htcondor_plugin import read_only as read_only  # the fixture


def check(daemon: Daemon, **variables: str) -> tuple[int, dict[tuple[str, str], Any]]:
    """The exit code, and what was found by source and subject."""
    places = ["--config", daemon.configuration, "--statedir", daemon.home / "state", "--rundir", daemon.home / "run"]
    argv = [sys.executable, "-m", "elastiq", *places, "--logdir", daemon.home / "logs", "check", "--json"]
    environment = {**user.environment(Path("/nonexistent")), **variables}
    done = subprocess.run(user.as_daemon(argv, environment), capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, {(one["source"], one["subject"]): one for one in json.loads(done.stdout)["checks"]}


def test_a_real_pool_is_in_order_and_no_worker_is_drained(
    cluster: Cluster, daemon: StartDaemon, read_only: str
) -> None:
    elastiq = daemon(quota={"min_vms": 1})
    wait_for(lambda: elastiq.nodes("idle"), 60, "an idle worker")
    cluster.submit(3, 30, "requirements = false")  # of another user
    asked = len(cluster.ec2.log())

    code, found = check(elastiq)

    levels = {key: one["level"] for key, one in found.items()}
    assert set(levels.values()) <= {"ok", "warning"} and code == 0, found
    assert {levels["htcondor", one] for one in ("commands", "collector", "queue", "drain")} == {"ok"}
    assert found["htcondor", "jobs of all users"]["text"].startswith("3 jobs of all users")
    assert (
        found["cluster", "workers and instances"]["text"].startswith("told 1 by ")
        or levels["cluster", "workers and instances"] == "ok"
    )
    assert levels["this machine", "what runs"] == "ok"
    mine = [one for one in cluster.ec2.log()[asked:] if not one["action"].startswith("Describe")]
    assert mine == [], "this cloud's dialect is not known to take DryRun"

    code, found = check(elastiq, _CONDOR_SEC_TOKEN_DIRECTORY=read_only)

    assert code == 1 and found["htcondor", "drain"]["level"] == "error"
    assert found["htcondor", "drain"]["remedy"].startswith("give its token ADMINISTRATOR")
    assert not [row for row in htcondor.machines("Machine,Draining,State") if row.get("Draining")]
    assert len(elastiq.nodes()) == 1
