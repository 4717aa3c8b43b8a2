"""An id for a machine that has none of its own: made at random once, and kept in the state directory."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

HEAD_ID_FILE = "head-id"


def kept_id(statedir: Path) -> str:
    """The id: whoever loses it loses the right to his own instances. The directory's lock keeps others from making
    one at the same time. Raises ValueError, with one line for a person."""
    path = statedir / HEAD_ID_FILE
    try:
        if not path.exists():
            part = statedir / f"{HEAD_ID_FILE}.new"
            with open(part, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(secrets.token_hex(16) + "\n")
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        text = path.read_text("ascii", errors="replace").strip()
    except OSError as error:
        why = f"this machine has no machine id, and one of our own cannot be kept: {error.strerror}"
        raise ValueError(f"{path}: {why}") from None
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise ValueError(f"{path}: does not hold an id of 32 hexadecimal digits; restore or remove it")
    return text
