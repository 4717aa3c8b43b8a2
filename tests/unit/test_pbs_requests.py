"""What jobs of Torque and PBS Pro ask for comes out as machines."""

from __future__ import annotations

from typing import Optional

import pytest

from elastiq.interfaces import Resources
from elastiq.plugins.batch.pbs_requests import Chunk, of_nodes, of_pbs, of_select, of_torque, size_mb


@pytest.mark.parametrize(
    ("text", "mb"),
    [
        ("8gb", 8192),
        ("8GB", 8192),
        ("100mb", 100),
        ("4194304kb", 4096),
        ("1048576", 1),
        ("1048576b", 1),
        ("1mw", 8),  # words of 8 bytes
        ("131072w", 1),
        ("2tb", 2 * 1024**2),
        ("1g", 1024),
        ("0", 0),
        (" 512mb ", 512),
        ("-1", None),
        ("1.5gb", None),  # neither takes fractions
        ("lots", None),
        ("", None),
        ("<various>", None),
    ],
)
def test_sizes_are_read_in_all_their_units(text: str, mb: Optional[float]) -> None:
    assert size_mb(text) == mb


@pytest.mark.parametrize(
    ("spec", "chunks"),
    [
        ("2:ppn=4", [Chunk(2, Resources(4.0))]),
        ("3", [Chunk(3, Resources(1.0))]),
        ("1:ppn=2+2:ppn=3", [Chunk(1, Resources(2.0)), Chunk(2, Resources(3.0))]),
        ("1:ppn=2:gpu:bigmem", [Chunk(1, Resources(2.0), ("property = bigmem", "property = gpu"))]),
        ("1:gpus=2:exclusive_process:ppn=2", [Chunk(1, Resources(2.0, gpus=2.0))]),
        ("w3+w4:ppn=2", [Chunk(1, Resources(1.0), ("property = w3",)), Chunk(1, Resources(2.0), ("property = w4",))]),
        ("gpu:ppn=8", [Chunk(1, Resources(8.0), ("property = gpu",))]),
        ("2:ppn=4#shared", [Chunk(2, Resources(4.0))]),
        ("1:ppn=x", [Chunk(1, Resources(1.0))]),
        ("", []),
    ],
)
def test_nodes_of_torque_are_machines_with_processors_and_properties(spec: str, chunks: list[Chunk]) -> None:
    assert of_nodes(spec) == chunks


def test_nodes_count_and_not_the_ncpus_that_torque_sets_by_itself() -> None:
    ((units, shape),) = of_torque({"ncpus": "1", "nodect": "1", "nodes": "1:ppn=16"})
    assert (units, shape.nodes, shape.request.cpus) == (1, 1, 16)


def test_without_nodes_ncpus_are_of_one_machine() -> None:
    ((units, shape),) = of_torque({"ncpus": "8", "walltime": "01:00:00"})
    assert (units, shape.nodes, shape.request.cpus) == (1, 1, 8)


def test_a_job_that_asks_for_nothing_asks_for_a_cpu() -> None:
    assert of_torque({})[0][1].request == of_pbs({}, "")[0][1].request == Resources(1.0)


def test_unlike_nodes_are_machines_that_are_each_as_large_as_the_largest() -> None:
    ((units, shape),) = of_torque({"nodes": "1:ppn=2+2:ppn=3", "nodect": "3"})
    assert (units, shape.nodes, shape.request.cpus) == (1, 3, 3)


def test_procs_may_be_anywhere_and_count_one_by_one() -> None:
    ((units, shape),) = of_torque({"procs": "12", "nodes": "1", "pmem": "2gb"})
    assert (units, shape.nodes, shape.request) == (12, 1, Resources(1.0, 2048))


@pytest.mark.parametrize(
    ("asked", "mb"),
    [
        ({"mem": "16gb"}, 8192),  # of the whole job, on two machines
        ({"pmem": "1gb"}, 4096),  # of each of four processors
        ({"mem": "16gb", "pmem": "1gb"}, 8192),
        ({"vmem": "32gb"}, 16384),  # nothing else said
        ({"pvmem": "1gb"}, 4096),
        ({"mem": "4gb", "vmem": "32gb"}, 2048),
        ({"mem": "0"}, None),
        ({"mem": "odd"}, None),
        ({}, None),
    ],
)
def test_torques_memory_is_told_for_each_machine(asked: dict[str, str], mb: Optional[float]) -> None:
    ((_, shape),) = of_torque({"nodes": "2:ppn=4", **asked})
    assert shape.request.memory_mb == mb


def test_a_queues_neednodes_are_properties_that_its_jobs_need() -> None:
    ((_, shape),) = of_torque({"nodes": "1:ppn=2", "neednodes": "gpu"})
    assert shape.ad == ("property = gpu",)
    ((_, shape),) = of_torque({"nodes": "1:ppn=2", "neednodes": "1:ppn=2"})
    assert shape.ad == ()


@pytest.mark.parametrize(
    ("spec", "chunks"),
    [
        ("2:ncpus=4:mem=8gb:ngpus=1", [Chunk(2, Resources(4.0, 8192, gpus=1.0))]),
        ("ncpus=2", [Chunk(1, Resources(2.0))]),
        ("3", [Chunk(3, Resources(1.0))]),
        ("1:ncpus=2:mpiprocs=2:ompthreads=1", [Chunk(1, Resources(2.0))]),
        ("1:ncpus=1:ngpus=0", [Chunk(1, Resources(1.0))]),
        ("1:ncpus=1:Qlist=gpu:arch=linux", [Chunk(1, Resources(1.0), ("arch = linux", "qlist = gpu"))]),
        ('1:ncpus=1:note="a:b+c"', [Chunk(1, Resources(1.0), ("note = a:b+c",))]),
        ("1:ncpus=2+4:ncpus=1", [Chunk(1, Resources(2.0)), Chunk(4, Resources(1.0))]),
        ("", []),
    ],
)
def test_chunks_of_a_select_are_read(spec: str, chunks: list[Chunk]) -> None:
    assert of_select(spec) == chunks


@pytest.mark.parametrize("place", ["scatter", "scatter:excl", "vscatter:shared"])
def test_scattered_chunks_are_machines_at_once(place: str) -> None:
    ((units, shape),) = of_pbs({"place": place}, "2:ncpus=4:mem=8gb:ngpus=1")
    assert (units, shape.nodes, shape.request) == (1, 2, Resources(4.0, 8192, gpus=1.0))


def test_packed_chunks_are_one_machine_that_takes_them_all() -> None:
    ((units, shape),) = of_pbs({"place": "pack"}, "2:ncpus=4:mem=8gb+1:ncpus=1:ngpus=1")
    assert (units, shape.nodes, shape.request) == (1, 1, Resources(9.0, 16384, gpus=1.0))


@pytest.mark.parametrize("place", ["free", "free:excl", "", "group=rack"])
def test_chunks_that_may_share_machines_count_as_so_many_jobs(place: str) -> None:
    found = of_pbs({"place": place}, "64:ncpus=1:mem=1gb+1:ncpus=8")
    assert [(units, shape.nodes, shape.request.cpus) for units, shape in found] == [(64, 1, 1), (1, 1, 8)]


def test_what_the_server_made_of_a_request_comes_before_what_was_written() -> None:
    ((_, shape),) = of_pbs({"select": "1"}, "1:ncpus=2:Qlist=workq")
    assert (shape.request.cpus, shape.ad) == (2, ("qlist = workq",))


def test_a_job_without_a_select_asks_for_its_resources_on_one_machine() -> None:
    ((units, shape),) = of_pbs({"ncpus": "4", "mem": "8gb", "ngpus": "1", "place": "pack"}, "")
    assert (units, shape.nodes, shape.request) == (1, 1, Resources(4.0, 8192, gpus=1.0))
