"""Whether the service can read what its configuration names: asked before it is stopped, in a process that becomes its
user, since root reads everything and cannot come back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Optional

from elastiq import config
from elastiq.cli import service_user
from elastiq.exits import readable_by
from elastiq.paths import Paths

LIMIT_S = 60.0


def problems(file: Path) -> list[str]:
    """What is wrong with the configuration for the service's user, a line each; empty where that cannot be told, since
    the service then tells it itself."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    argv = [sys.executable, "-m", "elastiq.cli.as_service", str(file)]
    try:
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    found: list[str] = json.loads(done.stdout) if done.returncode == 0 else []
    return found


def look(file: Path) -> Optional[list[str]]:
    """The same in this process, which becomes that user for good; None if it cannot become him."""
    try:
        service_user.become(Paths.of(str(file)), None, True)
    except LookupError:  # no such user: systemd says so
        return None
    try:
        config.load(file)
    except config.ConfigError as error:
        return readable_by(error.problems)
    return []


if __name__ == "__main__":
    print(json.dumps(look(Path(sys.argv[1])) or []))
