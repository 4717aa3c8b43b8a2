"""What a job asks for, in the words of PBS -> what each machine must have. Pure.

Torque says ``nodes=2:ppn=4:gpu`` with ``mem``, ``pmem``, ``vmem``, or ``procs=8``, or ``ncpus=4``; PBS Pro and
OpenPBS say ``select=2:ncpus=4:mem=8gb`` with ``place=scatter``. Sizes are whole numbers of b, kb, mb, gb, tb, pb
(1024 each), or of words of 8 bytes (w, kw, ...); without a unit they are bytes (pbs_resources(7) of Torque and PBS
Pro). A negative or odd one is not said.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Iterable, Mapping, Optional, Sequence

from elastiq.interfaces import Resources
from elastiq.plugins.batch.shapes import Shape

SIZE = re.compile(r"(\d{1,18})([kmgtp]?)([bw]?)", re.IGNORECASE)
BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
# Of a chunk: what is no resource of a host, or is one that every host has.
OF_NO_HOST = frozenset(
    {"mpiprocs", "ompthreads", "vmem", "pmem", "pvmem", "walltime", "cput", "pcput", "file", "nodect"}
)
NO_PROPERTY = frozenset({"shared", "excl", "exclusive", "default", "exclusive_process", "exclusive_thread", "reseterr"})


def size_mb(text: str) -> Optional[float]:
    """A size in MB, None if it is none."""
    found = SIZE.fullmatch(text.strip())
    if not found:
        return None
    words = 8 if found[3].lower() == "w" else 1
    return int(found[1]) * BYTES[found[2].lower()] * words / BYTES["m"]


def count(text: str) -> Optional[float]:
    """A number that is not negative, None if it is none."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


@dataclass(frozen=True)
class Chunk:
    """So many equal parts of a job, each to be on one machine. ``needs`` are further conditions, ``name = value``."""

    count: int
    request: Resources
    needs: tuple[str, ...] = ()


# --------------------------------------------------------------------------- Torque


def of_nodes(spec: str) -> list[Chunk]:
    """``2:ppn=4:gpu+w3:ppn=2#shared``: machines, the processors of each, properties; a name instead of a number is one
    machine with that property, or the host itself. GPUs as ``gpus=1``."""
    return [_of_part(part) for part in spec.partition("#")[0].split("+") if part.strip()]


def _of_part(part: str) -> Chunk:
    number, cpus, gpus, needs = 1, 1.0, None, []
    for position, word in enumerate(part.strip().split(":")):
        name, equals, value = word.strip().partition("=")
        if position == 0 and name.isdigit():
            number = int(name)
        elif name.lower() == "ppn":
            cpus = count(value) or 1.0
        elif name.lower() == "gpus":
            gpus = count(value)
        elif name and not equals and name.lower() not in NO_PROPERTY:
            needs.append(f"property = {name}")
    return Chunk(number, Resources(cpus=cpus, gpus=gpus or None), tuple(sorted(needs)))


def of_torque(asked: Mapping[str, str]) -> list[tuple[int, Shape]]:
    """The shapes of one job and how many units of each it is. ``nodes`` comes before ``ncpus``, which Torque sets to
    1 by itself; ``procs`` may be anywhere, so each is a unit of its own. ``mem`` and ``vmem`` are of the whole job,
    ``pmem`` and ``pvmem`` of each processor."""
    chunks = of_nodes(asked.get("nodes", ""))
    procs = count(asked.get("procs", "")) or 0
    if procs >= 1 and (not chunks or chunks == [Chunk(1, Resources(1.0))]):
        whole = Chunk(int(procs), Resources(cpus=1.0))
        return [(whole.count, Shape(_with_memory(whole, asked, whole.count).request, ad=_needed(asked)))]
    if not chunks:
        machines = int(count(asked.get("nodect", "")) or 1)
        chunks = [Chunk(max(1, machines), Resources(cpus=count(asked.get("ncpus", "")) or 1.0))]
    machines = sum(chunk.count for chunk in chunks)
    chunks = [_with_memory(chunk, asked, machines) for chunk in chunks]
    return [(1, replace(_together(chunks), ad=(*_together(chunks).ad, *_needed(asked))))]


def _with_memory(chunk: Chunk, asked: Mapping[str, str], machines: int) -> Chunk:
    """A job that says only its virtual memory is taken to need that much: Torque's schedulers count swap in, clouds
    have none."""
    for total, each in (("mem", "pmem"), ("vmem", "pvmem")):
        of_all, of_one = size_mb(asked.get(total, "")), size_mb(asked.get(each, ""))
        sizes = [] if not of_all else [of_all / machines]
        sizes += [] if not of_one else [of_one * (chunk.request.cpus or 1)]
        if sizes:
            return replace(chunk, request=replace(chunk.request, memory_mb=math.ceil(max(sizes))))
    return chunk


def _needed(asked: Mapping[str, str]) -> tuple[str, ...]:
    """The properties that the queue asks for (``resources_default.neednodes``), and ``gres``-like wishes of none."""
    return tuple(need for chunk in of_nodes(asked.get("neednodes", "")) for need in chunk.needs)


# --------------------------------------------------------------------------- PBS Pro, OpenPBS


def of_select(spec: str) -> list[Chunk]:
    """``2:ncpus=4:mem=8gb:ngpus=1+1:ncpus=1``; without a number it is one chunk, without ncpus of one cpu."""
    return [_of_chunk(part) for part in _split(spec, "+") if part.strip()]


def _of_chunk(part: str) -> Chunk:
    number, needs, found = 1, [], {"cpus": 1.0}
    for position, word in enumerate(_split(part.strip(), ":")):
        name, equals, value = word.partition("=")
        name, value = name.strip().lower(), value.strip().strip("\"'")
        if position == 0 and name.isdigit():
            number = int(name)
        elif name in ("ncpus", "mem", "ngpus"):
            size = size_mb(value) if name == "mem" else count(value)
            if size is not None:
                found[{"ncpus": "cpus", "mem": "memory_mb", "ngpus": "gpus"}[name]] = size
        elif equals and name not in OF_NO_HOST:
            needs.append(f"{name} = {value}")
    memory_mb, gpus = found.get("memory_mb"), found.get("gpus")
    request = Resources(cpus=found["cpus"] or 1.0, memory_mb=memory_mb and math.ceil(memory_mb), gpus=gpus or None)
    return Chunk(number, request, tuple(sorted(needs)))


def _split(text: str, separator: str) -> list[str]:
    """Not inside quotes, which a value may have."""
    return re.findall(rf"""(?:"[^"]*"|'[^']*'|[^{re.escape(separator)}"'])+""", text)


def of_pbs(asked: Mapping[str, str], schedselect: str) -> list[tuple[int, Shape]]:
    """The shapes of one job and how many units of each it is. ``schedselect`` is what the server made of its request,
    with the defaults of queue and server.

    ``place=scatter``: each chunk on a machine of its own, all at once. ``pack``: all on one. Else (``free``) chunks may
    share machines as they come, as so many jobs would: each is a unit of its own.
    """
    chunks = of_select(schedselect or asked.get("select", ""))
    if not chunks:
        cpus, memory_mb = count(asked.get("ncpus", "")) or 1.0, size_mb(asked.get("mem", ""))
        gpus = count(asked.get("ngpus", "")) or None
        chunks = [Chunk(1, Resources(cpus, memory_mb and math.ceil(memory_mb), gpus=gpus))]
    place = asked.get("place", "").lower().split(":")
    if "pack" in place:
        return [(1, _packed(chunks))]
    if "scatter" in place or "vscatter" in place:
        return [(1, _together(chunks))]
    return [(chunk.count, Shape(chunk.request, ad=chunk.needs)) for chunk in chunks]


def _packed(chunks: Sequence[Chunk]) -> Shape:
    def total(name: str) -> Optional[float]:
        said = [
            getattr(chunk.request, name) * chunk.count for chunk in chunks if getattr(chunk.request, name) is not None
        ]
        return sum(said) if said else None

    request = Resources(total("cpus"), total("memory_mb"), gpus=total("gpus"))
    return Shape(request, ad=_all_needs(chunks))


def _together(chunks: Sequence[Chunk]) -> Shape:
    """Several machines at once, each as large as the largest must be."""
    request = chunks[0].request
    for chunk in chunks[1:]:
        request = request.merged(chunk.request, max)
    return Shape(request, nodes=sum(chunk.count for chunk in chunks), ad=_all_needs(chunks))


def _all_needs(chunks: Iterable[Chunk]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(need for chunk in chunks for need in chunk.needs))
