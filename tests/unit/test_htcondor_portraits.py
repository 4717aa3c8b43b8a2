"""What of a worker's and a job's ad is kept for matching. HTCondor's library is asked in tests/integration."""

from __future__ import annotations

from typing import Any

import pytest

from elastiq.interfaces import JobGroup, Machine, Resources
from elastiq.plugins.batch.htcondor_jobs import job_groups, shape
from elastiq.plugins.batch.htcondor_portraits import LARGEST, PASSING, expression, job_ad, portrait, would_be

PLAIN = '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk)'


def row(requirements: str = PLAIN, **more: Any) -> dict[str, Any]:
    job = {"jobcount": 1, "jobstatus": 1, "jobuniverse": 5, "requestcpus": 1}
    return {**job, "requirements": f"/Expr({requirements})/", **more}


def slot(**more: Any) -> dict[str, Any]:
    return {"machine": "w7", "slottype": "Partitionable", "requirements": "/Expr(START)/", "cpus": 0, **more}


def lines(text: str) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in text.splitlines())


# --------------------------------------------------------------------------- workers


def test_what_is_of_the_moment_is_no_part_of_a_portrait() -> None:
    passing = (
        "State Activity EnteredCurrentState MyCurrentTime LastHeardFrom DaemonStartTime UpdatesTotal RecentJobStarts"
        " MonitorSelfAge TotalTimeUnclaimedIdle ChildCpus NumDynamicSlots JobStarts RemoteOwner PublicClaimId LoadAvg"
        " TotalCondorLoadAvg KeyboardIdle ClockMin MyAddress AddressV1 StartdIpAddr EC2InstanceID Name CurrentRank"
        " DrainReason Draining JobId ClientMachine ExpectedMachineGracefulDrainingBadput UtsnameNodename TotalSlots"
    )
    lasting = (
        "Start Requirements Rank WithinResourceLimits HasDocker Arch TotalCpus TotalSlotCpus MaxJobRetirementTime"
        " StarterAbilityList MachineResources UtsnameRelease DetectedCpus FileSystemDomain CondorVersion GPUs_1 MyRack"
    )
    kept = lines(portrait([slot(**dict.fromkeys(map(str.lower, (passing + " " + lasting).split()), 1))]))
    assert not {name.lower() for name in passing.split()} & set(kept)
    assert {name.lower() for name in lasting.split()} <= set(kept)
    assert all(PASSING.fullmatch(name) for name in passing.split())


def test_a_partitionable_slot_is_shown_whole_and_another_as_it_is() -> None:
    totals = {"totalslotcpus": 4, "totalslotmemory": 8192, "memory": 5}
    assert lines(portrait([slot(**totals)]))["cpus"] == "4"
    assert lines(portrait([slot(**totals)]))["memory"] == "8192"
    assert lines(portrait([slot(**totals, partitionableslot=False) | {"slottype": "Static", "cpus": 1}]))["cpus"] == "1"


@pytest.mark.parametrize(
    ("name", "kept"),
    [("ip-10-0-0-7.x.org", '"ip-0-0-0-0.x.org"'), ("Worker.X.org", '"worker-0.x.org"'), ("w0", '"w0-0"')],
)
def test_the_name_keeps_its_form_and_is_nobodys(name: str, kept: str) -> None:
    assert lines(portrait([slot(machine=name)]))["machine"] == kept


def test_slots_cut_from_others_are_not_drawn_and_those_alike_once() -> None:
    alike = [slot(name=f"slot{number}@w7", slotid=number, slottype="Static") for number in range(8)]
    text = portrait([*alike, slot(slottype="Dynamic", cpus=1), slot(slottype="Static", cpus=5)])
    assert [lines(part)["cpus"] for part in text.split("\n\n")] == ["0", "5"]


def test_nothing_to_go_by_is_no_portrait_and_a_large_one_is_cut_between_lines() -> None:
    drained = slot(requirements=False, state="Drained", draining=True)
    assert portrait([]) == portrait([slot(slottype="Dynamic"), drained]) == ""
    huge = portrait([slot(**{f"attribute{number:05}": "x" * 90 for number in range(1000)})])
    assert LARGEST - 200 < len(huge) <= LARGEST
    assert all(" = " in line for line in huge.splitlines())


def test_a_worker_that_has_just_joined_shows_nothing_before_it_ran_a_job() -> None:
    """Its START may wait for a health check, and half of its attributes come later."""
    young = {"daemonstarttime": 1000, "lastheardfrom": 1020}
    assert portrait([slot(**young)]) == portrait([slot(**young, jobstarts=0)]) == ""
    assert portrait([slot(**young, jobstarts=1)]) == portrait([slot(daemonstarttime=1000, lastheardfrom=1300)]) != ""


def test_the_free_disk_of_the_moment_changes_no_portrait() -> None:
    seen = {portrait([slot(totalslotdisk=size, totaldisk=size, disk=5)]) for size in (79_249_824.0, 79_245_728)}
    assert len(seen) == 1
    assert lines(seen.pop())["disk"] == str(75 * 1024**2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("/Expr(Cpus *\n 2)/", "Cpus * 2"),
        ('a"b\\c\nd', r'"a\"b\\c\nd"'),
        (True, "true"),
        (None, "undefined"),
        (1.5, "1.5"),
        ([1, "x", {"a": False}], '{ 1, "x", [ a = false ] }'),
    ],
)
def test_a_value_of_json_is_an_expression(value: Any, text: str) -> None:
    assert expression(value) == text


def test_without_a_portrait_a_slot_is_made_of_the_sizes_that_are_known() -> None:
    (made,) = would_be(Machine("ec2", "m5.large", Resources(cpus=4, memory_mb=8000.5)))["slots"]
    assert (made["Cpus"], made["Memory"], made["TotalSlotMemory"]) == ("4", "8000", "8000")
    assert not {"Disk", "GPUs"} & set(made)
    assert "Disk" not in made["WithinResourceLimits"]
    assert (made["State"], made["PartitionableSlot"], made["Start"]) == ('"Unclaimed"', "true", "true")
    (unknown,) = would_be(Machine("ec2", "m5.large", Resources()))["slots"]
    assert unknown["WithinResourceLimits"] == "true"


def test_disk_is_kilobytes_there() -> None:
    (made,) = would_be(Machine("ec2", "m5.large", Resources(disk_mb=2)))["slots"]
    assert made["Disk"] == "2048"
    assert job_ad(JobGroup("k", Resources(cpus=1, disk_mb=2), 1))["RequestDisk"] == "2048"


# --------------------------------------------------------------------------- jobs


def test_a_job_of_condor_submits_own_requirements_needs_no_ad_of_its_own() -> None:
    group = shape(row())
    assert (group.ad, group.requirements) == ((), "")
    assert job_ad(group)["requirements"] == '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX")'


def test_requirements_keep_what_decides_and_lose_what_the_request_says() -> None:
    group = shape(row(f"(HasDocker) && {PLAIN}"))
    assert group.requirements == "(HasDocker)"
    ad = job_ad(group)
    assert ad["requirements"] == '(HasDocker) && (TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX")'


@pytest.mark.parametrize("value", [True, None, "/Expr(true)/", "/Expr(TARGET.Disk >= RequestDisk)/"])
def test_a_job_that_requires_nothing_does_not_require_an_architecture(value: Any) -> None:
    assert job_ad(shape(row() | {"requirements": value}))["requirements"] == "true"


def test_the_attributes_that_requirements_refer_to_are_part_of_the_shape() -> None:
    asks = f"(Memory > MY.WantMemory) && {PLAIN}"
    more = {"wantmemory": "/Expr(Factor * 5)/", "factor": 3, "other": 9}
    group = shape(row(asks, **more))
    assert {line.partition(" ")[0] for line in group.ad} == {"requirements", "wantmemory", "factor"}
    assert job_ad(group)["wantmemory"] == "Factor * 5"
    assert shape(row(asks, **more, qdate=7)).key == group.key
    assert shape(row(asks, **{**more, "factor": 4})).key != group.key
    assert shape(row(**more)).key == shape(row()).key


def test_what_changes_of_a_job_splits_no_group() -> None:
    asks = f"(TARGET.Machine =!= MachineAttrMachine1) && (NumJobStarts < 5) && (Memory > ImageSize_RAW) && {PLAIN}"
    rows = [
        row(asks, machineattrmachine1=f"w{number}", numjobstarts=number, imagesize_raw=number, jobstatus=1 + number)
        for number in range(2)
    ]
    (group,) = job_groups({"": rows})
    assert (group.waiting, group.running) == (1, 1)
    assert [line.partition(" ")[0] for line in group.ad] == ["requirements"]


def test_what_is_required_of_gpus_is_kept() -> None:
    asks = f"(countMatches(MY.RequireGPUs,TARGET.AvailableGPUs) >= RequestGPUs) && {PLAIN}"
    group = shape(row(asks, requiregpus="/Expr(Capability > 7)/", requestgpus=1))
    assert group.requirements == "", "a person reads the request"
    assert job_ad(group)["requiregpus"] == "Capability > 7"
    assert job_ad(group)["RequestGPUs"] == "1"


def test_what_a_job_does_not_say_it_asks_the_least_of() -> None:
    ad = job_ad(JobGroup("k", Resources(cpus=2), 1, nodes=3))
    assert (ad["RequestMemory"], ad["RequestDisk"], ad["JobUniverse"]) == ("1", "1", "11")
    assert "RequestGPUs" not in ad
