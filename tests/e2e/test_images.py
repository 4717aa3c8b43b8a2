"""The recipes of docs/head-node.md and docs/worker-image.md, carried out word by word on booted machines."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import Iterator

import pytest

from tests.e2e import booted
from tests.e2e.cluster import wait_for
from tests.e2e.rig import places
from tests.e2e.rig.process import run

DOCS = places.REPOSITORY / "docs"
USER_DATA = places.REPOSITORY / "packaging" / "worker-image" / "user-data.yaml"
HEAD, WORKER = "172.31.241.1", "172.31.241.2"
WORKER_NAME = f"ip-{WORKER.replace('.', '-')}.ec2.internal"
INSTANCE = "i-0123456789abcdef0"
SEED = "/var/lib/cloud/seed/nocloud"  # where cloud-init finds what a cloud would give it
# Not in the recipes: a machine of the test has its packages at hand, and no name server.
ASSUMED = ("apt install condor", "cloud-init clean --logs --machine-id")


def blocks(page: str) -> list[str]:
    """The indented blocks of a page."""
    text = (DOCS / page).read_text("utf-8")
    found = re.findall(r"(?m)(?:^    .*\n|^\n(?=    ))+", text)
    return [re.sub(r"(?m)^    ", "", block).strip("\n") for block in found if block.strip()]


def block(page: str, begin: str) -> str:
    found = [one for one in blocks(page) if one.startswith(begin)]
    assert len(found) == 1, f"{page}: {begin}"
    return found[0]


@contextmanager
def link() -> Iterator[list[str]]:
    """Two network namespaces, with a cable between them; nothing else is on it."""
    spaces = {f"eqi-{os.getpid()}-{which}": address for which, address in (("head", HEAD), ("worker", WORKER))}
    try:
        for space in spaces:
            run(["ip", "netns", "add", space])
        one, other = (["name", "eth0", "netns", space] for space in spaces)
        run(["ip", "link", "add", *one, "type", "veth", "peer", *other])
        for space, address in spaces.items():
            for command in (f"address add {address}/16 dev eth0", "link set lo up", "link set eth0 up"):
                run(["ip", "-n", space, *command.split()])
        yield list(spaces)
    finally:
        for space in spaces:
            run(["ip", "netns", "delete", space], check=False)


@pytest.fixture(scope="module")
def machines(debian: None) -> Iterator[tuple[booted.Machine, booted.Machine]]:
    """A head node and a worker on one network; neither has anything configured."""
    with link() as (one, other), booted.machine(one) as head, booted.machine(other) as worker:
        yield head, worker


def name(machine: booted.Machine, address: str, full: str) -> None:
    """What the cloud's DHCP and DNS would do."""
    machine.put("/etc/hosts", f"127.0.0.1 localhost\n{address} {full} {full.partition('.')[0]}\n")
    machine.put("/etc/hostname", f"{full.partition('.')[0]}\n")
    machine.run("hostname", full.partition(".")[0])


def shell(machine: booted.Machine, script: str) -> str:
    return machine.run("sh", "-euc", script)


def rows(head: booted.Machine, *attributes: str) -> list[str]:
    return head.ask("condor_status", "-af", *attributes).stdout.split()


@pytest.fixture(scope="module")
def head(machines: tuple[booted.Machine, booted.Machine]) -> booted.Machine:
    """As docs/head-node.md makes it."""
    head, page = machines[0], "head-node.md"
    name(head, HEAD, "head.example.org")
    head.run("useradd", "--system", "elastiq")
    assert block(page, ASSUMED[0])
    head.put("/etc/condor/config.d/10-head", block(page, "CONDOR_HOST"))
    head.put("/etc/condor/config.d/50-elastiq", block(page, "ALLOW_ADMINISTRATOR"))
    head.put("/etc/condor/config.d/90-test", "NEGOTIATOR_INTERVAL = 2\n")  # else a job waits for a minute
    shell(head, block(page, "systemctl enable"))
    wait_for(lambda: head.ask("condor_status", "-schedd", "-af", "Name").stdout.strip(), 30, "the schedd answers")
    shell(head, block(page, "condor_token_create"))
    return head


@pytest.fixture(scope="module")
def worker(machines: tuple[booted.Machine, booted.Machine], head: booted.Machine) -> booted.Machine:
    """As docs/worker-image.md makes it: the image, then its first boot with the user data."""
    worker = machines[1]
    name(worker, WORKER, WORKER_NAME)
    worker.run("apt-get", "install", "--yes", "cloud-init", timeout_s=120)
    (fill_in,) = [line for line in block("worker-image.md", "install -m 640").splitlines() if line.startswith("sed ")]
    head.run("mkdir", "-p", "/usr/share/elastiq/worker-image")
    head.put("/usr/share/elastiq/worker-image/user-data.yaml", USER_DATA.read_text("utf-8"))
    user_data = shell(head, fill_in.partition(" > ")[0]).replace("%ipv4%", HEAD)  # elastiq's part
    worker.run("mkdir", "-p", SEED)
    worker.put(f"{SEED}/user-data", user_data)
    worker.put(f"{SEED}/meta-data", f"instance-id: {INSTANCE}\n")
    worker.put("/etc/cloud/cloud.cfg.d/test.cfg", "preserve_hostname: true\nnetwork: {config: disabled}\n")
    worker.reboot()
    return worker


def test_the_page_shows_the_file_that_is_shipped() -> None:
    assert block("worker-image.md", "#cloud-config") == USER_DATA.read_text("utf-8").strip()


def test_cloud_init_finds_nothing_wrong_with_the_user_data(worker: booted.Machine) -> None:
    said = worker.run("cloud-init", "schema", "--config-file", f"{SEED}/user-data")
    assert "Valid schema" in said


def test_the_worker_joins_and_publishes_its_instance_id(head: booted.Machine, worker: booted.Machine) -> None:
    asked = block("worker-image.md", "condor_status").split()[2:]
    wait_for(lambda: rows(head, *asked[:2]) == [WORKER_NAME, INSTANCE], 40, "the worker with its id")
    assert worker.run("condor_config_val", "CONDOR_HOST", "MAXJOBRETIREMENTTIME").split() == [HEAD, "31536000"]
    assert worker.run("systemctl", "is-enabled", "condor.service").strip() == "enabled"  # also after a stop


def test_it_runs_a_job(head: booted.Machine, worker: booted.Machine) -> None:
    head.put("/home/jobuser/job", "executable = /bin/hostname\noutput = /home/jobuser/said\nqueue\n")
    wait_for(lambda: rows(head, "State") == ["Unclaimed"], 40, "the worker is free")
    head.run("condor_submit", "/home/jobuser/job", user="jobuser")
    said = head.host_path("/home/jobuser/said")
    wait_for(lambda: said.exists() and said.read_text(), 60, "the job has run")
    assert said.read_text().strip() == WORKER_NAME.partition(".")[0]


def test_the_user_elastiq_may_drain_it_as_it_is(head: booted.Machine, worker: booted.Machine) -> None:
    wait_for(lambda: rows(head, "State") == ["Unclaimed"], 40, "the worker is free")
    drain = ("condor_drain", "-graceful", "-reason", "elastiq", WORKER_NAME)
    wait_for(lambda: head.ask(*drain, user="elastiq").returncode == 0, 20, "the drain")
    wait_for(lambda: rows(head, "State", "DrainReason") == ["Drained", "elastiq"], 20, "the worker is drained")
