"""Whether a job would run on a would-be host: by what its pool says, and what a host of its kind showed."""

from __future__ import annotations

import pytest

from elastiq.interfaces import JobGroup, Machine, Resources
from elastiq.plugins.batch.gridengine_hosts import Host, Queue
from elastiq.plugins.batch.gridengine_matching import portrait, why_not


def refused(asked: str, *worker_ad: str, portrait: str = "") -> str:
    machine = Machine("p", "f", Resources(cpus=4), portrait, worker_ad)
    return why_not(JobGroup("k", Resources(cpus=1), 1, ad=(asked,)), machine)


@pytest.mark.parametrize(
    ("asked", "worker_ad", "runs"),
    [
        ("queues = gpu.q", ("queues = all.q, gpu.q",), True),
        ("queues = gpu.q, all.q", ("Queues = all.q",), True),
        ("queues = gpu.q", ("queues = all.q",), False),
        ("queues = gpu.*|x", ("queues = gpu.q",), True),
        ("queues = !gpu.q", ("queues = gpu.q",), True),  # an operator that is not looked into is no reason
        ("queues = all.q@@big", ("queues = all.q",), True),
        ("queues = *@@big", ("queues = all.q",), True),
        ("queues = gpu.q@@big", ("queues = all.q",), False),
        ("queues = gpu.q", (), True),
        ("pe = mpi*", ("pe = smp, mpi",), True),
        ("pe = mpi", ("pe = smp",), False),
        ("arch == lx*|sol-amd64", ("arch = lx-amd64",), True),
        ("arch == sol*", ("arch = lx-amd64",), False),
        ("gpu_model == A100", ("gpu_model = a100",), True),
        ("licences <= 4", ("licences = 8",), True),
        ("licences <= 4", ("licences = 2",), False),
        ("scratch <= 10G", ("scratch = 200g",), True),
        ("scratch <= 10G", ("scratch = 9G",), False),
        ("num_proc == 8", ("num_proc = 8.000000",), True),
        ("num_proc == 8", ("num_proc = 4",), False),
        ("ssd == TRUE", ("ssd = 1",), True),
        ("ssd == 1", ("ssd = false",), False),
        ("exclusive EXCL TRUE", ("exclusive = 1",), True),
        ("unsaid <= 5", ("arch = lx-amd64",), True),
        ("scratch <= some", ("scratch = 9G",), True),
        ("nonsense", ("nonsense = 1",), True),
    ],
)
def test_a_request_is_compared_with_what_the_pool_says(asked: str, worker_ad: tuple[str, ...], runs: bool) -> None:
    why = refused(asked, *worker_ad)
    assert (why == "") == runs, why


def test_why_not_says_what_was_asked_and_what_is_there() -> None:
    assert refused("queues = gpu.q", "queues = all.q") == "asks for queue gpu.q, the machine is for all.q"
    assert refused("arch == sol*", "arch = lx-amd64") == "asks arch == sol*, the machine has lx-amd64"


def test_the_size_is_looked_at_first() -> None:
    machine = Machine("p", "f", Resources(cpus=4), worker_ad=("queues = all.q",))
    assert "64" in why_not(JobGroup("k", Resources(cpus=64), 1), machine)


def test_a_host_that_joined_shows_what_the_next_ones_will_be_and_the_pool_has_the_last_word() -> None:
    joined = Host(
        "w1",
        resources={"arch": "lx-amd64", "mem_free": "5G", "load_avg": "0.5", "np_load_avg": "0.1", "scratch": "200G"},
        queues=(Queue("gpu.q"), Queue("all.q")),
    )
    shown = portrait(joined)
    assert shown.splitlines() == ["queues = all.q, gpu.q", "arch = lx-amd64", "scratch = 200G"]
    assert refused("queues = new.q", portrait=shown)
    assert refused("queues = new.q", "queues = new.q", portrait=shown) == ""


@pytest.mark.parametrize(
    "host",
    [
        Host("w1", queues=()),
        Host("w1", queues=(Queue("all.q", "d"),)),
        Host("w1", queues=(Queue("all.q", used=1.0),)),
        Host("w1", queues=(Queue("all.q"),), jobs=(("1", "", "a"),)),
    ],
)
def test_a_host_that_is_used_or_closed_shows_nothing(host: Host) -> None:
    assert portrait(host) == ""
