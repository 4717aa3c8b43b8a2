"""Jobs matched with would-be workers by HTCondor's own library, in its helper process."""

from __future__ import annotations

import time
from typing import Any, Iterator, Mapping

import pytest

from elastiq import command
from elastiq.interfaces import JobGroup, Machine, Owner, Resources
from elastiq.plugins.batch.htcondor import HTCondor
from elastiq.plugins.batch.htcondor_jobs import job_groups
from elastiq.plugins.batch.htcondor_portraits import portrait

SIZES = Resources(cpus=4, memory_mb=8000, disk_mb=50_000, gpus=0)
LIMITS = (
    "MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Memory > 0 && TARGET.RequestMemory <= MY.Memory && MY.Disk > 0"
    " && TARGET.RequestDisk <= MY.Disk && (TARGET.RequestGPUs =?= undefined || MY.GPUs >= TARGET.RequestGPUs)"
)
# A partitionable slot of a 23.9 startd, as the collector shows it while it runs jobs.
SLOT: Mapping[str, Any] = {
    "MyType": "Machine", "SlotType": "Partitionable", "PartitionableSlot": True, "Name": "slot1@ip-10-0-0-7.x.org",
    "Machine": "ip-10-0-0-7.x.org", "State": "Unclaimed", "Activity": "Idle", "LoadAvg": 3.9, "LastHeardFrom": 1796,
    "Cpus": 0, "Memory": 100, "Disk": 7, "GPUs": 0, "TotalSlotCpus": 4, "TotalSlotMemory": 8192, "TotalSlotGPUs": 1,
    "TotalSlotDisk": 79_249_824.0, "Arch": "X86_64", "OpSys": "LINUX", "OpSysAndVer": "Debian13", "HasDocker": True,
    "HasFileTransfer": True, "Start": "/Expr(TARGET.RequestCpus <= 3 && KeyboardIdle > 60)/", "KeyboardIdle": 2,
    "Requirements": "/Expr(START && (WithinResourceLimits))/", "WithinResourceLimits": f"/Expr({LIMITS})/",
    "GPUs_1": {"Id": "GPU-1", "Capability": 8.6}, "AvailableGPUs": "/Expr({ GPUs_1 })/", "SlotWeight": "/Expr(Cpus)/",
    "StarterAbilityList": "HasTDP,HasFileTransfer", "Rank": 0.0, "EC2InstanceID": "i-1", "JobStarts": 7,
}  # fmt: skip
PORTRAIT = portrait([{name.lower(): value for name, value in SLOT.items()}])


@pytest.fixture(scope="module")
def batch() -> Iterator[HTCondor]:
    command.stopping.clear()
    values = {option.name: option.default for option in HTCondor.OPTIONS}
    batch = HTCondor.from_config({**values, "command_timeout_s": 30.0}, Owner("test", "0123456789abcdef"))
    assert batch.can_match
    yield batch


def made_up(*worker_ad: str, **sizes: float) -> Machine:
    return Machine("ec2", "m5.large", Resources(**{**vars(SIZES), **sizes}), worker_ad=worker_ad)


def like_the_last(*worker_ad: str, slots: str = PORTRAIT) -> Machine:
    return Machine("ec2", "m5.large", Resources(), slots, worker_ad)


def group(requirements: str = "", **ad: Any) -> JobGroup:
    """The group of a job as condor_q shows it, with condor_submit's own clauses."""
    appended = ['(TARGET.Arch == "X86_64")', '(TARGET.OpSys == "LINUX")', "(TARGET.Memory >= RequestMemory)"]
    clauses = [*([f"({requirements})"] if requirements else []), *appended]
    row = {"jobcount": 1, "jobstatus": 1, "jobuniverse": 5, "requestcpus": 1, "requestmemory": 64, "requestdisk": 1024}
    row["requirements"] = f"/Expr({' && '.join(clauses)})/"
    (found,) = job_groups({"": [{**row, **{name.lower(): value for name, value in ad.items()}}]})
    return found


def refusal(batch: HTCondor, group: JobGroup, machine: Machine) -> str:
    (said,) = batch.match([group], [machine]).values()
    return said


NO_DOCKER = "Requirements ask for HasDocker: no worker of this pool is known to have HasDocker (worker_ad can say so)"


def test_a_plain_job_runs_on_a_plain_machine_and_on_one_like_the_last(batch: HTCondor) -> None:
    job = group()
    machines = [made_up(), Machine("ec2", "new", Resources()), like_the_last()]
    assert batch.match([job], machines) == {(job.key, machine): "" for machine in machines}


def test_what_no_worker_is_known_to_have_is_named_and_worker_ad_can_say_it(batch: HTCondor) -> None:
    docker = group("HasDocker")
    assert refusal(batch, docker, made_up()) == NO_DOCKER
    assert refusal(batch, docker, made_up("HasDocker = true")) == ""
    assert refusal(batch, docker, like_the_last()) == ""
    gone = "the last worker of this pool had no HasIB (worker_ad can say that new ones have it)"
    assert (
        refusal(batch, group("TARGET.HasIB =?= true"), like_the_last()) == f"Requirements ask for HasIB is true: {gone}"
    )


def test_the_clause_that_fails_is_told_with_its_values(batch: HTCondor) -> None:
    said = refusal(batch, group('HasDocker && (Memory > 20000 || OpSysAndVer == "Debian9")'), like_the_last())
    assert said == (
        'Requirements ask for Memory > 20000 || OpSysAndVer == "Debian9": Memory = 8192, OpSysAndVer = "Debian13"'
    )
    arm = group(Requirements='/Expr((TARGET.Arch == "aarch64") && (TARGET.OpSys == "LINUX"))/')
    assert refusal(batch, arm, like_the_last()) == 'Requirements ask for Arch == "aarch64": Arch = "X86_64"'
    assert refusal(batch, group(), made_up('Arch = "aarch64"')).startswith('Requirements ask for Arch == "X86_64"')
    assert refusal(batch, group(Requirements=True), made_up('Arch = "aarch64"')) == "", "it asks for nothing"


def test_sizes_decide_first_and_in_the_words_of_sizes(batch: HTCondor) -> None:
    assert refusal(batch, group(RequestCpus=9), made_up()) == "asks 9 cpus, the machine has 4"


def test_the_start_of_the_worker_is_asked_too(batch: HTCondor) -> None:
    three, four = group(RequestCpus=3), group(RequestCpus=4)
    said = "START of such a worker asks for RequestCpus <= 3: RequestCpus = 4"
    for machine in (like_the_last(), made_up("START = TARGET.RequestCpus <= 3 && KeyboardIdle > 60")):
        assert batch.match([three, four], [machine]) == {(three.key, machine): "", (four.key, machine): said}
    assert refusal(batch, four, like_the_last("START = true")) == ""
    assert refusal(batch, group(), made_up("START = false")).endswith("START = false")


def test_a_start_that_asks_for_an_accounting_group_takes_no_other(batch: HTCondor) -> None:
    cms, atlas, none = group(AcctGroup="cms"), group("Memory > 1", AcctGroup="atlas"), group()
    machine = made_up('START = TARGET.AcctGroup =?= "cms"')
    said = batch.match([cms, atlas, none], [machine])
    assert said[cms.key, machine] == ""
    assert said[atlas.key, machine] == 'START of such a worker asks for AcctGroup is "cms": AcctGroup = "atlas"'
    assert said[none.key, machine].endswith("the jobs have no AcctGroup")


def test_a_portrait_is_of_an_empty_machine(batch: HTCondor) -> None:
    assert refusal(batch, group("LoadAvg < 0.3", RequestCpus=3, RequestMemory=8192), like_the_last()) == ""
    said = refusal(batch, group(RequestMemory=8193), like_the_last())
    assert "RequestMemory = 8193" in said and "Memory = 8192" in said


@pytest.mark.parametrize("machine", [made_up(), like_the_last()])
def test_what_nobody_can_know_yet_is_no_reason_against_a_machine(batch: HTCondor, machine: Machine) -> None:
    for unknown in ("LastHeardFrom > 5", "TARGET.EnteredCurrentState < 7 && Draining =!= true", "NumJobStarts < 2"):
        assert refusal(batch, group(unknown), machine) == ""
    assert refusal(batch, group("CurrentTime > 1700000000 && TARGET.CurrentTime < 9700000000"), machine) == ""
    # of a job the schedd tells only what its own Requirements refer to
    owner = Machine(machine.pool, "", machine.resources, machine.portrait, ('START = TARGET.Owner == "alice"',))
    assert refusal(batch, group(), owner) == ""


def test_a_bad_machine_can_be_excluded_by_name_and_no_new_one_has_the_name_of_an_old_one(batch: HTCondor) -> None:
    for machine in (made_up(), like_the_last()):
        assert refusal(batch, group('Machine != "ip-10-0-0-7.x.org"'), machine) == ""
        assert "ip-10-0-0-7" in refusal(batch, group('Machine == "ip-10-0-0-7.x.org"'), machine)
    assert refusal(batch, group(r'regexp("^ip-\\d.*\\.x\\.org$", Machine)'), like_the_last()) == ""


def test_what_the_job_says_of_itself_counts(batch: HTCondor) -> None:
    wants = "TARGET.Memory > MY.WantMemory * 2"
    assert refusal(batch, group(wants, WantMemory=4000), like_the_last()) == ""
    said = refusal(batch, group(wants, WantMemory="/Expr(RequestCpus * 5000)/"), like_the_last())
    assert said.endswith("Memory = 8192, WantMemory = RequestCpus * 5000")
    assert refusal(batch, group(wants), like_the_last()).endswith("Memory = 8192, the jobs have no WantMemory")


def test_properties_of_gpus_count(batch: HTCondor) -> None:
    asks = "countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs"
    good, better = (group(asks, RequestGPUs=1, RequireGPUs=f"/Expr(Capability > {least})/") for least in (8, 9))
    machine = like_the_last()
    said = batch.match([good, better], [machine])
    assert said[good.key, machine] == "" and "RequireGPUs = Capability > 9" in said[better.key, machine]
    assert refusal(batch, good, made_up(gpus=1)).endswith("known to have AvailableGPUs (worker_ad can say so)")


def test_one_slot_of_several_has_to_fit(batch: HTCondor) -> None:
    static = {**SLOT, "SlotType": "Static", "PartitionableSlot": False, "Cpus": 1, "Memory": 2000, "Disk": 9_000_000}
    rows = [{**static, "SlotID": 1, "Name": "slot1@w"}, {**static, "SlotID": 2, "Name": "slot2@w"}]
    rows += [{**static, "Cpus": 3, "Name": "slot3@w", "State": "Claimed"}]
    slots = portrait([{name.lower(): value for name, value in row.items()} for row in rows])
    assert slots.count("\n\n") == 1, "those that are alike are one"
    assert refusal(batch, group(RequestCpus=3), like_the_last(slots=slots)) == ""
    assert "RequestCpus = 4" in refusal(batch, group(RequestCpus=4), like_the_last("START = true", slots=slots))


def test_nonsense_of_one_job_or_pool_spoils_no_other(batch: HTCondor) -> None:
    good, bad, odd = group(), group("((("), group('"text"')
    fine, wrong = made_up(), made_up("HasDocker = ((")
    said = batch.match([good, bad, odd], [fine, wrong])
    assert said[good.key, fine] == ""
    assert said[bad.key, fine].endswith("is no ClassAd expression")
    assert said[odd.key, fine] == 'Requirements ask for "text"'
    assert said[good.key, wrong] == "worker_ad: HasDocker = (( is no ClassAd expression"


def test_a_reason_is_one_line_of_bounded_length(batch: HTCondor) -> None:
    long = " || ".join(f'Attribute{number} == "{"x" * 100}"' for number in range(200))
    said = refusal(batch, group(long), made_up())
    assert len(said) == 300 and "\n" not in said and said.endswith("...")
    assert refusal(batch, group("(" * 400 + "HasDocker" + ")" * 400), made_up())


def test_hundreds_of_groups_and_dozens_of_machines_are_one_short_call(batch: HTCondor) -> None:
    groups = [group(f"HasDocker && Memory > {number * 20}", RequestCpus=1 + number % 3) for number in range(500)]
    machines = [like_the_last(f"Memory = {number * 200}", "START = true") for number in range(50)]
    began = time.monotonic()
    said = batch.match(groups, machines)
    took_s = time.monotonic() - began
    print(f"500 x 50 pairs: {took_s:.2f} s")
    ran = sum(not why for why in said.values())
    assert (len(said), ran) == (25_000, sum(a * 20 < b * 200 for a in range(500) for b in range(50)))
