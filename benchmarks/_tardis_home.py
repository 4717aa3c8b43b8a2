"""Where a Python is that has COBalD/TARDIS: one that is named, or a temporary environment into which pip puts it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, Optional

PACKAGE = "cobald-tardis"
INSTALL_S = 600.0


@contextlib.contextmanager
def tardis_python(given: Optional[str], unwanted: bool) -> Iterator[tuple[Optional[str], str]]:
    """Its path and TARDIS's version; else None and why there is none."""
    if unwanted:
        yield None, "as asked for"
        return
    if given is not None:
        version = _version(given)
        yield (given, version) if version else (None, f"{given} has no {PACKAGE}")
        return
    with tempfile.TemporaryDirectory(prefix="elastiq-tardis-") as folder:
        python = str(Path(folder, "bin", "python"))
        print(f"pip installs {PACKAGE} into a temporary environment; --tardis PYTHON names one that has it", flush=True)
        try:
            _run(sys.executable, "-m", "venv", folder)
            _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", PACKAGE)
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            yield None, f"{PACKAGE} cannot be installed: {said[-1] if said else error}"
            return
        yield python, _version(python) or "?"


def _run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=INSTALL_S).stdout


def _version(python: str) -> str:
    """An empty string where there is none."""
    code = f"from importlib.metadata import version; print(version('{PACKAGE}'))"
    try:
        return _run(python, "-c", code).strip()
    except (OSError, subprocess.SubprocessError):
        return ""
