"""Unix sockets whose path does not fit into their address. Imported for one."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator


@contextlib.contextmanager
def by_directory(path: Path) -> Iterator[str]:
    """A short name, by the descriptor of its directory. Raises OSError if that cannot be opened."""
    fd = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)
