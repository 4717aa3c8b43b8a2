"""What to say, and the exit code, when the daemon cannot start or go on. Imported then."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
import pwd
import sys
from pathlib import Path
from typing import Iterable, Optional

from elastiq.config import ConfigError
from elastiq.interfaces import SourceError
from elastiq.journal import ERROR, leads_there
from elastiq.paths import LOCK, SOCKET_LOCK, LockedError

REMEDIES = {
    errno.ENOSPC: ": free some space",
    errno.EDQUOT: ": free some space",
    errno.EROFS: ": remount it, read and write",
    errno.EACCES: ": see elastiqctl check",
}
EXIT_CANNOT_CREATE = 73  # EX_CANTCREAT: a directory, the socket or the store cannot be made or used
EXIT_RUNS_ALREADY = 75  # EX_TEMPFAIL: another elastiq has this state or run directory
EXIT_CONFIG = 78  # EX_CONFIG: the configuration is wrong; starting again would not help


def told(error: BaseException) -> int:
    """Say on standard error why it did not start; returns the exit code. A SystemExit, of --help or wrong arguments,
    is raised again when what argparse has printed has been written."""
    lines: list[str] = []
    if not isinstance(error, SystemExit):
        code, lines = explained(error)
    else:
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
            raise error
        except OSError as failed:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is unwritten would fail once more when Python leaves
            code = 0 if isinstance(failed, BrokenPipeError) else 1
            lines = [f"output: {failed.strerror}"] * code
    of_journal = sys.stderr is not None and leads_there(sys.stderr)  # it says whose they are, and has their level
    head = f"<{ERROR}>" if of_journal and isinstance(error, Exception) else "elastiq: "
    print(*(f"{head}{line}\n" for line in lines), sep="", end="", file=sys.stderr)
    return code


def explained(error: BaseException) -> tuple[int, list[str]]:
    """The exit code for one of `elastiq.service.EXPECTED`, and lines for a person."""
    if isinstance(error, (ConfigError, SourceError)):
        return EXIT_CONFIG, readable_by(str(error).splitlines())
    text = str(error)
    if isinstance(error, OSError):
        remedy = REMEDIES.get(error.errno or 0, "") if error.filename else ""
        text = f"{error.filename or 'system'}: {error.strerror}, cannot start{remedy}"
    elif isinstance(error, LockedError):
        text += _places_of(error.pid)
    return EXIT_RUNS_ALREADY if isinstance(error, LockedError) else EXIT_CANNOT_CREATE, [text]


def _places_of(pid: Optional[int]) -> str:
    """Where one that holds what we need has its directories, as far as we may see, and what to do about it."""
    held = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                held.add(Path(os.readlink(descriptor).partition(" (deleted)")[0]))
    options = {LOCK: "--statedir", SOCKET_LOCK: "--rundir"}
    its = sorted(f"{options[one.name]} {one.parent}" for one in held if one.name in options)
    return f"; elastiqctl {' '.join(reversed(its))} stop ends it" if its else ""


DENIED = f"cannot be read ({os.strerror(errno.EACCES)})"


def readable_by(problems: Iterable[str]) -> list[str]:
    """The problems of a configuration; of files that are not ours to read, who cannot read them, and what lets him."""
    return [_with_who(line) if DENIED in line else line for line in problems]


def _with_who(line: str) -> str:
    try:
        user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(os.getegid()).gr_name
    except KeyError:
        user, group = f"uid {os.geteuid()}", str(os.getegid())
    said = f"{line.partition(DENIED)[0]}{DENIED} by {user}, as whom elastiq runs: chown root:{group} and chmod 640 it"
    if Path("/run/systemd/system").is_dir() and "credentials_file" in line:  # sd_booted(3)
        said += ", or let systemd give it to the service: LoadCredential=NAME, the last part of its path, in a drop-in"
    return said
