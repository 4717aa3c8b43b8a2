"""docs/check.md has every check that there is, and every key of --json."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from elastiq.cli import check, cluster_checks, machine_checks, service_user
from elastiq.cli.side_by_side import LEVELS, Finding
from elastiq.interfaces import Check, Owner, Pool, Terms
from elastiq.paths import Paths
from elastiq.plugins.batch.htcondor import HTCondor
from elastiq.plugins.cloud.ec2 import EC2Cloud
from elastiq.settings import Settings

PAGE = (Path(__file__).resolve().parents[2] / "docs/check.md").read_text("utf-8")
OWNER = Owner("test", "0123456789abcdef" * 2)
PLACES = Paths(Path("/c"), Path("/l"), Path("/s"), Path("/r"))


def subjects() -> list[str]:
    """All that there are, without the name of a pool."""
    given = ("launch_template", "key_name", "credentials_file", "interruption_queue", "image_id")
    some = {**dict.fromkeys(given, "x"), "subnet_id": ("s",), "security_group_ids": ("g",)}
    options: dict[str, Any] = {**{one.name: one.default for one in EC2Cloud.OPTIONS}, **some}
    pool = Pool("p", "site", ("m5.large",), options=options, terms=Terms())
    values = {one.name: one.default for one in HTCondor.OPTIONS}
    extras = {name: {"listen": "127.0.0.1:1"} for name in ("metrics", "web")}
    settings = Settings("test", schedules=(None,), extras=extras, log_format="json")  # type: ignore[arg-type]
    looks = [
        EC2Cloud.from_config((pool,), OWNER).checks(),
        HTCondor.from_config(values, OWNER).checks(),
        machine_checks.looks(PLACES, settings, None),
        {
            cluster_checks.SUBJECT: None,
            cluster_checks.POOLS: None,
            service_user.SUBJECT: None,
            "switches": None,
            "jobs of all users": None,
        },
    ]
    return sorted({re.sub("^pool p: ", "", subject) for each in looks for subject in each})


@pytest.mark.parametrize("subject", subjects())
def test_every_check_is_told_of(subject: str) -> None:
    words = {"state directory": "state, run, log directory", "run directory": "state, run, log directory"}
    words["log directory"] = words["state directory"]
    named = [cell for line in PAGE.splitlines() if line.startswith("| ") for cell in line.split("|")[1].split(", ")]
    whole = [line.split("|")[1].strip() for line in PAGE.splitlines() if line.startswith("| ")]
    assert words.get(subject, subject) in {*(name.strip() for name in named), *whole}


def test_every_key_and_level_is_told_of() -> None:
    made = check._report(PLACES, None, [Finding("a", Check("b", "ok", "c"))])
    for key in (*made, *made["checks"][0], *LEVELS):
        assert f"`{key}`" in PAGE, key
