"""What to say, and the exit code, when the daemon cannot start or go on. Imported then."""

from __future__ import annotations

from elastiq.config import ConfigError
from elastiq.interfaces import SourceError
from elastiq.paths import LockedError

EXIT_CANNOT_CREATE = 73  # EX_CANTCREAT: a directory, the socket or the store cannot be made or used
EXIT_RUNS_ALREADY = 75  # EX_TEMPFAIL: another elastiq has this state or run directory
EXIT_CONFIG = 78  # EX_CONFIG: the configuration is wrong; starting again would not help


def explained(error: Exception) -> tuple[int, list[str]]:
    """The exit code for one of `elastiq.service.EXPECTED`, and lines for a person."""
    if isinstance(error, (ConfigError, SourceError)):
        return EXIT_CONFIG, str(error).splitlines()
    text = f"{error.filename or 'system'}: {error.strerror}, cannot start" if isinstance(error, OSError) else str(error)
    return EXIT_RUNS_ALREADY if isinstance(error, LockedError) else EXIT_CANNOT_CREATE, [text]
