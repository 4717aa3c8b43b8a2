"""The console command `elastiq`: the daemon in the foreground, as systemd and `elastiqctl` start it.

The main thread waits for signals; the decision loop has a thread of its own, so that even a loop that
hangs can be told to leave. Everything that can go wrong before the loop runs is one line and an exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import logging
import os
import select
import signal
import sys
import threading
import time
from concurrent.futures import Future
from typing import Iterator, Optional, Sequence

from elastiq import __version__, command, config, factory, identity, logs
from elastiq.control import Answer, ControlServer, Refused
from elastiq.daemon import Daemon
from elastiq.events import EventQueue, RealClock
from elastiq.interfaces import SourceError
from elastiq.notify import notify, reloading, watchdog_s
from elastiq.paths import LOCK, SOCKET_LOCK, Lock, LockedError, Paths
from elastiq.store import Store, StoreError
from elastiq.threads import ThreadExecutor

log = logging.getLogger("elastiq.service")

EXIT_FAULT = 70  # EX_SOFTWARE: the loop ended by a fault of ours, its traceback is in the log
EXIT_CANNOT_CREATE = 73  # EX_CANTCREAT: a directory, the socket or the store cannot be made or used
EXIT_RUNS_ALREADY = 75  # EX_TEMPFAIL: another elastiq has this state or run directory
EXIT_CONFIG = 78  # EX_CONFIG: the configuration is wrong; starting again would not help
IN_FLIGHT_S = 8.0  # for calls in flight, after the loop has ended
ENDED = 0  # no signal has this number: the decision loop has ended
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
    """Run the daemon until a signal. Returns only if it could not start; see EPILOG for the codes."""
    args = _parser().parse_args(argv)
    os.umask(0o027)  # neither log nor state is for everybody
    if sys.stderr is not None:
        faulthandler.enable()  # the watchdog's SIGABRT shows where the loop hung
    try:
        with _explained():
            paths = Paths.of(args.config, args.logdir, args.statedir, args.rundir)
            service = Service(paths, config.load(paths.config), args.logdir is not None, args.background)
    except StartError as error:
        print(*(f"elastiq: {line}" for line in error.lines), sep="\n", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    code = service.run()
    logging.shutdown()
    os._exit(code)  # a thread that hangs in a call must not meet an interpreter that is taken down


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


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn what a person can mend into a `StartError`."""
    try:
        yield
    except config.ConfigError as error:
        raise StartError(EXIT_CONFIG, *error.problems) from None
    except SourceError as error:  # of a plugin that cannot be made from its section
        raise StartError(EXIT_CONFIG, str(error)) from None
    except LockedError as error:
        raise StartError(EXIT_RUNS_ALREADY, str(error)) from None
    except (StoreError, identity.IdentityError) as error:
        raise StartError(EXIT_CANNOT_CREATE, str(error)) from None
    except OSError as error:
        raise StartError(EXIT_CANNOT_CREATE, f"{error.filename}: {error.strerror}, cannot start") from None


class _Signals:
    """Signals come through a pipe that Python's own handler writes to, and so does the end of the loop.

    Waiting on a lock for a Python handler is not enough: the kernel may give the signal to another thread,
    and then nothing wakes the main one (seen here in one of ten SIGTERMs right after the start).
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def post(self, number: int) -> None:
        os.write(self._write, bytes([number]))

    def wait(self, timeout_s: Optional[float]) -> Optional[int]:
        """The next signal, or None after so many seconds without one."""
        ready, _, _ = select.select([self._read], [], [], timeout_s)
        return os.read(self._read, 1)[0] if ready else None


class Service:
    """One daemon with its locks, logs, socket and signals."""

    def __init__(self, paths: Paths, loaded: config.Loaded, log_to_files: bool, background: bool) -> None:
        """Take the locks and open the logs."""
        self._paths = paths
        self._settings = loaded.settings
        self._logdir = paths.logdir if log_to_files else None
        # In the background, standard error is a file for what does not come through the log.
        self._stream = open(os.devnull, "w") if background else sys.stderr
        for directory in (paths.statedir, paths.rundir, *([paths.logdir] if log_to_files else [])):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._locks = (Lock(paths.statedir / LOCK), Lock(paths.rundir / SOCKET_LOCK))
        self._owner = identity.owner(loaded.settings.cluster_name, paths.statedir)
        self._events = EventQueue(RealClock(), longest_pause_s=loaded.settings.sleep_s)
        self._daemon: Optional[Daemon] = None
        self._failure: Optional[StartError] = None
        self._beat_due = True
        self._reload_lock = threading.Lock()
        self._begin_log(loaded, f"elastiq {__version__} starts")

    def run(self) -> int:
        """Run until a signal or a fault; returns the exit code."""
        self._signals = _Signals()
        threading.Thread(target=self._decide, name="elastiq decisions", daemon=True).start()
        code = self._supervise()
        for line in self._failure.lines if self._failure else ():
            log.critical("%s", line)
        log.info("elastiq ends")
        return self._failure.code if self._failure else code

    # ------------------------------------------------------------------ the decision thread

    def _decide(self) -> None:
        try:
            with _explained():
                daemon, control = self._build()
            self._events.post(lambda: notify("READY=1"))  # from the loop: it runs
            daemon.run()
            control.close()
            daemon.close(IN_FLIGHT_S)
        except StartError as error:
            self._failure = error
        except Exception:
            log.critical("internal fault", exc_info=True)
            self._failure = StartError(EXIT_FAULT, "the decision loop ended by an internal fault")
        finally:
            self._signals.post(ENDED)

    def _build(self) -> tuple[Daemon, ControlServer]:
        batch, clouds = factory.plugins(self._settings, self._owner)
        daemon = factory.build(
            self._settings,
            batch=batch,
            clouds=clouds,
            owner=self._owner,
            events=self._events,
            executor=ThreadExecutor(self._events),
            store=Store(str(self._paths.statedir / "elastiq.db")),
        )
        daemon.start()
        self._daemon = daemon
        return daemon, ControlServer(self._paths.socket, lambda: daemon.snapshot, self._command)

    # ------------------------------------------------------------------ the main thread

    def _supervise(self) -> int:
        """Wait for signals until it is time to leave; returns the exit code if nothing failed."""
        watchdog = watchdog_s()
        while True:
            number = self._signals.wait(watchdog / 4 if watchdog else None)
            if number is None:
                self._beat()
            elif number == ENDED:
                return 0
            elif number == signal.SIGHUP:
                threading.Thread(target=self._reload_quietly, name="elastiq reload", daemon=True).start()
            else:
                return self._leave(signal.Signals(number).name)

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
            number = self._signals.wait(max(0.0, end - time.monotonic()))
            if number is None:
                log.error("the decision loop did not end within %g s: leaving without it", LEAVE_S)
                return EXIT_FAULT
            if number == ENDED:
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
                with _explained():
                    loaded = config.load(self._paths.config)
                    settings = loaded.settings
                    if settings.cluster_name != self._settings.cluster_name:
                        raise StartError(
                            EXIT_CONFIG, "cluster_name cannot change while elastiq runs: restart it"
                        )
                    batch, clouds = factory.plugins(settings, self._owner)
            except StartError as error:
                text = "refused, the old settings stay: " + "; ".join(error.lines)
                log.error("reload %s", text)
                self._events.post(lambda: daemon.core.tell("reload", text, logging.DEBUG))
                raise
            finally:
                notify("READY=1")
            self._settings = settings
            self._begin_log(loaded, "configuration read again")

        def take() -> None:
            self._events.longest_pause_s = settings.sleep_s
            daemon.core.tell("reload", "")
            daemon.core.guard("reload", lambda: daemon.reload(settings, batch, clouds))

        self._events.post(take)

    def _reload_quietly(self) -> None:
        with contextlib.suppress(StartError):  # it is in the log and in the status
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

    def _begin_log(self, loaded: config.Loaded, what: str) -> None:
        logs.setup(loaded.settings.log_level, loaded.settings.log_format, self._logdir, self._stream)
        log.info("%s, %s says: %s", what, self._paths.config, ", ".join(loaded.set_keys))
        for warning in loaded.warnings:
            log.warning("%s", warning)


if __name__ == "__main__":
    sys.exit(main())
