"""What a would-be worker and its jobs look like to HTCondor: the ads that are matched. Pure.

A portrait is what the ads of a worker's slots say of any machine of its kind: without what is of the moment
(PASSING), and with a partitionable slot as if nothing had been cut from it. Slots that are alike are one. It is kept
as text: a line ``name = expression`` for each attribute, in the syntax of new ClassAds as HTCondor's JSON has
it, and an empty line between slots.

The machine's name is kept with its numbers made 0: no machine has it, but it has the form that names have there,
for Requirements that exclude a bad machine, or look at the domain.
"""

from __future__ import annotations

import json
import platform
import re
from typing import Any, Iterable, Mapping

from elastiq.interfaces import JobGroup, Machine, Resources
from elastiq.plugins.batch.htcondor_ads import Row, number, word
from elastiq.plugins.batch.htcondor_own_ads import BY_DEFAULT
from elastiq.plugins.batch.htcondor_slots import draining

LARGEST = 32_000  # characters
SLOTS_AT_MOST = 8  # of different kinds
SETTLED_S = 300.0
GB_IN_KB = 1024**2
# Of the moment, or of this one machine: what HTCondor measures, counts, stamps, and says of claims and drains.
PASSING = re.compile(
    "|".join(
        r"""
        Activity State Draining Drain\w+ Offline AcceptedWhileDraining Expected\w+ RetirementTimeRemaining
        EnteredCurrent\w+ MyCurrentTime Last\w+ Next\w+ Clock\w+ TotalTime\w+ TimeToLive MachineLastMatchTime
        Daemon(StartTime|LastReconfigTime|CoreDutyCycle) Recent\w+ Monitor\w+ Updates?[A-Z]\w+ Activation\w+
        ClaimRequests NewDSlotNotMatch Job(Id|Starts?|\w*Preemptions) (Public)?Claim(Ids?|State) Remote\w+
        ClientMachine GlobalJobId ConcurrencyLimits AccountingGroup CurrentRank Preempting\w+ Child\w+
        NumDynamicSlots(Time)? DSlotId WorkingCM TotalSlots NumPids (Total)?(Condor)?LoadAvg KeyboardIdle
        ConsoleIdle CpuBusy(Time)? CpuIsBusy (Total)?VirtualMemory MyAddress AddressV1 StarterIpAddr StartdIpAddr
        HardwareAddress SubnetMask PrivateNetworkName UtsnameNodename Name Machine SlotId EC2InstanceID
        InstanceID AuthenticatedIdentity AuthenticationMethod CondorScratchDir
        """.split()
    ),
    re.IGNORECASE,
)
SIZES = {"cpus": "cpus", "memory": "memory_mb", "disk": "disk_mb", "gpus": "gpus"}
UNITS = {"disk": 1024}  # KB
# What an idle machine says of the moment.
IDLE = {
    "Activity": '"Idle"',
    "State": '"Unclaimed"',
    **dict.fromkeys(("LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg"), "0.0"),
    **dict.fromkeys(("KeyboardIdle", "ConsoleIdle"), "86400"),
    "CpuBusy": "false",
    "CpuIsBusy": "false",
    "CurrentTime": "time()",
}
# What every startd of the last ten years says, and the policy of an execute machine.
PLAIN = {
    "MyType": '"Machine"',
    "TargetType": '"Job"',
    "Machine": '"new-worker"',
    "PartitionableSlot": "true",
    "SlotType": '"Partitionable"',
    "OpSys": '"LINUX"',
    **dict.fromkeys(("HasFileTransfer", "HasJobDeferral", "HasReconnect", "HasTDP"), "true"),
    "Start": "true",
    "Requirements": "START && (WithinResourceLimits)",
}
KNOWN_OF_NONE = "no worker of this pool is known to have {} (worker_ad can say so)"
LACKED_BY_THE_LAST = "the last worker of this pool had no {} (worker_ad can say that new ones have it)"


def portrait(slots: Iterable[Row]) -> str:
    """Of the ads of one worker's slots, whole; empty if there is none to go by now."""
    found: dict[str, None] = {}
    for row in slots:
        if word(row, "slottype") != "dynamic" and _shows_itself(row):
            lines = [f"{name} = {expression(value)}" for name, value in sorted(_lasting(row).items())]
            found["\n".join(line for line in lines if line.isprintable())] = None
    kept = "\n\n".join(list(found)[:SLOTS_AT_MOST])
    return kept if len(kept) <= LARGEST else next(iter(found))[:LARGEST].rpartition("\n")[0]


def _shows_itself(row: Row) -> bool:
    """Whether the slot says what it will be like. While it drains it has no START, and Requirements are false (23.9).
    Before its first job or SETTLED_S a START that waits for a health check may be false, and what STARTD_CRON
    finds not be there yet."""
    started, heard = number(row.get("daemonstarttime")), number(row.get("lastheardfrom"))
    young = started is not None and heard is not None and heard - started < SETTLED_S
    return row.get("requirements") is not None and not draining(row) and not (young and not row.get("jobstarts"))


def _lasting(row: Row) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if not PASSING.fullmatch(name)}
    if row.get("partitionableslot") is True or word(row, "slottype") == "partitionable":
        whole = {name: row.get(f"totalslot{name}") for name in SIZES}
        kept.update({name: value for name, value in whole.items() if number(value) is not None})
    for name in ("disk", "totaldisk", "totalslotdisk"):  # in whole GB: more exactly, it is of the moment
        size = number(kept.get(name)) or 0
        kept.update({name: int(size) // GB_IN_KB * GB_IN_KB} if size > GB_IN_KB else {})
    name = word(row, "machine")
    unlike = re.sub(r"\d+", "0", name)
    kept["machine"] = unlike if unlike != name else re.sub(r"^[^.]*", r"\g<0>-0", name)
    return kept


def expression(value: Any) -> str:
    """A value of a JSON answer as an expression of a ClassAd."""
    if isinstance(value, str):
        plain = value.startswith("/Expr(") and value.endswith(")/")
        return " ".join(value[6:-2].split()) if plain else json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return f"[ {'; '.join(f'{name} = {expression(one)}' for name, one in value.items())} ]"
    if isinstance(value, list):
        return f"{{ {', '.join(map(expression, value))} }}"
    return "undefined" if value is None else json.dumps(value)


def would_be(machine: Machine) -> dict[str, Any]:
    """The slots of a would-be worker, and how to say that it lacks something; ``laid_over`` are lines of the
    administrator's, in the syntax of HTCondor's configuration."""
    shown = (_attributes(slot.splitlines()) for slot in machine.portrait.split("\n\n"))
    seen = [slot for slot in shown if slot]
    slots = [{**IDLE, **slot} for slot in seen or [_made_up(machine.resources)]]
    origin = LACKED_BY_THE_LAST if seen else KNOWN_OF_NONE
    return {"slots": slots, "laid_over": machine.worker_ad, "origin": origin}


def _attributes(lines: Iterable[str]) -> dict[str, str]:
    return dict(line.split(" = ", 1) for line in lines if " = " in line)


def _made_up(machine: Resources) -> dict[str, str]:
    """A slot of so much, and as this head node in what is not said; no limit on what is not known."""
    known = {name: _size(getattr(machine, size), UNITS.get(name, 1)) for name, size in SIZES.items()}
    known = {name.capitalize() if name != "gpus" else "GPUs": value for name, value in known.items() if value}
    limits = [f"(TARGET.Request{name} =?= undefined || TARGET.Request{name} <= MY.{name})" for name in known]
    arch = platform.machine()
    return {
        **PLAIN,
        "Arch": f'"{"X86_64" if arch == "x86_64" else arch}"',
        **known,
        **{f"TotalSlot{name}": value for name, value in known.items()},
        "WithinResourceLimits": " && ".join(limits) or "true",
    }


def _size(value: float | None, unit: float) -> str:
    return "" if value is None else json.dumps(int(value * unit))


def job_ad(group: JobGroup) -> Mapping[str, str]:
    """One job of a group: what it asks for, the least where that is not said, and what its Requirements need."""
    asked = group.request
    ad = {
        "MyType": '"Job"',
        "TargetType": '"Machine"',
        "JobStatus": "1",
        "CurrentTime": "time()",
        "JobUniverse": "11" if group.nodes > 1 else "5",
        "RequestCpus": _size(asked.cpus, 1) or "1",
        "RequestMemory": _size(asked.memory_mb, 1) or "1",
        "RequestDisk": _size(asked.disk_mb, 1024) or "1",
        "requirements": BY_DEFAULT,
    }
    if asked.gpus is not None:
        ad["RequestGPUs"] = _size(asked.gpus, 1)
    own = {name: expression(json.loads(value)) for name, value in _attributes(group.ad).items()}
    return {**ad, **own}
