"""For the tests of the configuration: files in the making, and what a bad one says."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from elastiq import config

MINIMAL = """\
[elastiq]
cluster_name = c
[ec2]
image_id = ami-1
"""


def write(directory: Path, text: str, mode: int = 0o600) -> Path:
    """A configuration file of that text."""
    path = directory / "elastiq.conf"
    path.write_bytes(textwrap.dedent(text).encode())
    path.chmod(mode)
    return path


def load(directory: Path, text: str) -> config.Loaded:
    return config.load(write(directory, text))


def problems(directory: Path, text: str) -> list[str]:
    """What is wrong with it: `LINE: ...`, without the file's name."""
    path = write(directory, text)
    with pytest.raises(config.ConfigError) as caught:
        config.load(path)
    for problem in caught.value.problems:
        assert problem.startswith(f"{path}:") and "\n" not in problem
    return [problem[len(f"{path}:") :] for problem in caught.value.problems]


def with_ec2(lines: str, head: str = "") -> str:
    """A file whose [ec2] begins at line 3, or after the lines of ``head``, with these lines two below."""
    head = f"[elastiq]\ncluster_name = c\n{textwrap.dedent(head)}"
    return f"{head}[ec2]\nimage_id = ami-1\n{textwrap.dedent(lines)}"
