"""The helper process: HTCondor's bindings answer requests here, one line of JSON for one.

A call of the bindings can hang for a minute in C code, and a fault there takes the process along: so no process of
the daemon imports them, this program does. It is run by path, with whatever Python has the bindings, imports
nothing else of ours, and ends with its standard input. While it works for a request the kernel's alarm clock runs,
since nobody may be left to kill it.

Facts about the bindings, tried with 23.0, 23.9, 25.14: `QueryOpts.GroupBy` gives what ``condor_q -group-by`` does,
also attributes that a grouped expression refers to; `printJson` prints as ``-json`` does, but fails for a byte that
is not UTF-8 where the commands pass it on (htcondor2); htcondor2's `locate` answers None for a schedd that
the collector does not know, htcondor's raises; `matches` of classad2 looks for a name without a scope in the other ad
too, as the negotiator does, classad's does not.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import signal
import sys
from typing import Any, Iterable, Iterator, Mapping, Sequence, TypeVar

PAIRS = (("htcondor2", "classad2"), ("htcondor", "classad"))
REASON_AT_MOST = 300  # characters
VALUE_AT_MOST = 60
# What stands in quotes (nothing in it counts), a name with or without a scope (not of a function, nor one that an ad
# within an ad gives a value), and what joins parts. ``=?=`` comes first, since it is no ``?``.
STRING = r'"(?:[^"\\]|\\.)*"'
NAMES = re.compile(STRING + r"|(?<![\w.])(?:(my|target|other)\.)?([a-z_]\w*)(?!\w|\s*\(|\s*=[^=?!])", re.IGNORECASE)
JOINTS = re.compile(STRING + r"|=\?=|[][(){}]|&&|\|\||\?")
WORDS = frozenset("true false undefined error is isnt".split())
# Of a job all that is asked for is known, its accounting group, and more only where its own Requirements refer to it.
KNOWN_OF_JOBS = frozenset("requestcpus requestmemory requestdisk requestgpus jobuniverse acctgroup".split())
OF_GPUS = ("requiregpus",)  # what it names is of a GPU, not of the slot
DEPTH = 5  # attributes that refer to attributes

htcondor: Any = None
classad: Any = None


def main() -> None:
    """Answer until there is nothing more to read."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    os.dup2(2, 1)  # whatever a library prints is no answer
    absent = load()
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, request["timeout_s"])
        answers.write(absent or answer(request))
        answers.write("\n")
        answers.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def load() -> str:
    """Import the bindings; the answer to every request if there are none."""
    global htcondor, classad
    here = os.path.dirname(os.path.realpath(__file__))  # it has a module htcondor, which is not theirs
    sys.path[:] = [path for path in sys.path if os.path.realpath(path) != here]
    said = []
    for names in PAIRS:
        try:
            htcondor, classad = map(importlib.import_module, names)
        except ImportError as error:
            said.append(str(error))
        else:
            return ""
    return json.dumps({"absent": f"{sys.executable}: {'; '.join(said)}"})


def answer(request: Mapping[str, Any]) -> str:
    """The answer to one request, without the end of the line; what goes wrong is an answer too."""
    try:
        if request["do"].startswith("condor"):
            htcondor.reload_config()  # a command reads it every time, too
        if request["do"] == "match":
            return json.dumps(match(request))
        if request["do"] == "version":
            return json.dumps({"version": f"{htcondor.__name__} {htcondor.version().split()[1]} of {sys.executable}"})
        # one ad is one JSON text already; a line's end within it is white space
        ads = condor_q(request) if request["do"] == "condor_q" else condor_status(request)
        return f"[{','.join(ads)}]".replace("\n", " ")
    except Exception as error:  # noqa: BLE001 - of whatever kind the bindings raise: it is told, and we go on
        return json.dumps({"error": f"{error or type(error).__name__}"})


# --------------------------------------------------------------------------- queries


def condor_q(request: Mapping[str, Any]) -> list[str]:
    """The jobs of all users at one schedd, or their groups."""
    kind = htcondor.DaemonTypes.Schedd
    collector = htcondor.Collector(*filter(None, [request["pool"]]))
    where = collector.locate(kind, request["name"]) if request["name"] else collector.locate(kind)
    if where is None:
        raise LookupError(f"the collector knows no schedd {request['name']}")
    opts = htcondor.QueryOpts.GroupBy if request["group_by"] else htcondor.QueryOpts.Default
    found = htcondor.Schedd(where).query(request["constraint"] or "true", request["attributes"], opts=opts)
    return printed(found)


def condor_status(request: Mapping[str, Any]) -> list[str]:
    """Ads that the collector has."""
    kind = getattr(htcondor.AdTypes, request["kind"])
    collector = htcondor.Collector(*filter(None, [request["pool"]]))
    found = collector.query(kind, request["constraint"] or "true", request["attributes"])
    return printed(found)


def printed(ads: Iterable[Any]) -> list[str]:
    """Each ad as the commands print it in JSON."""
    texts = []
    for ad in ads:
        try:
            texts.append(str(ad.printJson()))
        except UnicodeDecodeError as error:
            texts.append(error.object.decode("utf-8", errors="replace"))
    return texts


# --------------------------------------------------------------------------- matching


class Side:
    """The ad of a job or of a slot, and what its Requirements are made of."""

    asks = ""  # how its Requirements are called

    def __init__(self, attributes: Mapping[str, str], laid_over: Sequence[str] = ()) -> None:
        self.ad = classad.ClassAd()
        for name, text in attributes.items():
            self.ad[name] = expression(text)
        for line in laid_over:  # in the syntax of HTCondor's configuration, where a backslash is itself
            for name, text in configured(line):
                self.ad[name] = expression(text)
        if classad.__name__ == "classad":
            self._name_targets()
        # a copy: with the older bindings the one in the ad is gone when another takes its place
        self.requirements = expression(str(self.ad.lookup("Requirements")))
        self.clauses = [(clause, expression(clause)) for clause in self._expanded(str(self.requirements), DEPTH)]

    def _name_targets(self) -> None:
        """Write TARGET. before the names that only the other ad can have."""
        for name in list(self.ad.keys()):
            text = str(self.ad.lookup(name))
            if "[" not in text and name.lower() not in OF_GPUS:  # an ad within an ad has names of its own
                named = NAMES.sub(lambda found: ("" if self._has(found) else "TARGET.") + found.group(), text)
                if named != text:
                    self.ad[name] = expression(named)

    def _has(self, found: re.Match[str]) -> bool:
        scope, name = found.groups()
        return bool(scope) or not name or name.lower() in WORDS or name in self.ad or self.may_have(name, self)

    def _expanded(self, text: str, depth: int) -> Iterator[str]:
        """The clauses of Requirements, with those of the attributes that it is made of (START, say)."""
        for clause in clauses(text):
            name = re.sub(r"(?i)^my\.", "", clause)
            if depth and re.fullmatch(r"\w+", name) and name in self.ad and names(str(self.ad.lookup(name))):
                yield from self._expanded(str(self.ad.lookup(name)), depth - 1)
            else:
                yield clause

    def takes(self, other: Side, clause: Any = None) -> bool:
        """Whether its Requirements, or one clause of them, are true for the other."""
        if clause is None:
            return bool(other.ad.matches(self.ad))
        self.ad["Requirements"] = clause
        try:
            return bool(other.ad.matches(self.ad))
        finally:
            self.ad["Requirements"] = self.requirements

    def may_have(self, name: str, asker: Side) -> bool:
        """Whether the real one may have an attribute that this ad lacks."""
        raise NotImplementedError

    def lacks(self, lacking: str) -> str:
        """How to say that these attributes are not there."""
        raise NotImplementedError


class Job(Side):
    """One job of a group."""

    asks = "Requirements ask"
    varying: re.Pattern[str]  # attributes that differ within a group

    def may_have(self, name: str, asker: Side) -> bool:
        if asker is self:  # the schedd sends what its own Requirements refer to
            return self.varying.fullmatch(name) is not None
        return name.lower() not in KNOWN_OF_JOBS

    def lacks(self, lacking: str) -> str:
        return f"the jobs have no {lacking}"


class Slot(Side):
    """A slot of a machine that does not run yet."""

    asks = "START of such a worker asks"
    passing: re.Pattern[str]  # attributes of a moment
    origin = ""

    def may_have(self, name: str, asker: Side) -> bool:
        return self.passing.fullmatch(name) is not None

    def lacks(self, lacking: str) -> str:
        return self.origin.format(lacking)


AnySide = TypeVar("AnySide", Job, Slot)


def expression(text: str) -> Any:
    try:
        return classad.ExprTree(text)
    except Exception:  # noqa: BLE001 - htcondor2 has a class for it, older bindings SyntaxError
        raise ValueError(f"{shortened(text)} is no ClassAd expression") from None


def configured(line: str) -> list[tuple[str, str]]:
    """The attribute that a line of worker_ad sets."""
    try:
        parsed = classad.parseOne(line, classad.Parser.Old)
        found = [(name, str(parsed.lookup(name))) for name in parsed.keys()]
    except Exception:  # noqa: BLE001 - as above; newer bindings leave out what they cannot read
        found = []
    if len(found) != 1:
        raise ValueError(f"worker_ad: {shortened(line)} is no ClassAd expression")
    return found


def shortened(text: str, length: int = VALUE_AT_MOST) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 3] + "..."


def clauses(text: str, within: int = 4 * DEPTH) -> list[str]:
    """The parts of a chain of ``&&``, without the brackets around it; of what is no such chain, all of it."""
    text, depth, cuts, outer = text.strip(), 0, [0], True
    for found in JOINTS.finditer(text):
        joint = found.group()
        if joint in ("(", "[", "{"):
            depth += 1
        elif joint in (")", "]", "}"):
            depth -= 1
            outer = outer and (depth > 0 or found.end() == len(text))
        elif depth == 0 and joint in ("||", "?"):
            return [text]
        elif depth == 0 and joint == "&&":
            cuts += found.span()
    if len(cuts) == 1:
        return clauses(text[1:-1], within - 1) if within and outer and text.startswith("(") else [text]
    cuts.append(len(text))
    return [part for start, end in zip(cuts[::2], cuts[1::2]) for part in clauses(text[start:end], within)]


@functools.lru_cache(maxsize=4096)
def names(text: str) -> list[tuple[str, str]]:
    """The attributes that an expression refers to, each with its scope in lower case."""
    found = ((scope.lower(), name) for scope, name in NAMES.findall(text) if name)
    return [one for one in dict.fromkeys(found) if one[1].lower() not in WORDS]


def match(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Every job against every machine: one of its slots has to fit."""
    Slot.passing, Job.varying = (re.compile(request[name], re.IGNORECASE) for name in ("passing", "varying"))
    jobs = [read(Job, [job]) for job in request["jobs"]]
    reasons: dict[str, int] = {}
    pairs = []
    for number, machine in enumerate(request["machines"]):
        slots, unreadable = read(Slot, machine["slots"], machine["laid_over"])
        for slot in slots:
            slot.origin = machine["origin"]
        for index, (one, unreadable_too) in enumerate(jobs):
            why = unreadable or unreadable_too or refusal(one[0], slots)
            if why:
                pairs.append((index, number, reasons.setdefault(why, len(reasons))))
    return {"reasons": list(reasons), "pairs": pairs}


def read(
    kind: type[AnySide], ads: Sequence[Mapping[str, str]], laid_over: Sequence[str] = ()
) -> tuple[list[AnySide], str]:
    """The sides that these ads are, or what is wrong with one."""
    try:
        return [kind(ad, laid_over) for ad in ads], ""
    except ValueError as error:
        return [], str(error)


def refusal(job: Job, slots: Sequence[Slot]) -> str:
    """Why no slot runs the job; empty if one does, or may: what nobody knows yet is no reason."""
    first = ""
    for slot in slots:
        why = unmet(job, slot) or unmet(slot, job)
        if not why:
            return ""
        first = first or why
    return shortened(first, REASON_AT_MOST)


def unmet(me: Side, you: Side) -> str:
    """The first clause of my Requirements that is not true for you, and why."""
    if me.takes(you):
        return ""
    for clause, parsed in me.clauses:
        if me.takes(you, parsed):
            continue
        lacking = list(absent(clause, me, you, set()))
        if not any(one.may_have(name, asker) for asker, sides, name in lacking for one in sides):
            return told(clause, me, you, [(sides[-1], name) for _, sides, name in lacking])
    return ""


def absent(text: str, me: Side, you: Side, seen: set[tuple[Side, str]]) -> Iterator[tuple[Side, Sequence[Side], str]]:
    """The attributes that an expression of mine needs and that are not there: who asks for it, who could have it,
    its name."""
    for scope, name in names(text):
        sides = {"my": (me,), "": (me, you)}.get(scope, (you,))
        holder = next((one for one in sides if name in one.ad), None)
        if holder is None:
            yield me, sides, name
        elif name.lower() not in OF_GPUS and (holder, name.lower()) not in seen:
            seen.add((holder, name.lower()))
            yield from absent(str(holder.ad.lookup(name)), holder, you if holder is me else me, seen)


def told(clause: str, me: Side, you: Side, lacking: Sequence[tuple[Side, str]]) -> str:
    """For a person: the clause, the values that it looks at, and what is missing."""
    seen = []
    for scope, name in names(clause):
        for side in {"my": (me,), "": (me, you)}.get(scope, (you,)):
            if name in side.ad:
                seen.append(f"{name} = {shortened(str(side.ad.lookup(name)))}")
                break
    facts = list(dict.fromkeys(seen))
    for side in (you, me):
        missing = dict.fromkeys(name for holder, name in lacking if holder is side)
        facts += [side.lacks(", ".join(missing))] if missing else []
    asked = re.sub(r"(?i)\btarget\.", "", clause)
    return ": ".join([f"{me.asks} for {shortened(asked, 120)}", *filter(None, [", ".join(facts)])])


if __name__ == "__main__":
    main()
