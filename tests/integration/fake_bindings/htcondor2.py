"""HTCondor's bindings over the fake commands of `fake_htcondor`, as far as the helper process uses them.

It is found before the real module by PYTHONPATH, and finds the commands by PATH.
"""

from __future__ import annotations

import enum
import json
import subprocess
from typing import Any, Optional, Sequence


class AdTypes(enum.Enum):
    Any = "-any"
    Schedd = "-schedd"
    Startd = ""


class DaemonTypes(enum.Enum):
    Schedd = "schedd"


class QueryOpts(enum.Enum):
    Default = 0
    GroupBy = 1


class HTCondorException(Exception):
    pass


class Ad(dict[str, Any]):
    raw = ""

    def printJson(self) -> str:
        return self.raw or json.dumps(self, indent=1)


def version() -> str:
    return "$CondorVersion: 99.1 2026-01-01 $"


def reload_config() -> None:
    pass


def told(tool: str, pool: Optional[str], *args: str) -> list[Ad]:
    pool_args = ("-pool", pool) if pool else ()
    done = subprocess.run([tool, *pool_args, *args], capture_output=True)
    if done.returncode:
        raise HTCondorException(done.stderr.decode())
    text = done.stdout.decode("utf-8", errors="replace")
    try:
        return [Ad(row) for row in json.loads(text or "[]")]
    except ValueError:
        nonsense = Ad()
        nonsense.raw = text
        return [nonsense]


class Collector:
    def __init__(self, pool: Optional[str] = None) -> None:
        self.pool = pool

    def locate(self, kind: DaemonTypes, name: str = "") -> Optional[Ad]:
        return Ad(Name=name, Pool=self.pool)

    def query(self, kind: AdTypes, constraint: str, projection: Sequence[str]) -> list[Ad]:
        which = [kind.value] if kind.value else []
        attributes = ["-attributes", ",".join(projection)] if projection else []
        return told("condor_status", self.pool, *which, "-json", *attributes, "-constraint", constraint)


class Schedd:
    def __init__(self, where: Ad) -> None:
        self.where = where

    def query(self, constraint: str, projection: Sequence[str], opts: QueryOpts) -> list[Ad]:
        name = ["-name", self.where["Name"]] if self.where["Name"] else []
        grouped = ["-group-by"] if opts is QueryOpts.GroupBy else []
        attributes = ["-attributes", ",".join(projection)] if projection else []
        args = [*name, "-allusers", *grouped, *attributes, "-json", "-constraint", constraint]
        return told("condor_q", self.where["Pool"], *args)
