"""What Slurm prints -> nodes and jobs in one form, whatever the version and the format. Pure.

JSON: 21.08 and 22.05 (openapi/v0.0.37 and 38) have plain numbers, -2 or null for what is not set, and states as one
word beside ``state_flags``; since 23.02 (data_parser) a number is ``{"set": , "infinite": , "number": }``, a state a
list of words, and an unset one may be 0. ``errors`` can be there with exit code 0: the answer is then none. Text: the
one-line records of ``scontrol show node -o``, and tables of squeue whose fields end with SEPARATOR, which no name in
Slurm can hold.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Optional

from elastiq.errors import SourceError
from elastiq.plugins.batch import slurm_states as states

SEPARATOR = "\x1f"
UNSET = frozenset({"", "(null)", "N/A", "None", "n/a", "n/s", "NONE", "Unknown"})


@dataclass(frozen=True)
class Node:
    """One node record. Memory and disk are MB, times seconds since the epoch; None where nothing is said."""

    name: str
    base: str
    flags: frozenset[str]
    address: str = ""
    host: str = ""
    cpus: Optional[float] = None
    used_cpus: float = 0
    memory_mb: Optional[float] = None
    used_memory_mb: float = 0
    disk_mb: Optional[float] = None
    gres: str = ""
    used_gres: str = ""
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    reason: str = ""
    started_at: Optional[float] = None  # its slurmd; None: not registered since slurmctld started
    instance_id: str = ""
    comment: str = ""

    @property
    def words(self) -> str:
        """Its state as Slurm writes it today."""
        return "+".join([self.base, *sorted(self.flags)])

    @property
    def down(self) -> bool:
        """Slurm runs no job there, and none was left to run."""
        return self.base in ("DOWN", "ERROR")


# --------------------------------------------------------------------------- JSON


def document(text: str, command: str) -> Mapping[str, Any]:
    """A JSON answer. Raises `SourceError` for what is none, or says that it failed."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SourceError(f"{command} did not answer with JSON")
    for error in found.get("errors") or ():
        said = error.get("description") or error.get("error") if isinstance(error, dict) else error
        raise SourceError(f"{command} answered with an error: {' '.join(str(said or error).split())[:200]}")
    return found


def rows(found: Mapping[str, Any], key: str, command: str) -> list[Mapping[str, Any]]:
    """The list of objects under a key. Raises `SourceError`."""
    listed = found.get(key)
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        raise SourceError(f"{command} answered without a list of {key}")
    return listed


def number(value: Any) -> Optional[float]:
    """Of a JSON number in either form; None for what is not set, or infinite."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set", True) and not value.get("infinite") else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return float(value) if 0 <= value < 2**62 and value not in (2**32 - 2, 2**32 - 1) else None


def words(value: Any) -> tuple[str, ...]:
    """One word, a list of words, or words that commas separate."""
    if isinstance(value, str):
        value = value.split(",")
    return tuple(str(one).strip() for one in value or () if str(one).strip() and str(one) not in UNSET)


def json_node(row: Mapping[str, Any]) -> Node:
    """A row of ``nodes``. Raises `SourceError`."""
    name = row.get("name")
    if not isinstance(name, str) or not name or row.get("state") is None:
        raise SourceError("a node without a name or a state is among Slurm's nodes")
    base, flags = states.parse([*words(row["state"]), *words(row.get("state_flags"))])
    memory_mb, reserved_mb = number(row.get("real_memory")), number(row.get("specialized_memory")) or 0
    return Node(
        name=name,
        base=base,
        flags=flags,
        address=str(row.get("address") or ""),
        host=str(row.get("hostname") or ""),
        cpus=number(row.get("effective_cpus")) or number(row.get("cpus")),
        used_cpus=number(row.get("alloc_cpus")) or 0,
        memory_mb=None if memory_mb is None else max(0.0, memory_mb - reserved_mb),
        used_memory_mb=number(row.get("alloc_memory")) or 0,
        disk_mb=number(row.get("temporary_disk")) or None,
        gres=str(row.get("gres") or ""),
        used_gres=str(row.get("gres_used") or ""),
        features=words(row.get("active_features") or row.get("features")),
        partitions=words(row.get("partitions")),
        reason=str(row.get("reason") or ""),
        started_at=number(row.get("slurmd_start_time")) or None,
        instance_id=_said(row, "instance_id"),
        comment=_said(row, "comment"),
    )


def _said(row: Mapping[str, Any], key: str) -> str:
    return "" if str(row.get(key)) in UNSET else str(row[key])


# --------------------------------------------------------------------------- text

# A value may hold blanks and "=": that of OS ends at RealMemory, and what people write (LAST) comes last.
_KEYS = re.compile(r"(?:(?<=\s)|^)([A-Za-z][A-Za-z/:]*)=")
_SIGNED = re.compile(r"\s*\[[^\[\]]*@[^\[\]]*\]\s*$")
LAST = frozenset({"Reason", "Comment", "Extra", "InstanceId", "InstanceType"})
NODE_KEYS = LAST | frozenset(
    """
    NodeName Arch CPUAlloc CPUEfctv CPUTot CPULoad AvailableFeatures ActiveFeatures Gres GresDrain GresUsed NodeAddr
    NodeHostName Port Version OS RealMemory AllocMem FreeMem Sockets Boards CoresPerSocket MemSpecLimit State NextState
    ThreadsPerCore TmpDisk Weight Owner MCS_label Partitions BootTime SlurmdStartTime LastBusyTime ResumeAfterTime
    ReservationName CfgTRES AllocTRES CapWatts CurrentWatts AveWatts ExtSensorsJoules CoreSpecCount CPUSpecList Topology
    """.split()
)


def text_node(line: str) -> Node:
    """A line of ``scontrol show node -o``. Raises `SourceError`."""
    said = _pairs(line)
    if not said.get("NodeName") or not said.get("State"):
        raise SourceError(f"scontrol show node printed what is no node: {line[:80]!r}")
    base, flags = states.parse([said["State"]])
    memory_mb, reserved_mb = _number(said, "RealMemory"), _number(said, "MemSpecLimit") or 0
    return Node(
        name=said["NodeName"],
        base=base,
        flags=flags,
        address=said.get("NodeAddr", ""),
        host=said.get("NodeHostName", ""),
        cpus=_number(said, "CPUEfctv") or _number(said, "CPUTot"),
        used_cpus=_number(said, "CPUAlloc") or 0,
        memory_mb=None if memory_mb is None else max(0.0, memory_mb - reserved_mb),
        used_memory_mb=_number(said, "AllocMem") or 0,
        disk_mb=_number(said, "TmpDisk") or None,
        gres=_text(said, "Gres"),
        used_gres=_text(said, "GresUsed"),
        features=words(said.get("ActiveFeatures") or said.get("AvailableFeatures")),
        partitions=words(said.get("Partitions")),
        reason=_SIGNED.sub("", _text(said, "Reason")),
        started_at=when(said.get("SlurmdStartTime", "")),
        instance_id=_text(said, "InstanceId"),
        comment=_text(said, "Comment"),
    )


def _pairs(line: str) -> dict[str, str]:
    found: dict[str, str] = {}
    marks: list[re.Match[str]] = []
    for mark in _KEYS.finditer(line):
        before = marks[-1][1] if marks else ""
        if mark[1] in (LAST if before in LAST else {"RealMemory"} if before == "OS" else NODE_KEYS):
            marks.append(mark)
    for mark, following in zip(marks, [*marks[1:], None]):
        found.setdefault(mark[1], line[mark.end() : following.start() if following else len(line)].strip())
    return found


def _text(said: Mapping[str, str], key: str) -> str:
    return "" if said.get(key, "") in UNSET else said[key]


def _number(said: Mapping[str, str], key: str) -> Optional[float]:
    try:
        return float(said.get(key, ""))
    except ValueError:
        return None


def when(text: str) -> Optional[float]:
    """Seconds since the epoch of a time that Slurm prints in its standard form, in UTC; None if it is none."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def table(text: str, columns: int, command: str) -> Iterator[list[str]]:
    """The rows of a table below its header, each field without the blanks around it. Raises `SourceError`."""
    if not text.endswith("\n"):
        raise SourceError(f"{command} printed {'an answer that is cut off' if text else 'nothing'}")
    for number, line in enumerate(re.finditer(r"(.*)\n", text)):  # one by one: they may be many
        fields = line[1].split(SEPARATOR)
        if len(fields) != columns + 1 or fields.pop().strip():
            raise SourceError(f"{command} printed a line that is no row of its table: {line[1][:80]!r}")
        if number:
            yield [field.strip() for field in fields]


def tres(text: str) -> dict[str, float]:
    """Of ``cpu=4,mem=8000M,node=2,gres/gpu:tesla=1``: the amounts, memory in MB."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        digits = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)[cn]?", amount)
        if equals and digits:
            factor = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2, "P": 1024**3}[digits[2]]
            found[name.lower()] = float(digits[1]) * (factor if name == "mem" else 1)
    return found


def gres(text: str) -> dict[str, float]:
    """Of ``gpu:tesla:2(S:0-1),shard:8``, ``gres/gpu=2``, ``gpu`` or ``gres:gpu:tesla:1``: amounts by name and, where a
    type is told, by NAME:TYPE too."""
    found: dict[str, float] = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        part = re.sub(r"^gres[:/]", "", part.strip().lower())
        name, kind, amount = _gres_parts(part.replace("=", ":"))
        if not name or name in ("(null)", "n/a", "none"):
            continue
        found[name] = found.get(name, 0) + amount
        if kind:
            found[f"{name}:{kind}"] = found.get(f"{name}:{kind}", 0) + amount
    return found


def _gres_parts(part: str) -> tuple[str, str, float]:
    pieces = part.split(":")
    amount = 1.0
    digits = re.fullmatch(r"(\d+)([kmg]?)", pieces[-1])
    if len(pieces) > 1 and digits:
        amount = float(digits[1]) * {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}[digits[2]]
        pieces.pop()
    return pieces[0], ":".join(pieces[1:]), amount
