"""What can be found wrong with a cluster before the first drain: `elastiqctl check`. Only reads.

docs/batch/gridengine.md says what each means.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from functools import partial
from typing import Any, Callable, Iterable, Iterator, Mapping

from elastiq.interfaces import BatchSystem, Check, Looks, SourceError
from elastiq.plugins.batch.gridengine_master import HINT, Master
from elastiq.plugins.batch.gridengine_xml import configuration
from elastiq.plugins.batch.tools import Tools

DOCS = "docs/batch/gridengine.md"
TOOLS = ("qstat", "qhost", "qconf", "qmod")
RUNS = "see that sge_qmaster runs, and that sge_root, sge_cell and the ports are right"
FILLS = "load_formula slots, and queue_sort_method load (qconf -msconf)"


def looks(batch: BatchSystem, master: Master, values: Mapping[str, Any]) -> Looks:
    """The checks of a cluster, each by its subject."""
    found: dict[str, Callable[[str], Iterable[Check]]] = {
        "master": partial(_master, batch, master),
        "queue": partial(_queue, batch),
        "rights": partial(_rights, master, bool(values["drain"] or values["register"])),
        "complexes": partial(_complexes, master, values),
        "dead hosts": partial(_dead_hosts, master),
        "packing": partial(_packing, master),
    }
    if values["register"]:
        found["host groups"] = partial(_host_groups, master, values["hostgroups"])
    return {
        "commands": partial(_commands, master.tools, values, "commands"),
        **{subject: partial(_with_commands, master.tools, look, subject) for subject, look in found.items()},
    }


def _absent(tools: Tools) -> str:
    return tools.absent(*TOOLS, key="bin_dir")


def _commands(tools: Tools, values: Mapping[str, Any], subject: str) -> Iterator[Check]:
    root, cell = values.get("sge_root"), values.get("sge_cell") or "default"
    if absent := _absent(tools):
        yield Check(subject, "error", absent, HINT)
    elif root and not os.path.isdir(root):
        yield Check(subject, "error", f"sge_root {root} is no directory", "mend it in [gridengine]")
    elif root and not os.path.isdir(os.path.join(root, cell, "common")):
        text = f"there is no cell {cell} in sge_root {root}: no {cell}/common"
        yield Check(subject, "error", text, "mend sge_root or sge_cell in [gridengine]")
    else:
        yield Check(subject, "ok", f"found: {tools.where('qstat')}")


def _with_commands(tools: Tools, look: Callable[[str], Iterable[Check]], subject: str) -> Iterator[Check]:
    if absent := _absent(tools):
        raise SourceError(f"not looked at: {absent}")
    yield from look(subject)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _master(batch: BatchSystem, master: Master, subject: str) -> Iterator[Check]:
    try:
        found = batch.workers()
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    version = (master.run("qstat", "-help").text.splitlines() or ["of a version that it does not say"])[0]
    yield Check(subject, "ok", f"answers, hears from {_count(len(found.workers), 'host')}; {version[:60]}")
    if found.source_up_s is None:
        text = "qping does not tell how long it has been up: its view is believed right after a restart"
        yield Check("master's start", "warning", text, "have qping, and sge_root, sge_cell and qmaster_port right")


def _queue(batch: BatchSystem, subject: str) -> Iterator[Check]:
    try:
        jobs = batch.jobs()
    except SourceError as error:
        yield Check(subject, "error", str(error), RUNS)
        return
    waiting = sum(group.waiting for group in jobs.groups)
    yield Check(subject, "ok", f"{_count(waiting, 'job')} of all users waiting for a machine")


def _rights(master: Master, needed: bool, subject: str) -> Iterator[Check]:
    """By the master's own lists: nothing is tried."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    managers = _listed(master, "-sm")
    if needed and user not in managers:
        text = f"{user} is no manager: it may neither drain nor register hosts"
        yield Check(subject, "error", text, f"qconf -am {user} ({DOCS})")
        return
    here, hosts = socket.gethostname().partition(".")[0].lower(), _listed(master, "-sh")
    if needed and here not in {name.partition(".")[0].lower() for name in hosts}:
        text = f"{here} is not among the administrative hosts ({', '.join(hosts[:5])})"
        yield Check(subject, "warning", text, f"qconf -ah {here}, if that is how the master knows this machine")
        return
    yield Check(subject, "ok", f"{user} is a manager, on an administrative host")


def _listed(master: Master, option: str) -> list[str]:
    result = master.run("qconf", option)
    if result.returncode != 0 and not re.search(rb"no \w+ (host )?(list )?defined", result.stderr + result.stdout):
        raise SourceError(f"qconf {option}: {result.complaint}")
    return result.text.split() if result.returncode == 0 else []


def _host_groups(master: Master, groups: Iterable[str], subject: str) -> Iterator[Check]:
    """Of those whose names are the same for every pool."""
    queues = _listed(master, "-sql")
    lists = {name: configuration(master.ask("qconf", "-sq", name)).get("hostlist", "") for name in queues}
    if queues and not any(host.queues for host in master.hosts()):
        text = "no queue has a host now: qsub fails (exit 1, though the job is queued), and with -w e queues nothing"
        remedy = f"put a host that stays into a queue, with no slot: slots 4,[head=0] ({DOCS})"
        yield Check("empty cluster", "warning", text, remedy)
    for group in (group for group in groups if "%" not in group):
        using = [name for name, hosts in lists.items() if group in hosts.split()]
        if using:
            yield Check(subject, "ok", f"{group} is in the hostlist of {', '.join(using[:5])}")
        else:
            text = f"no queue has {group} in its hostlist: a host in it takes no job"
            yield Check(subject, "error", text, f"qconf -aattr queue hostlist {group} QUEUE, or mend `hostgroups`")


def _complexes(master: Master, values: Mapping[str, Any], subject: str) -> Iterator[Check]:
    known = master.complexes()
    memory = [name for name in values["memory_complexes"] if name in known]
    if not memory:
        text = "no complex of memory_complexes exists: the memory that a job asks for is not known"
        yield Check(subject, "warning", text, "name those that your users ask for (qconf -sc)")
        return
    kept = [name for name in memory if known[name].consumable != "NO"]
    kind = f"{', '.join(kept)} consumable" if kept else "none of them is consumable: jobs may take more than there is"
    yield Check(subject, "ok", f"memory is {', '.join(memory)}, {kind}")


def _dead_hosts(master: Master, subject: str) -> Iterator[Check]:
    found = configuration(master.ask("qconf", "-sconf"))
    unheard, again = found.get("max_unheard", "?"), found.get("reschedule_unknown", "")
    if not again or not any(int(part) for part in re.findall(r"\d+", again)):
        text = "jobs of a host that died stay recorded there for ever (reschedule_unknown 00:00:00)"
        yield Check(subject, "warning", text, f"reschedule_unknown 00:05:00, and rerun TRUE in the queues ({DOCS})")
    else:
        yield Check(subject, "ok", f"noticed after max_unheard {unheard}, jobs go elsewhere {again} later")


def _packing(master: Master, subject: str) -> Iterator[Check]:
    found = configuration(master.ask("qconf", "-ssconf"))
    method, formula = found.get("queue_sort_method", ""), found.get("load_formula", "").replace(" ", "")
    without = [host.name for host in master.hosts() if host.reports and "slots" not in host.consumables]
    if formula in ("np_load_avg", "load_avg"):
        text = "the scheduler fills the least loaded host first: jobs are spread, and few machines become idle"
        yield Check(subject, "warning", text, f"{FILLS} ({DOCS})")
    elif formula == "slots" and without:
        text = f"{without[0]} has no slots in its complex_values: hosts cannot be ordered by them, and jobs are spread"
        yield Check(subject, "warning", text, f"complex_values in [gridengine], slots=N for each kind ({DOCS})")
    else:
        yield Check(subject, "ok", f"hosts are filled by {method}, {formula}")
