"""The console command `elastiq`: the daemon in the foreground, as systemd and `elastiqctl` start it.

The main thread waits for signals; the decision loop has a thread of its own, so that even a loop that
hangs can be told to leave. Everything that can go wrong before the loop runs is one line and an exit code.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import queue
import signal
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Mapping, Optional, Sequence

from elastiq import __version__, command, config, factory, identity, logs
from elastiq.control import Answer, ControlServer, Refused
from elastiq.daemon import Daemon
from elastiq.events import EventQueue, RealClock
from elastiq.interfaces import BatchSystem, Cloud, Owner, SourceError
from elastiq.notify import notify, reloading, watchdog_s
from elastiq.paths import LOCK, SOCKET_LOCK, Lock, LockedError, Paths
from elastiq.settings import Settings
from elastiq.store import Store, StoreError
from elastiq.threads import ThreadExecutor

log = logging.getLogger("elastiq.service")

EXIT_FAULT = 70  # EX_SOFTWARE: the loop ended by a fault of ours, its traceback is in the log
EXIT_CANNOT_CREATE = 73  # EX_CANTCREAT: a directory, the socket or the store cannot be made or used
EXIT_RUNS_ALREADY = 75  # EX_TEMPFAIL: another elastiq has this state or run directory
EXIT_CONFIG = 78  # EX_CONFIG: the configuration is wrong; starting again would not help
IN_FLIGHT_S = 8.0  # for calls in flight, after the loop has ended
LEAVE_S = 9.5  # after the first signal, whatever hangs

EPILOG = """\
signals: TERM, INT  end within 10 s (a second one: at once)     HUP  read the configuration again
exit codes: 0 ended as told   2 usage   70 internal fault   73 a directory, the socket or the store cannot
be used   75 another elastiq runs there   78 error in the configuration (one line each on standard error)
"""


class StartError(Exception):
    """The daemon cannot start. ``lines`` are for a person."""

    def __init__(self, code: int, *lines: str) -> None:
        self.code = code
        self.lines = lines
        super().__init__(*lines)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the daemon until a signal; returns the exit code."""
    args = _parser().parse_args(argv)
    paths = Paths.of(args.config, args.logdir, args.statedir, args.rundir)
    os.umask(0o027)  # neither log nor state is for everybody
    with suppress(ValueError, OSError):  # no standard error: nowhere to write to
        faulthandler.enable()  # the watchdog's SIGABRT shows where the loop hung
    try:
        loaded = read_config(paths.config)
        return Service(paths, loaded, args.logdir is not None, args.background).run()
    except StartError as error:
        for line in error.lines:
            print(f"elastiq: {line}", file=sys.stderr)
        return error.code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="elastiq",
        description="Run elastiq in the foreground; `elastiqctl` controls it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="configuration file (root: /etc/elastiq.conf)")
    parser.add_argument("--logdir", metavar="DIR", help="also log into rotated files there")
    parser.add_argument("--statedir", metavar="DIR", help="durable state (root: /var/lib/elastiq)")
    parser.add_argument("--rundir", metavar="DIR", help="control socket (root: /run/elastiq)")
    parser.add_argument("--version", action="version", version=f"elastiq {__version__}")
    parser.add_argument("--background", action="store_true", help=argparse.SUPPRESS)  # no log on stderr
    return parser


def read_config(path: Path) -> config.Loaded:
    """The settings. Raises `StartError` with all that is wrong."""
    try:
        return config.load(path)
    except config.ConfigError as error:
        raise StartError(EXIT_CONFIG, *error.problems) from None


class Service:
    """One daemon with its locks, logs, socket and signals. Raises `StartError` while it starts."""

    def __init__(self, paths: Paths, loaded: config.Loaded, log_to_files: bool, background: bool) -> None:
        self._paths = paths
        self._settings = loaded.settings
        self._logdir = paths.logdir if log_to_files else None
        # In the background, standard error is a file for what does not come through the log.
        self._stream = open(os.devnull, "w") if background else sys.stderr
        for directory in (paths.statedir, paths.rundir, *([paths.logdir] if log_to_files else [])):
            _make_directory(directory)
        self._locks = [_lock(paths.statedir / LOCK), _lock(paths.rundir / SOCKET_LOCK)]
        self._set_up_logs(loaded.settings)
        try:
            self._owner = identity.owner(loaded.settings.cluster_name, paths.statedir)
        except identity.IdentityError as error:
            raise StartError(EXIT_CANNOT_CREATE, str(error)) from None
        log.info(
            "elastiq %s starts, configuration %s: %s", __version__, paths.config, ", ".join(loaded.set_keys)
        )
        for warning in loaded.warnings:
            log.warning("%s", warning)
        self._events = EventQueue(RealClock(), longest_pause_s=loaded.settings.sleep_s)
        self._signals: queue.SimpleQueue[Optional[int]] = queue.SimpleQueue()  # None: the loop has ended
        self._daemon: Optional[Daemon] = None
        self._failure: Optional[StartError] = None
        self._beat_due = True
        self._reload_lock = threading.Lock()

    def run(self) -> int:
        """Run until a signal or a fault; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            # put() of SimpleQueue is reentrant, and nothing else is done inside the handler
            signal.signal(number, lambda number, _: self._signals.put(number))
        loop = threading.Thread(target=self._decide, name="elastiq decisions", daemon=True)
        loop.start()
        code = self._supervise()
        if self._failure:
            code = self._failure.code
            for line in self._failure.lines:
                log.critical("%s", line)
        log.info("elastiq ends")
        logging.shutdown()
        if loop.is_alive():
            os._exit(code)  # nothing of it may go on while the interpreter is taken down
        return code

    # ------------------------------------------------------------------ the decision thread

    def _decide(self) -> None:
        try:
            self._run_daemon()
        except StartError as error:
            self._failure = error
        except Exception:
            log.critical("internal fault", exc_info=True)
            self._failure = StartError(EXIT_FAULT, "the decision loop ended by an internal fault")
        finally:
            self._signals.put(None)

    def _run_daemon(self) -> None:
        batch, clouds = make_plugins(self._settings, self._owner)
        try:
            store = Store(str(self._paths.statedir / "elastiq.db"))
        except StoreError as error:
            raise StartError(EXIT_CANNOT_CREATE, str(error)) from None
        daemon = self._daemon = factory.build(
            self._settings,
            batch=batch,
            clouds=clouds,
            owner=self._owner,
            events=self._events,
            executor=ThreadExecutor(self._events),
            store=store,
        )
        try:
            control = ControlServer(self._paths.socket, lambda: daemon.snapshot, self._command)
        except OSError as error:
            raise StartError(EXIT_CANNOT_CREATE, f"{self._paths.socket}: {error.strerror or error}") from None
        daemon.start()
        self._events.post(lambda: notify("READY=1"))  # from the loop: it runs
        daemon.run()
        control.close()
        daemon.close(IN_FLIGHT_S)

    # ------------------------------------------------------------------ the main thread

    def _supervise(self) -> int:
        """Wait for signals until it is time to leave; returns the exit code if nothing failed."""
        watchdog = watchdog_s()
        while True:
            try:
                number = self._signals.get(timeout=watchdog / 4 if watchdog else None)
            except queue.Empty:
                self._beat()
                continue
            if number is None:
                return 0
            if number != signal.SIGHUP:
                return self._leave(signal.Signals(number).name)
            threading.Thread(target=self._reload_quietly, name="elastiq reload", daemon=True).start()

    def _beat(self) -> None:
        """Let the loop itself feed the watchdog: one that hangs does not."""

        def fed() -> None:
            notify("WATCHDOG=1")
            self._beat_due = True

        if self._beat_due:
            self._beat_due = False
            self._events.post(fed)

    def _leave(self, reason: str) -> int:
        """End commands at once, let other calls in flight end, and be gone in time whatever they do."""
        end = time.monotonic() + LEAVE_S
        log.info("%s: ending", reason)
        notify("STOPPING=1")
        if self._daemon:
            self._daemon.stop(reason)
        else:
            return 0  # nothing was begun yet
        command.kill_all()
        while True:
            try:
                number = self._signals.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                log.error("the decision loop did not end within %g s: leaving without it", LEAVE_S)
                return EXIT_FAULT
            if number is None:
                return 0
            if number != signal.SIGHUP:
                log.warning("second signal: leaving at once")
                return 128 + number

    # ------------------------------------------------------------------ reload and commands: any thread

    def reload(self) -> None:
        """Read the configuration again. Raises `StartError`; the old settings then stay."""
        daemon = self._daemon
        if daemon is None:
            raise StartError(EXIT_CONFIG, "elastiq is still starting")
        with self._reload_lock:
            reloading()
            try:
                loaded = read_config(self._paths.config)
                if loaded.settings.cluster_name != self._settings.cluster_name:
                    raise StartError(EXIT_CONFIG, "cluster_name cannot change while elastiq runs: restart it")
                batch, clouds = make_plugins(loaded.settings, self._owner)
            except StartError as error:
                text = "refused, the old settings stay: " + "; ".join(error.lines)
                log.error("reload %s", text)
                self._events.post(lambda: daemon.core.tell("reload", text, logging.DEBUG))
                raise
            finally:
                notify("READY=1")
            self._settings = loaded.settings
            self._set_up_logs(loaded.settings)
            log.info("configuration read again: %s", ", ".join(loaded.set_keys))
            for warning in loaded.warnings:
                log.warning("%s", warning)

        def take() -> None:
            daemon.core.tell("reload", "")
            daemon.core.guard("reload", lambda: daemon.reload(loaded.settings, batch, clouds))

        self._events.post(take)

    def _reload_quietly(self) -> None:
        with suppress(StartError):  # it is in the log and in the status
            self.reload()

    def _command(self, verb: str, args: Answer) -> Future[Answer]:
        future: Future[Answer] = Future()
        if verb == "reload":
            try:
                self.reload()
            except StartError as error:
                raise Refused("config", "; ".join(error.lines)) from None
            future.set_result({})
        elif verb == "adopt":
            self._events.post(lambda: self._on_loop(future, verb, args))
        else:
            raise Refused("unknown-verb", f"`{verb}` is not a command of elastiq {__version__}")
        return future

    def _on_loop(self, future: Future[Answer], verb: str, args: Answer) -> None:
        assert self._daemon is not None
        try:
            future.set_result(self._daemon.command(verb, args))
        except Exception as error:  # noqa: BLE001 - it is raised where the client is answered
            future.set_exception(error)

    def _set_up_logs(self, settings: Settings) -> None:
        logs.setup(settings.log_level, settings.log_format, self._logdir, self._stream)


def make_plugins(settings: Settings, owner: Owner) -> tuple[BatchSystem, Mapping[str, Cloud]]:
    """The batch system and the sites that the settings name. Raises `StartError`."""
    try:
        return factory.plugins(settings, owner)
    except config.ConfigError as error:
        raise StartError(EXIT_CONFIG, *error.problems) from None
    except SourceError as error:
        raise StartError(EXIT_CONFIG, str(error)) from None


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            EXIT_CANNOT_CREATE, f"{path}: cannot make this directory: {error.strerror}"
        ) from None


def _lock(path: Path) -> Lock:
    try:
        return Lock(path)
    except LockedError as error:
        raise StartError(EXIT_RUNS_ALREADY, str(error)) from None
    except OSError as error:
        raise StartError(EXIT_CANNOT_CREATE, f"{path}: cannot lock: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
