"""What Slurm prints of jobs and nodes, in the forms of several versions: for `fake_slurm`."""

from __future__ import annotations

import re
import time
from typing import Any, Optional

BOOTED = 1_700_000_000
LONG = {
    "PD": "PENDING",
    "R": "RUNNING",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "S": "SUSPENDED",
    "ST": "STOPPED",
    "SO": "STAGE_OUT",
    "SI": "SIGNALING",
    "RS": "RESIZING",
    "RH": "REQUEUE_HOLD",
    "SE": "SPECIAL_EXIT",
}

Used = tuple[float, float, list[str]]  # cpus, memory, and the words of its state


def job(number: int, **said: Any) -> dict[str, Any]:
    """A job of one task that waits; ``cpus`` and ``memory`` are those of the whole job, ``hosts`` where it runs."""
    plain = {
        "id": number,
        "array": 0,
        "tasks": "",
        "limit": 0,
        "state": "PD",
        "reason": "Resources",
        "partition": "main",
        "nodes": 1,
        "max_nodes": 0,
        "ntasks": 1,
        "cpus": 1,
        "memory": None,
        "min_memory": "",  # as squeue shows it, if it is not the memory
        "features": "",
        "hosts": [],
        "user": "somebody",
        "name": "job",
        "per_node": "",
        "per_job": "",
        "per_task": "",
        "asked_nodes": "",
        "sharing": "OK",
        "reservation": "",
        "begin": 0,
        "het": 0,
        "offset": 0,
    }
    assert said.keys() <= plain.keys(), said
    return {**plain, **said}


def node(address: str, name: str, **said: Any) -> dict[str, Any]:
    """An idle one that registered. ``base`` and ``flags`` are what its jobs do not say."""
    plain = {
        "address": address,
        "host": name,
        "base": "IDLE",
        "flags": ["DYNAMIC_NORM"],
        "cpus": 4,
        "memory": 8192,
        "gres": "",
        "used_gres": "",
        "features": [],
        "partitions": ["main"],
        "reason": "",
        "comment": "",
        "started": BOOTED + 100,
        "instance_id": "",
        "disk": 0,
    }
    assert said.keys() <= plain.keys(), said
    return {**plain, **said}


def stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def number(value: Optional[float]) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def squeezed(hosts: list[str]) -> str:
    """w1,w2,x -> w[1-2],x: as Slurm writes them, where it is easy."""
    plain = [re.fullmatch(r"w([1-9])", host) for host in hosts]
    if len(hosts) == 2 and all(plain):
        first, last = (int(found[1]) for found in plain if found)
        return f"w[{first}-{last}]" if last == first + 1 else ",".join(hosts)
    return ",".join(hosts)


def shown_id(of: dict[str, Any]) -> str:
    if of["het"]:
        return f"{of['het']}+{of['offset']}"
    if of["tasks"]:
        return f"{of['array']}_{of['tasks']}" if of["tasks"].isdigit() else f"{of['array']}_[{tasks_of(of)}]"
    return str(of["id"])


def tasks_of(of: dict[str, Any]) -> str:
    return f"{of['tasks']}%{of['limit']}" if of["limit"] and not of["tasks"].isdigit() else of["tasks"]


def tres_of(of: dict[str, Any]) -> str:
    memory = "" if of["memory"] is None else f"mem={of['memory']:g}M,"
    return f"cpu={of['cpus']:g},{memory}node={of['nodes']},billing={of['cpus']:g}"


def columns_of(of: dict[str, Any]) -> dict[str, str]:
    """What squeue -O prints."""
    return {
        "JobID": str(of["id"]),
        "ArrayJobID": str(of["array"] or of["id"]),
        "ArrayTaskID": tasks_of(of) or "N/A",
        "StateCompact": of["state"],
        "Reason": of["reason"],
        "Partition": of["partition"],
        "NumNodes": str(of["nodes"]),
        "MaxNodes": str(of["max_nodes"] or of["nodes"]),
        "NumTasks": str(of["ntasks"]),
        "tres-alloc": tres_of(of),
        "MinMemory": of["min_memory"] or ("0" if of["memory"] is None else f"{of['memory']:g}M"),
        "tres-per-node": of["per_node"] or "N/A",
        "tres-per-job": of["per_job"] or "N/A",
        "tres-per-task": of["per_task"] or "N/A",
        "Feature": of["features"] or "(null)",
        "ReqNodes": of["asked_nodes"],
        "OverSubscribe": of["sharing"],
        "Reservation": of["reservation"] or "(null)",
        "EligibleTime": stamp(of["begin"] or BOOTED),
        "Dependency": "(null)",
        "HetJobOffset": str(of["offset"]) if of["het"] else "N/A",
        "HetJobID": str(of["het"]) if of["het"] else "N/A",
    }


def job_line(of: dict[str, Any]) -> str:
    """scontrol show job -o, the parts that matter."""
    nodes = f"{of['nodes']}-{of['max_nodes']}" if of["max_nodes"] else of["nodes"]
    return (
        f"JobId={of['id']} JobName={of['name']} JobState={LONG.get(of['state'], of['state'])} NodeList= "
        f"NumNodes={nodes} NumCPUs={of['cpus']} NumTasks={of['ntasks']} TRES={tres_of(of)}"
    )


def old_job(of: dict[str, Any]) -> dict[str, Any]:
    """openapi/v0.0.38."""
    reason, _, text = of["reason"].partition(",")
    single = of["tasks"].isdigit()
    return {
        "job_id": of["id"],
        "array_job_id": of["array"],
        "array_task_id": int(of["tasks"]) if single else None,
        "array_task_string": "" if single else tasks_of(of),
        "array_max_tasks": of["limit"],
        "job_state": LONG.get(of["state"], of["state"]),
        "state_reason": reason,
        "partition": of["partition"],
        "state_description": of["reason"] if text else "",
        "node_count": of["nodes"],
        "max_nodes": of["max_nodes"],
        "tasks": of["ntasks"],
        "cpus": of["cpus"],
        "tres_req_str": tres_of(of),
        "memory_per_node": None if of["memory"] is None or of["min_memory"] == "0" else of["memory"],
        "memory_per_cpu": None,
        "features": of["features"],
        "tres_per_node": of["per_node"],
        "tres_per_job": of["per_job"],
        "tres_per_task": of["per_task"],
        "required_nodes": of["asked_nodes"],
        "shared": "none" if of["sharing"] == "NO" else None,
        "resv_name": of["reservation"],
        "eligible_time": of["begin"] or BOOTED,
        "dependency": "",
        "name": of["name"],
        "het_job_id": of["het"],
        "het_job_offset": of["offset"],
        "user_name": of["user"],
    }


def new_job(of: dict[str, Any]) -> dict[str, Any]:
    """data_parser/v0.0.42."""
    old = old_job(of)
    state = LONG.get(of["state"], of["state"])
    states = [state] if state in ("PENDING", "RUNNING", "SUSPENDED") else ["RUNNING", state]
    numbers = ("array_job_id", "array_task_id", "array_max_tasks", "node_count", "max_nodes", "tasks", "cpus")
    more = ("eligible_time", "het_job_id", "het_job_offset", "memory_per_node")
    changed = {name: number(old[name]) for name in (*numbers, *more)}
    return {**old, **changed, "job_state": states, "shared": ["none"] if of["sharing"] == "NO" else []}


def node_line(name: str, of: dict[str, Any], used: Used, version: tuple[int, ...]) -> str:
    """scontrol show node -o."""
    cpus, memory, words = used
    features = ",".join(of["features"]) or "(null)"
    state = "+".join(words)
    if version < (21, 8):  # symbols at the base, and older words
        old = {"NOT_RESPONDING": "*", "POWERED_DOWN": "~"}
        symbols = "".join(old.get(word, "") for word in words)
        state = "+".join([words[0] + symbols, *(word for word in words[1:] if word not in old)])
    started = stamp(of["started"]) if of["started"] else "None"
    cores, of_people = f"{of['cpus']:g}", ""
    if of["reason"]:
        of_people += f" Reason={of['reason']} [root@{stamp(BOOTED)}]"
    if of["comment"]:
        of_people += f" Comment={of['comment']}"
    return (
        f"NodeName={name} Arch=x86_64 CoresPerSocket=1  CPUAlloc={cpus:g} CPUEfctv={cores} CPUTot={cores} "
        f"AvailableFeatures={features} ActiveFeatures={features} Gres={of['gres'] or '(null)'} GresDrain=N/A "
        f"GresUsed={of['used_gres'] or 'gpu:0'} NodeAddr={of['address']} NodeHostName={of['host']} Version=22.05.8 "
        f"OS=Linux 6.1.0-18-amd64 #1 SMP State=debug  RealMemory={of['memory']:g} AllocMem={memory:g} FreeMem=100 "
        f"Sockets={cores} Boards=1 State={state} ThreadsPerCore=1 TmpDisk={of['disk']} Weight=1 Owner=N/A "
        f"MCS_label=N/A Partitions={','.join(of['partitions'])}  BootTime={started} SlurmdStartTime={started} "
        f"LastBusyTime=Unknown CfgTRES=cpu={cores} AllocTRES= CapWatts=n/a{of_people}"
    )


def old_node(name: str, of: dict[str, Any], used: Used) -> dict[str, Any]:
    """openapi/v0.0.38."""
    cpus, memory, words = used
    return {
        "name": name,
        "address": of["address"],
        "hostname": of["host"],
        "state": words[0].lower(),
        "state_flags": words[1:],
        "cpus": of["cpus"],
        "alloc_cpus": cpus,
        "real_memory": of["memory"],
        "alloc_memory": memory,
        "temporary_disk": of["disk"],
        "gres": of["gres"],
        "gres_used": of["used_gres"],
        "features": ",".join(of["features"]),
        "active_features": ",".join(of["features"]),
        "partitions": of["partitions"],
        "reason": of["reason"],
        "slurmd_start_time": of["started"] or 0,
        "comment": of["comment"],
        "free_memory": -2,
        "cpu_load": 4294967294,
        "tres_used": None,
    }


def new_node(name: str, of: dict[str, Any], used: Used) -> dict[str, Any]:
    """data_parser/v0.0.42."""
    words = used[2]
    return {
        **old_node(name, of, used),
        "state": words,
        "effective_cpus": of["cpus"],
        "specialized_memory": 0,
        "instance_id": of["instance_id"],
        "slurmd_start_time": number(of["started"] or 0),
        "free_mem": number(None),
        "boot_time": number(0),
        "features": of["features"],
        "active_features": of["features"],
    }
