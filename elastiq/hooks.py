"""Commands of the administrator that are told what happens to machines: the section [hooks].

They run in a few threads of their own, so that none can hold up the loop, and in the order of the events of each
machine. What they are told is in their environment (ELASTIQ_...) and, as JSON, on their standard input. A hook is
news and no part of a decision: one that fails, hangs or floods is counted and logged, and nothing else comes of it.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import threading
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from elastiq import command
from elastiq.core import Core, log
from elastiq.events import RealClock
from elastiq.nodes import AT_BOOT, IN_SERVICE, Node, State
from elastiq.options import Kind, Option, above_zero

if TYPE_CHECKING:
    from elastiq.daemon import Daemon

AT_ONCE = 4
WAITING_AT_MOST = 1000
PATIENCE_S = 2.0  # for commands that are being ended, when the daemon ends
LONGEST_FACT = 1000  # characters: the reasons hold what clouds answer
# The rest of the daemon's environment is not for hooks: it may hold credentials, of a proxy as well.
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")

Run = Callable[..., command.CommandResult]


def check_command(text: str) -> str:
    """A complaint about a command that cannot be run, or an empty string."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        return f"cannot be split into words ({str(error).lower()}), close the quotation"
    if not words or not words[0]:
        return "names no program, write its path"
    name = words[0]
    if "/" in name:
        if not os.path.isabs(name):
            return f"`{name}` is no whole path, begin it with /"
        places = [name]
    else:
        places = [os.path.join(folder, name) for folder in os.get_exec_path()]
    if any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places):
        return ""
    return f"`{name}` is no program that can be executed here, check its path, and its mode (chmod a+x)"


EVENTS = ("launch", "join", "drain", "end", "failure", "pause")
OPTIONS = (
    *(Option(f"on_{event}", Kind.TEXT, check=check_command) for event in EVENTS),
    Option("timeout_s", Kind.SECONDS, 30.0, unit="seconds", check=above_zero),
)


def follow(daemon: Daemon, values: Optional[Mapping[str, Any]]) -> None:
    """Take up the section as it is now; None: there is none any more, or the daemon ends."""
    listeners = daemon.core.listeners
    hooks = next((one for one in listeners if isinstance(one, Hooks)), None)
    if values is None:
        if hooks is not None:
            listeners.remove(hooks)
            hooks.close()
        return
    if hooks is None:
        hooks = Hooks(daemon.core)
        listeners.append(hooks)
    hooks.configure(values)


def happened(before: str, after: str) -> list[str]:
    """Which of the events of nodes a move is; `docs/hooks.md` has them in a table."""
    at_boot, in_service = ({state.value for state in states} for states in (AT_BOOT, IN_SERVICE))
    found = []
    if before == State.REQUESTED.value and after in at_boot | in_service:
        found.append("launch")
    elif before == State.STOPPED.value and after in at_boot:
        found.append("launch")
    if after in in_service and before not in in_service:
        found.append("join")
    if after == State.DRAINING.value:
        found.append("drain")
    if after in (State.FAILED.value, State.LOST.value) or (before, after) == (State.REQUESTED.value, State.GONE.value):
        found.append("failure")
    elif after in (State.GONE.value, State.STOPPED.value):
        found.append("end")
    return found


@dataclass(frozen=True)
class Call:
    """One run of a command. Those with the same ``key`` run one after another."""

    hook: str
    key: str
    argv: tuple[str, ...]
    facts: Mapping[str, Any]
    timeout_s: float

    @property
    def subject(self) -> str:
        whose = self.facts.get("node") or self.facts.get("reason", "")
        return f"hook {self.hook} ({os.path.basename(self.argv[0])}) for {whose}"


class Hooks:
    """A listener of `Core.say` that runs the commands. All but `_work` is for the decision thread.

    Without ``run``, in virtual time, none is run: machines that are simulated are no news for anybody.
    """

    def __init__(self, core: Core, run: Optional[Run] = None) -> None:
        self.core = core
        self.run = run or (command.run if isinstance(core.events.clock, RealClock) else None)
        self.values: Mapping[str, Any] = {}
        self.known: dict[str, Node] = dict(core.registry.nodes)  # also for the moment when one is gone
        self.off = _off(core)
        self._refused = ""  # the launch that was refused last: told once, not for each of its machines
        self._lock = threading.Lock()  # of what follows
        self._waiting: list[Call] = []
        self._busy: set[str] = set()
        self._threads: set[threading.Thread] = set()

    def configure(self, values: Mapping[str, Any]) -> None:
        """Go on with these values of the section."""
        self.values = values
        self._note_pause()

    def close(self) -> None:
        """Run nothing more; what runs goes on to its end, unless commands are being stopped: then wait for that."""
        with self._lock:
            dropped, threads = len(self._waiting), list(self._threads)
            self._waiting.clear()
        if dropped:
            log.warning("hooks: %d events were not passed on, elastiq ends or has no [hooks] any more", dropped)
        for thread in threads if command.stopping.is_set() else ():
            thread.join(PATIENCE_S)

    # ------------------------------------------------------------------ what happens

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        self._note_pause()
        if event != "node":
            return
        self.known.update(self.core.registry.nodes)
        node = self.known.get(fields["id"])
        for what in happened(fields["before"], fields["after"]):
            by_hand = what == "failure" and fields["reason"].startswith("elastiqctl ")  # its end is told
            if not (by_hand or self._told_already(what, fields)):
                self._queue(what, fields["id"], {**_facts_of(node), **_shown(fields)})
        if fields["after"] == State.GONE.value:
            self.known.pop(fields["id"], None)

    def _told_already(self, what: str, fields: Mapping[str, Any]) -> bool:
        """Whether it is one more machine of a launch that was refused as a whole."""
        if what != "failure" or fields["before"] != State.REQUESTED.value:
            return False
        launch: str = fields["id"].rpartition(".")[0]
        told, self._refused = launch == self._refused, launch
        return told

    def _note_pause(self) -> None:
        """Whether the kill switches have changed, by elastiqctl or by a reload: on_pause is for both ways."""
        off = _off(self.core)
        if off != self.off:
            self.off = off
            acts = {why: " and ".join(f"no {act}" for act in off if off[act] == why) for why in off.values()}
            reason = "; ".join(f"{which}: {why}" for why, which in acts.items()) or "launches and ends again"
            self._queue("pause", "pause", {"paused": list(off), "reason": reason})

    # ------------------------------------------------------------------ running

    def _queue(self, what: str, key: str, facts: Mapping[str, Any]) -> None:
        core, text = self.core, self.values.get(f"on_{what}")
        if not text:
            return
        owner, at = core.owner, datetime.fromtimestamp(core.wall(), timezone.utc)
        whole = {"event": what, "time": at.isoformat(timespec="seconds"), "cluster": owner.cluster, **facts}
        call = Call(f"on_{what}", key, tuple(shlex.split(text)), whole, self.values["timeout_s"])
        if self.run is None or core.settings.dry_run_boot_vms or core.settings.dry_run_shutdown_vms:
            core.say("hook", f"dry run: would run {call.subject}", hook=call.hook, node=facts.get("node", ""))
            return
        with self._lock:
            full = len(self._waiting) >= WAITING_AT_MOST
            if not full:
                self._waiting.append(call)
        if full:
            core.count("hooks_dropped")
            core.tell("hooks", f"{WAITING_AT_MOST} events wait for the commands of [hooks]: further ones are dropped")
        self._start_thread()

    def _start_thread(self) -> None:
        with self._lock:
            if not self._waiting or len(self._threads) >= AT_ONCE:
                return
            thread = threading.Thread(target=self._work, name="elastiq hook", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no thread left: the next event tries again
                log.warning("hooks: %s", error)
            else:
                self._threads.add(thread)

    def _next(self) -> Optional[Call]:
        """The first that may run now; None: this thread is not needed any more."""
        with self._lock:
            for number, call in enumerate(self._waiting if not command.stopping.is_set() else ()):
                if call.key not in self._busy:
                    self._busy.add(call.key)
                    return self._waiting.pop(number)
            self._threads.discard(threading.current_thread())
            return None

    def _work(self) -> None:
        """In a thread of its own, which ends when nothing is left to run."""
        while self.run is not None and (call := self._next()) is not None:
            failure = _failure(call, self.run)
            with self._lock:
                self._busy.discard(call.key)
            self.core.events.post(partial(self._ended, call, failure))
            if command.stopping.is_set():  # the loop takes no more events
                log.warning("%s: %s", call.subject, failure or "ended")

    def _ended(self, call: Call, failure: str) -> None:
        core = self.core
        core.count("hooks_run")
        if not failure:
            log.debug("%s: done", call.subject)
            core.tell(f"hook {call.hook}", "")
        else:
            core.count("hook_failures")
            text = f"{call.subject} failed: {failure}"
            core.say("hook", text, logging.WARNING, hook=call.hook, node=call.facts.get("node", ""), reason=failure)
            core.notices[f"hook {call.hook}"] = text
        with self._lock:
            waiting = len(self._waiting)
        if waiting < WAITING_AT_MOST / 2:
            core.tell("hooks", "")
        self._start_thread()


def _failure(call: Call, run: Run) -> str:
    """Run a command; what went wrong, or an empty string."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env, stdin = {**passed_on, **environment(call.facts)}, json.dumps(call.facts).encode() + b"\n"
    try:
        result = run(call.argv, timeout_s=call.timeout_s, stdin=stdin, env=env)
    except command.CommandError as error:
        return error.what
    except Exception as error:  # noqa: BLE001 - as no file is left to open: it is told, and the thread goes on
        return f"{type(error).__name__}: {error}"
    return "" if result.returncode == 0 else f"{result.ending}: {last_words(result.stderr) or 'it said nothing'}"


# --------------------------------------------------------------------------- facts


def _off(core: Core) -> dict[str, str]:
    """Which acts a person wants none of, and why."""
    return {act: why for act in ("launch", "terminate") if (why := core.off(act))}


def _facts_of(node: Optional[Node]) -> dict[str, Any]:
    if node is None:
        return {}
    worker = node.seen.addresses if node.seen is not None else frozenset[str]()
    # First those by which its worker is known, then IPv4.
    addresses = sorted(node.addresses, key=lambda one: (one not in worker, ":" in one, one))
    facts: dict[str, Any] = {"worker": node.worker or "", "site": node.site, "market": node.market}
    return {**facts, "address": addresses[0] if addresses else "", "addresses": addresses}


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `node` event; the instance under the name that the cloud's documentation has for it."""
    return {key: "" if value is None else value for key, value in fields.items()}


def environment(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts as variables: lists with blanks between, no control characters, nothing endless."""
    found = {}
    for key, value in facts.items():
        text = " ".join(value) if isinstance(value, list) else str(value)
        text = "".join(c if c.isprintable() else " " for c in text)[:LONGEST_FACT]
        found[f"ELASTIQ_{key.upper()}"] = os.fsdecode(text.encode("utf-8"))  # whatever the locale: UTF-8 arrives
    return found


def last_words(stderr: bytes, most: int = 300) -> str:
    """The end of a standard error as one short line, for a person."""
    text = stderr[-4 * most :].decode("utf-8", errors="replace")
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else f"...{line[3 - most :]}"
