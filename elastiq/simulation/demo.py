"""`elastiqctl demo`: the whole daemon at work on a simulated cluster, from the first job to the last machine.

The daemon is the real one. Jobs arrive, machines boot, run them, stay idle, are drained and end; then what it
took is summed up.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import random
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, TextIO, Union

from elastiq.interfaces import Pool, Resources
from elastiq.settings import Settings
from elastiq.simulation.clock import PacedClock, VirtualClock
from elastiq.simulation.cluster import Cluster
from elastiq.simulation.view import LiveView, Picture, PlainView, clock
from elastiq.simulation.workload import Arrival, demo_workload
from elastiq.status import snapshot

if TYPE_CHECKING:
    from elastiq.simulation.page import DemoPage

DEFAULT_SPEED = 160.0
WEB_SPEED, WEB_PORT = 40.0, 8642
LIMIT_S = 3 * 3600.0  # simulated; the work takes about an hour
LOOK_EVERY_S = 5.0
EXIT_UNFINISHED = 1
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
EXIT_TERMINATED = 143

FLAVOURS = {"medium": Resources(cpus=4, memory_mb=8192)}
SETTINGS = Settings(
    cluster_name="demo",
    pools=(Pool("simulated", "simulated", ("medium",), capacity=FLAVOURS["medium"]),),
    waiting_jobs_time_s=40.0,
    idle_for_time_s=300.0,
    min_vms=0,
    max_vms=8,
)

# On the page, the machines cost something.
PRICED = replace(SETTINGS, pools=(replace(SETTINGS.pools[0], prices={"medium": 0.17}),))

View = Union[LiveView, PlainView]


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the demo from the command line; returns the exit code."""
    args = _arguments(argv)
    try:
        with suppress(ValueError):  # only the main thread may: elsewhere the default stays
            signal.signal(signal.SIGTERM, _leave)
        return run_demo(args.seed, args.speed, args.json, web=args.web)
    except _Terminated:
        return EXIT_TERMINATED
    except KeyboardInterrupt:
        print("elastiqctl demo: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Who read our output has gone; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        if args.web is None:
            raise
        why = os.strerror(error.errno or 0)
        print(f"elastiqctl demo: port {args.web}: {why}; another: --web PORT", file=sys.stderr)
        return EXIT_UNFINISHED


class _Terminated(KeyboardInterrupt):
    """SIGTERM came. Not a `SystemExit`: that is a plugin's to raise, and an executor takes it for an answer."""


def _leave(_number: int, _frame: object) -> None:
    """Leave by an exception, so that the terminal is given back as it was."""
    raise _Terminated


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="elastiqctl demo",
        description="Watch elastiq scale a simulated cluster. It needs neither a cloud nor a batch system.",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another course of events (default: 1)")
    parser.add_argument(
        "--speed", type=_speed, metavar="N",
        help=f"simulated seconds in a real second, or `max` (default: {DEFAULT_SPEED:g}; with --web {WEB_SPEED:g})",
    )  # fmt: skip
    parser.add_argument(
        "--web", type=_port, nargs="?", const=WEB_PORT, metavar="PORT",
        help=f"also show the page of the section [web], at http://127.0.0.1:PORT/ (default: {WEB_PORT})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print only the summary, as JSON; as fast as it goes")
    return parser


def _arguments(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = _parser()
    args = parser.parse_args(argv)
    if args.web is not None and (args.json or args.speed == math.inf):
        parser.error("--web is to be watched: not with --json or --speed max")
    args.speed = args.speed or (DEFAULT_SPEED if args.web is None else WEB_SPEED)
    return args


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, from 1 to 65535")
    return int(text)


def _speed(text: str) -> float:
    if text == "max":
        return math.inf
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number above 0 nor `max`")
    return speed


def run_demo(
    seed: int = 1,
    speed: float = DEFAULT_SPEED,
    as_json: bool = False,
    out: Optional[TextIO] = None,
    web: Optional[int] = None,
) -> int:
    """Run one demo; 0 if all jobs were done and all machines ended.

    ``speed`` is in simulated seconds per real second, infinite for as fast as it goes; ``web`` the port of the page.
    """
    out = out or sys.stdout
    began = time.monotonic()
    view = None if as_json else _view(out, speed)
    demo = Demo(seed, math.inf if as_json else speed, view, web)
    try:
        try:
            finished = demo.play()
        finally:
            if view is not None:
                view.close()
        summary = demo.summary(time.monotonic() - began)
        if as_json:
            print(json.dumps(summary), file=out, flush=True)
        else:
            print("\n" + table(summary), file=out, flush=True)
        if not finished:
            left = summary["jobs_submitted"] - summary["jobs_done"]
            print(f"elastiqctl demo: {left} jobs not done after {clock(LIMIT_S)}", file=sys.stderr)
            return EXIT_UNFINISHED
        if web is not None and out.isatty():
            print("\nthe page stays until Ctrl-C", file=out, flush=True)
            demo.stay()
        return 0
    finally:
        demo.close()


def _view(out: TextIO, speed: float) -> View:
    live = out.isatty() and math.isfinite(speed) and os.environ.get("TERM", "dumb") != "dumb"
    return LiveView(out) if live else PlainView(out)


class Demo:
    """One run: the cluster, its workload, and what a person sees of it."""

    def __init__(
        self, seed: int, speed: float = math.inf, view: Optional[View] = None, web: Optional[int] = None
    ) -> None:
        rng = random.Random(seed)
        self._seed = seed
        self._view = view
        self._jobs: list[Arrival] = demo_workload(rng)
        self._finished = False
        paced = math.isfinite(speed)
        self._title = f"elastiq demo, seed {seed}, " + (f"{speed:g}x" if paced else "as fast as it goes")
        self._title += f"   http://127.0.0.1:{web}/" if web is not None else ""
        self._web = (web, speed) if web is not None else None
        self._page: Optional[DemoPage] = None
        log, self._teller = logging.getLogger("elastiq"), _Teller(self._told)
        self._log_before = (log.level, log.propagate)
        self.cluster = Cluster(
            SETTINGS if web is None else PRICED,
            FLAVOURS,
            rng,
            clock=PacedClock(speed, self._show) if paced else VirtualClock(),
        )

    def run(self) -> bool:
        """The whole demo; False if it did not come to its end."""
        try:
            return self.play()
        finally:
            self.close()

    def play(self) -> bool:
        """The same, but `close` has to follow. Raises OSError if the page cannot be served."""
        cluster, world = self.cluster, self.cluster.world
        for job in self._jobs:
            cluster.events.after(job.at_s, _submission(world.submit, job))
        log = logging.getLogger("elastiq")
        log.addHandler(self._teller)
        log.setLevel(logging.INFO)
        log.propagate = False
        daemon = cluster.start_daemon()
        if self._web is not None:
            from elastiq.simulation.page import DemoPage

            self._page = DemoPage(daemon, *self._web)
            if isinstance(self._view, PlainView):
                self._view.say(f"the page: http://127.0.0.1:{self._web[0]}/")
        cluster.events.after(LOOK_EVERY_S, self._look)
        cluster.events.run()
        self._show()
        return self._finished

    def stay(self) -> None:
        """Let time pass, and show it on the page only, until Ctrl-C."""
        self._view = None
        with suppress(KeyboardInterrupt):
            self.cluster.events.run()

    def close(self) -> None:
        """End the daemon and its page."""
        log = logging.getLogger("elastiq")
        log.removeHandler(self._teller)
        log.level, log.propagate = self._log_before
        if self._page is not None:
            self._page.close()
        self.cluster.kill_daemon()

    def _look(self) -> None:
        """See whether it is over: all jobs done, no machine left, and the daemon knows it."""
        world = self.cluster.world
        over = world.tally.submitted == len(self._jobs) and not world.jobs and not self._nodes()
        if over and not world.tally.present:
            self._finished = True
        if self._finished or self.cluster.clock.elapsed_s >= LIMIT_S:
            self.cluster.events.stop()
            return
        if isinstance(self._view, PlainView):
            self._show()
        self.cluster.events.after(LOOK_EVERY_S, self._look)

    # ------------------------------------------------------------------ telling

    def _snapshot(self) -> Mapping[str, Any]:
        return snapshot(self.cluster.daemon) if self.cluster.daemon else {}

    def _nodes(self) -> Sequence[Mapping[str, Any]]:
        nodes: Sequence[Mapping[str, Any]] = self._snapshot().get("nodes", ())
        return nodes

    def _told(self, record: logging.LogRecord) -> None:
        if self._view is not None:
            self._view.tell(self.cluster.clock.elapsed_s, record)
        if record.exc_info:  # a bug: it must not hide behind the picture
            print(logging.Formatter().format(record), file=sys.stderr)

    def _show(self) -> None:
        if self._view is None:
            return
        world = self.cluster.world
        self._view.show(
            Picture(
                elapsed_s=self.cluster.clock.elapsed_s,
                title=self._title,
                waiting=world.waiting(),
                running=world.running(),
                done=world.tally.done,
                submitted=len(self._jobs),
                max_vms=SETTINGS.max_vms,
                state=str(self._snapshot().get("state", "")),
                nodes=self._nodes(),
            )
        )

    def summary(self, wall_s: float) -> dict[str, Any]:
        """What ``--json`` prints. Only ``wall_s`` differs between runs of one seed."""
        tally = self.cluster.world.settle_accounts()
        waits = sorted(tally.waits_s)
        return {
            "seed": self._seed,
            "simulated_s": round(self.cluster.clock.elapsed_s, 3),
            "wall_s": round(wall_s, 3),
            "jobs_submitted": tally.submitted,
            "jobs_done": tally.done,
            "jobs_killed": tally.killed,
            "mean_wait_s": round(math.fsum(waits) / len(waits), 3) if waits else None,
            "p95_wait_s": round(waits[math.ceil(0.95 * len(waits)) - 1], 3) if waits else None,
            "launches": tally.launches,
            "terminations": tally.terminations,
            "peak_vms": tally.peak,
            "max_vms": SETTINGS.max_vms,
            "machine_hours": round(tally.machine_s / 3600.0, 4),
            "idle_machine_hours": round(tally.unused_s / 3600.0, 4),
        }


class _Teller(logging.Handler):
    """What the daemon logs is what it decided, in the words that its status shows."""

    def __init__(self, told: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._told = told

    def emit(self, record: logging.LogRecord) -> None:
        self._told(record)


def _submission(submit: Callable[[Resources, float], object], job: Arrival) -> Callable[[], object]:
    return lambda: submit(job.request, job.length_s)


def table(s: Mapping[str, Any]) -> str:
    """The summary for a person."""

    def seconds(value: Optional[float]) -> str:
        return "none started" if value is None else f"{value:.0f} s"

    rows = (
        ("time", f"{clock(s['simulated_s'])} simulated in {s['wall_s']:.1f} s"),
        ("jobs", f"{s['jobs_submitted']} submitted, {s['jobs_done']} done, {s['jobs_killed']} killed"),
        ("waiting", f"{seconds(s['mean_wait_s'])} on average, 95 % at most {seconds(s['p95_wait_s'])}"),
        ("machines", f"{s['launches']} launched, {s['terminations']} ended"),
        ("at once", f"{s['peak_vms']} of at most {s['max_vms']}"),
        ("machine time", f"{s['machine_hours']:.2f} h, of it {s['idle_machine_hours']:.2f} h without a job"),
    )
    return "\n".join(f"{name:<14}{text}" for name, text in rows)


if __name__ == "__main__":
    sys.exit(main())
