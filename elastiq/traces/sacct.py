"""Slurm's accounting: ``sacct --parsable2`` with its header, any fields in any order, with steps or without.

Sources: sacct(1) for the fields and the form of times; before 21.08 ReqMem ends in ``n`` (of each node) or ``c`` (of
each cpu), since then it is of the whole job, as ReqTRES is (NEWS of 21.08). Times are local, without a zone: see
`elastiq.traces.units.Times`; ``SLURM_TIME_FORMAT=%s`` makes sacct print seconds since 1970.
"""

from __future__ import annotations

from typing import Iterator, Mapping, Optional, Sequence

from elastiq.traces.job import BadLine
from elastiq.traces.rows import Format, LeftOut, Reading, Row, Skip
from elastiq.traces.units import Times, duration_s, number, size_mb

NO_TIME = frozenset({"", "unknown", "none", "n/a"})
# Of a job that has not come to its end: JOB STATE CODES of sacct(1).
UNFINISHED = {
    "PENDING": "still waiting",
    "REQUEUED": "requeued, the run that counts has a line of its own",
    "RUNNING": "still running",
    "SUSPENDED": "still running",
    "RESIZING": "still running",
    "COMPLETING": "still running",
    "REVOKED": "run by another cluster of the federation",
}
CPUS = ("reqcpus", "ncpus", "alloccpus")
NODES = ("nnodes", "allocnodes", "reqnodes")
NEEDED_ONE_OF = ("elapsedraw", "elapsed", "end")


def read(reading: Reading) -> Iterator[Row]:
    """The header is the first line that is one; a second one, as in files put together, is no row."""
    table: Optional[_Table] = None

    def parse(line: str) -> Sequence[Row]:
        nonlocal table
        text = line.rstrip("\r\n")
        if not text.strip():
            return ()
        names = _header(text)
        if names:
            table = _Table(names)
            return ()
        if table is None:
            raise BadLine("no header with JobID, Submit, and Elapsed or End: sacct --parsable2 without --noheader")
        return table.rows(text)

    return reading.rows(parse)


def _header(line: str) -> list[str]:
    if not line[:1].isalpha() or "ubmit" not in line:
        return []
    names = [name.strip().lower() for name in line.split("|")]
    known = set(names)
    found = "submit" in known and not known.isdisjoint(NEEDED_ONE_OF) and not known.isdisjoint({"jobid", "jobidraw"})
    return names if found else []


class _Table:
    """Rows under a header."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._width = len(names) - (names[-1] == "")  # --parsable ends each line with a |
        self._times = Times()

    def rows(self, line: str) -> Sequence[Row]:
        cells = line.split("|")
        if len(cells) not in (self._width, len(self._names)):
            # A job's name or comment may hold a |, and then no column is known to be what it seems.
            raise BadLine(f"{len(cells)} columns, the header has {self._width}")
        said = dict(zip(self._names, cells))
        name = said.get("jobid") or said.get("jobidraw", "")
        if "." in name:
            raise Skip("steps of jobs")
        state = said.get("state", "").split(" ")[0].rstrip("+").upper()  # "CANCELLED by 1000"
        if state in UNFINISHED:
            raise LeftOut(UNFINISHED[state])
        submit_s = self._time(said, "submit")
        if not name or submit_s is None:
            raise BadLine("no time of submission" if name else "no job id")
        run_s, removed_after_s = self._ran(said, state, submit_s)
        nodes, tres = _nodes(said), _tres(said)
        cpus = _positive(tres.get("cpu")) or next((n for n in (_positive(said.get(key)) for key in CPUS) if n), 1.0)
        memory_mb = _memory_mb(said, tres, cpus, nodes)
        gpus = _positive(tres.get("gres/gpu"))
        memory_mb, gpus = memory_mb and memory_mb / nodes, gpus and gpus / nodes
        return (Row(submit_s, run_s, cpus / nodes, memory_mb, None, gpus, nodes, name, removed_after_s),)

    def _ran(self, said: Mapping[str, str], state: str, submit_s: float) -> tuple[float, Optional[float]]:
        """How long it ran, and after how long it was removed if it never did. A job that was cancelled while it waited
        would have run as long as it was allowed to."""
        start_s, end_s = self._time(said, "start"), self._time(said, "end")
        run_s = _elapsed(said)
        if run_s is None:
            if start_s is None and "start" not in said:
                raise LeftOut("without a run time")
            run_s = 0.0 if start_s is None or end_s is None else end_s - start_s
        never = state.startswith("CANCELLED") or ("start" in said and start_s is None)
        if never and run_s == 0:
            if end_s is None:
                raise LeftOut("cancelled, nobody knows when")
            removed_after_s = max(0.0, end_s - submit_s)
            return _limit_s(said) or removed_after_s, removed_after_s
        return run_s, None

    def _time(self, said: Mapping[str, str], key: str) -> Optional[float]:
        text = said.get(key, "")
        return None if text.lower() in NO_TIME else self._times.read(text)


def _elapsed(said: Mapping[str, str]) -> Optional[float]:
    raw = said.get("elapsedraw", "")
    if raw:
        return number(raw)
    text = said.get("elapsed", "")
    return duration_s(text) if text and text != "INVALID" else None


def _limit_s(said: Mapping[str, str]) -> Optional[float]:
    """TimelimitRaw is in minutes."""
    raw, text = said.get("timelimitraw", ""), said.get("timelimit", "")
    if raw[:1].isdigit():
        return number(raw) * 60
    return duration_s(text) if text[:1].isdigit() else None


def _nodes(said: Mapping[str, str]) -> int:
    return max(1, int(next((n for n in (_positive(said.get(key)) for key in NODES) if n), 1)))


def _tres(said: Mapping[str, str]) -> dict[str, str]:
    """``billing=4,cpu=4,gres/gpu:a100=1,gres/gpu=1,mem=8G,node=1``: what was asked for, else what it got."""
    text = said.get("reqtres") or said.get("alloctres") or ""
    found = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    kinds = [number(value) for key, value in found.items() if key.startswith("gres/gpu:")]
    if kinds:
        found.setdefault("gres/gpu", str(sum(kinds)))
    return found


def _memory_mb(said: Mapping[str, str], tres: Mapping[str, str], cpus: float, nodes: int) -> Optional[float]:
    if tres.get("mem"):
        return size_mb(tres["mem"]) or None
    text = said.get("reqmem", "").strip()
    if text in ("", "0", "?"):
        return None
    times = {"n": nodes, "c": cpus}.get(text[-1])
    size = size_mb(text if times is None else text[:-1])
    return size * (times or 1) or None


def _positive(text: Optional[str]) -> Optional[float]:
    """``2K`` is 2,000 in numbers of cpus (--units leaves them so)."""
    if not text:
        return None
    found = number(text[:-1]) * 1000 if text[-1] in "kK" else number(text)
    return found if found > 0 else None


def _looks_like(head: Sequence[str]) -> bool:
    return any(_header(line.rstrip("\r")) for line in head[:50])


FORMAT = Format("sacct", "output of sacct --parsable2", _looks_like, read)
