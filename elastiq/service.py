"""The console command `elastiq`: the daemon in the foreground, as systemd and `elastiqctl` start it.

The main thread waits for signals; the decision loop has a thread of its own, so that even a loop that
hangs can be told to leave. Everything that can go wrong before the loop runs is one line and an exit code.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Optional, Sequence

from elastiq import __version__, command, config, identity, logs
from elastiq.control import ControlServer
from elastiq.core import Core
from elastiq.daemon import Daemon
from elastiq.events import EventQueue, RealClock
from elastiq.interfaces import SourceError
from elastiq.paths import LOCK, SOCKET_LOCK, Lock, LockedError, Paths, claim, path
from elastiq.plugin_loader import plugins
from elastiq.recording import FOLDER, Recording
from elastiq.store import Store, StoreError
from elastiq.threads import ThreadExecutor

if TYPE_CHECKING:
    from elastiq.protocol import Answer

log = logging.getLogger("elastiq.service")

EXIT_FAULT = 70  # EX_SOFTWARE: the loop ended by a fault of ours, its traceback is in the log
LEAVE_S = 9.5  # after the first signal, whatever hangs
ENDED = 0  # no signal has this number: the decision loop has ended

EPILOG = """\
signals: TERM, INT  end within 10 s (a second one: at once)     HUP  read the configuration again
         URG  the queue may have changed: look at it now
exit codes: 0 ended as told   2 usage   70 internal fault   73 a directory, the socket or the store cannot
be used   75 another elastiq runs there   78 error in the configuration (one line each on standard error)
"""


# What a person can mend (see `elastiq.exits`). A SourceError is here of a plugin that cannot be made from its section.
EXPECTED = (config.ConfigError, SourceError, LockedError, StoreError, identity.IdentityError, OSError)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the daemon until a signal. Returns only if it could not start; see EPILOG for the codes."""
    os.umask(0o027)  # neither log nor state is for everybody
    if sys.stderr is not None:
        faulthandler.enable()  # the watchdog's SIGABRT shows where the loop hung
    try:
        args = _parser().parse_args(argv)
        paths = Paths.of(args.config, args.logdir, args.statedir, args.rundir)
        service = Service(paths, config.load(paths.config), args.logdir is not None, args.background)
    except (SystemExit, *EXPECTED) as error:
        from elastiq.exits import told

        return told(error)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    code = service.run()
    logging.shutdown()
    os._exit(code)  # a thread that hangs in a call must not meet an interpreter that is taken down


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("elastiq", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.description, parser.allow_abbrev = "Run elastiq in the foreground; `elastiqctl` controls it.", False
    parser.add_argument("--config", type=path, metavar="FILE", help="configuration file (root: /etc/elastiq.conf)")
    parser.add_argument("--logdir", type=path, metavar="DIR", help="also log into rotated files there")
    parser.add_argument("--statedir", type=path, metavar="DIR", help="durable state (root: /var/lib/elastiq)")
    parser.add_argument("--rundir", type=path, metavar="DIR", help="control socket (root: /run/elastiq)")
    parser.add_argument("--version", action="version", version=f"elastiq {__version__}")
    parser.add_argument("--background", action="store_true", help=argparse.SUPPRESS)  # no log on stderr
    return parser


class Service:
    """One daemon with its locks, logs, socket and signals."""

    def __init__(self, paths: Paths, loaded: config.Loaded, log_to_files: bool, background: bool) -> None:
        """Take the locks and open the logs."""
        self.paths, self.settings = paths, loaded.settings
        self._logdir = paths.logdir if log_to_files else None
        # In the background, standard error is a file for what does not come through the log.
        self._stream = open(os.devnull, "w") if background else sys.stderr
        for directory in (paths.statedir, paths.rundir, *([paths.logdir] if log_to_files else [])):
            directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._locks = (Lock(paths.statedir / LOCK), Lock(paths.rundir / SOCKET_LOCK))
        self.owner = identity.owner(loaded.settings.cluster_name, paths.statedir)
        # Two of one user on one machine are the same head node to the cloud, whatever their directories are.
        which = f"cluster {loaded.settings.cluster_name} of this user of this machine, with other directories"
        self._claim = claim(f"elastiq-{self.owner.mark}", which)
        self.events = EventQueue(RealClock(), longest_pause_s=loaded.settings.sleep_s)
        self.reloads = ThreadPoolExecutor(1, "elastiq reload")  # one at a time, and never on the loop
        self.daemon: Optional[Daemon] = None
        self._code = 0  # why the decision loop ended
        self.begin_log(loaded, f"elastiq {__version__} starts")

    def run(self) -> int:
        """Run until a signal or a fault; returns the exit code.

        Signals come through a pipe that Python's own handler writes to, and so does the end of the loop.
        Waiting on a lock for a Python handler is not enough: the kernel may give the signal to another thread,
        and then nothing wakes the main one (seen here in one of ten SIGTERMs right after the start).
        """
        signals, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM, signal.SIGURG):
            signal.signal(number, lambda *_: None)
        threading.Thread(target=self._decide, name="elastiq decisions", daemon=True).start()
        code = self._supervise(signals)
        log.info("elastiq ends", extra={"event": "end"})
        return self._code or code

    # ------------------------------------------------------------------ the decision thread

    def _decide(self) -> None:
        try:
            made, executor = plugins(self.settings, self.owner), ThreadExecutor(self.events)
            store = Store(str(self.paths.statedir / "elastiq.db"))
            daemon = Daemon(Core(self.settings, *made, self.owner, self.events, executor, store))
            daemon.core.log_failures = lambda: self._sinks.failures
            daemon.core.saw_queue = Recording(daemon.core, self.paths.statedir / FOLDER).take
            daemon.start()
            daemon.heartbeat()
            self.daemon = daemon
            control = ControlServer(self.paths.socket, daemon.status, self._command)
            if "NOTIFY_SOCKET" in os.environ:
                from elastiq.notify import begin

                begin(self.events)
            daemon.run()
            control.close()
            daemon.close()
        except EXPECTED as error:
            from elastiq.exits import explained

            self._code, lines = explained(error)
            log.critical("%s", "; ".join(lines), extra={"event": "failed"})
        except Exception:  # whatever it is, the exit code has to say so
            self._code = EXIT_FAULT
            log.critical("the decision loop ended by an internal fault", exc_info=True, extra={"event": "failed"})
        finally:
            os.write(self._pipe, bytes([ENDED]))

    # ------------------------------------------------------------------ the main thread

    def _supervise(self, signals: int) -> int:
        """Wait for signals until it is time to leave; returns the exit code if nothing failed.

        The first signal ends commands at once and lets other calls in flight end; LEAVE_S after it the
        process is gone, whatever hangs.
        """
        leaving = False
        while True:
            number = os.read(signals, 1)[0]
            if number == ENDED:
                return 0
            if number == signal.SIGALRM:
                log.error(f"the loop did not end within {LEAVE_S:g} s: leaving without it", extra={"event": "failed"})
                return EXIT_FAULT
            if number == signal.SIGURG:
                if self.daemon is not None:
                    self.daemon.wake()
            elif number == signal.SIGHUP:
                self.reloads.submit(self.reload)  # what is wrong is in the log and in the status
            elif leaving:
                log.warning("second signal: leaving at once", extra={"event": "signal"})
                return 128 + number
            else:
                leaving = True
                signal.setitimer(signal.ITIMER_REAL, LEAVE_S)
                log.info("%s: ending", signal.Signals(number).name, extra={"event": "signal"})
                if "NOTIFY_SOCKET" in os.environ:
                    from elastiq.notify import notify

                    notify("STOPPING=1")
                if self.daemon is None:
                    return 0  # nothing was begun yet
                self.daemon.stop()
                command.kill_all()

    # ------------------------------------------------------------------ reload and commands: any thread

    def reload(self) -> Answer:
        """Read the configuration again. Raises `Refused`; the old settings then stay."""
        from elastiq.reload import reload

        return reload(self)

    def _command(self, verb: str, args: Answer) -> Future[Answer]:
        from elastiq.commanding import start

        return start(self, verb, args)

    def begin_log(self, loaded: config.Loaded, what: str) -> None:
        self._sinks = logs.setup(loaded.settings.log_level, loaded.settings.log_format, self._logdir, self._stream)
        log.info("%s, %s says: %s", what, self.paths.config, ", ".join(loaded.set_keys), extra={"event": "config"})
        for warning in loaded.warnings:
            log.warning("%s", warning, extra={"event": "config"})


if __name__ == "__main__":
    sys.exit(main())
