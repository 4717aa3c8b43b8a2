"""Whether a job would run on a machine of a pool, beyond their sizes: queues, properties, resources of hosts. Pure.

What a pool's machines have is what the last of them showed that joined (its portrait), what ``node_attributes`` gives
each, and what ``worker_ad`` says: lines ``queues = gpu, long``, ``properties = bigmem``, ``NAME = VALUE``. Without
``queues`` they serve every queue. A resource that none of these knows is not there: PBS finds cpus, memory and
architecture by itself, no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable, Mapping, Sequence

from elastiq.interfaces import JobGroup, Machine
from elastiq.plugins.batch import pbs_nodes
from elastiq.plugins.batch.pbs_requests import count, size_mb
from elastiq.plugins.batch.pbs_rows import Record

if TYPE_CHECKING:
    from elastiq.plugins.batch.pbs import PBS

FOUND = ("arch = linux",)  # what every MOM here reports
NOT_SHOWN = frozenset({"ncpus", "mem", "vmem", "ngpus", "host", "vnode"})
OF_ONE_MACHINE = ("%ip%", "%address%", "%instance%")
NONE = frozenset({"0", "false", "0b", "0kb"})


def match(pbs: PBS, groups: Sequence[JobGroup], machines: Sequence[Machine]) -> Mapping[tuple[str, Machine], str]:
    """For each pair an empty text, or why not."""
    found = {}
    for machine in machines:
        has = known(machine, pbs.values.get("node_attributes") or ())
        for group in groups:
            fits, why = pbs.fits(group, machine.resources)
            found[group.key, machine] = "" if fits and not why else why
            for line in group.ad if fits else ():
                name, _, value = line.partition(" = ")
                found[group.key, machine] = found[group.key, machine] or _lacks(name, value, has, machine.pool)
    return found


def known(machine: Machine, node_attributes: Iterable[str]) -> dict[str, list[str]]:
    """What a machine has, by names in lower case."""
    made = [line for line in node_attributes if not any(place in line for place in OF_ONE_MACHINE)]
    made = [line.replace("%pool%", machine.pool).replace("%flavour%", machine.flavour) for line in made]
    found: dict[str, list[str]] = {}
    for line in (*FOUND, *machine.portrait.splitlines(), *made, *machine.worker_ad):
        name, equals, value = line.partition("=")
        name = name.strip().lower()
        name = {"queue": "queues"}.get(name, name.partition("resources_available.")[2] or name)
        if equals:
            values = [word.strip().strip("\"'").lower() for word in value.split(",")]
            # properties add up; of the rest, what is said last holds
            found[name] = values + (found.get(name, []) if name == "properties" else [])
    return found


def _lacks(name: str, value: str, has: Mapping[str, list[str]], pool: str) -> str:
    wanted = value.lower()
    if name == "queue":
        served = has.get("queues")
        return (
            ""
            if served is None or wanted in served
            else f"is in the queue {value}, the pool {pool} serves {_list(served)}"
        )
    if name == "property":
        text = (
            f"asks for the property {value}: no machine of the pool {pool} is known to have it (worker_ad can say so)"
        )
        return "" if wanted in has.get("properties", ()) else text
    if name in ("host", "vnode"):
        return f"asks for the {name} {value}: no new machine has that name"
    if wanted in NONE:
        return ""
    if name not in has:
        return f"asks for {name}={value}: no machine of the pool {pool} is known to have {name} (worker_ad can say so)"
    enough = any(_is_enough(wanted, there) for there in has[name])
    return "" if enough else f"asks for {name}={value}, machines of the pool {pool} have {_list(has[name])}"


def _is_enough(wanted: str, there: str) -> bool:
    for read in (count, size_mb):
        asked, has = read(wanted), read(there)
        if asked is not None and has is not None:
            return has >= asked
    return wanted == there


def _list(words: Sequence[str]) -> str:
    return ", ".join(words)[:100]


def portrait(nodes: Sequence[Record]) -> str:
    """What one host shows of any of its kind; empty if it is not up."""
    if not pbs_nodes.any_up(nodes):
        return ""
    node = next(node for node in nodes if pbs_nodes.is_up(node))
    lines = [
        f"{name} = {value}" for name, value in sorted(node.resources("resources_available")) if name not in NOT_SHOWN
    ]
    queue = [f"queues = {node.get('queue')}"] if node.get("queue") else []
    return "\n".join(["properties = " + node.get("properties"), *queue, *lines])
