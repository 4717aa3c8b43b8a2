"""Packs the clean source tree that it is in: `python packaging/make WORK OUT --epoch N [--commit ID] [--format deb]`.

`packaging/build` calls it with an interpreter that has what requirements.txt names; WORK is an empty directory.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE), str(SOURCE / "packaging")]

import changes  # noqa: E402
import tree  # noqa: E402
import version  # noqa: E402

from elastiq import __version__  # noqa: E402

MAINTAINER = "elastiq developers <elastiq@example.org>"
SUMMARY = "launch and end cloud machines as a batch queue needs them"
DESCRIPTION = """\
A daemon for the head node of a virtual cluster. When jobs wait in the batch
queue (HTCondor, Slurm, Grid Engine, PBS, Celery), it launches machines through
the EC2 API of a cloud; when machines stay idle, it drains and ends them. It
stays inside the limits that are set, and ends no machine that runs a job."""
# The names are explained in packaging/README.md.
RELATIONS: dict[str, dict[str, list[str]]] = {
    "deb": {
        "depends": ["python3 (>= 3.9)", "python3-boto3", "python3-pythonjsonlogger", "systemd"],
        # Recommended, one of these would bring a second batch system to the head node of another.
        "suggests": [
            *("condor | htcondor", "slurm-client", "gridengine-client", "python3-kombu", "python3-redis"),
            "python3-prometheus-client",
        ],
    },
    "rpm": {
        "depends": ["/usr/bin/python3", "python3 >= 3.9", "python3dist(boto3)", "systemd", "diffutils"],
        "recommends": ["python3dist(python-json-logger)"],
        "suggests": [*("python3-condor", "python3dist(kombu)", "python3dist(redis)"), "python3dist(prometheus-client)"],
    },
}
SCRIPTS = {
    "deb": {"postinstall": "postinst", "preremove": "prerm", "postremove": "postrm"},
    "rpm": {"preinstall": "pre", "postinstall": "post", "preremove": "preun", "postremove": "postun"},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--epoch", type=int, required=True)
    parser.add_argument("--commit", default="")
    parser.add_argument("--format", choices=tree.FORMATS, action="append")
    args = parser.parse_args()
    os.umask(0o022)
    wheel = tree.build_wheel(SOURCE, args.work)
    named = version.packaged(__version__, args.epoch, args.commit)
    log = changes.entries(SOURCE / "CHANGELOG.md", named, args.epoch, MAINTAINER)
    (args.work / "changelog.json").write_text(json.dumps(log))
    for kind in args.format or tree.FORMATS:
        filled = tree.Tree(SOURCE, args.work, kind, args.epoch)
        tree.fill(filled, wheel, _time(args.epoch)[:10], changes.debian(log))
        path = args.work / f"{kind}.json"
        path.write_text(json.dumps(_configuration(kind, named, args.epoch, filled.contents, args.work)))
        nfpm = Path(sys.executable).parent / "nfpm"
        command = [nfpm, "package", "--config", path, "--packager", kind, "--target", f"{args.out}/"]
        done = subprocess.run(command, capture_output=True, text=True, env={"SOURCE_DATE_EPOCH": str(args.epoch)})
        if done.returncode != 0:
            print(f"packaging/build: nfpm: {(done.stderr or done.stdout).strip()}", file=sys.stderr)
            return 1
    return 0


def _time(epoch: int) -> str:
    return datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _configuration(kind: str, named: str, epoch: int, contents: list[dict[str, Any]], work: Path) -> dict[str, Any]:
    """What nfpm reads; JSON is YAML."""
    of_rpm = {
        "summary": SUMMARY[0].upper() + SUMMARY[1:],
        "group": "System Environment/Daemons",
        "buildhost": "localhost",
        "compression": "gzip",
        "scripts": {"posttrans": str(_script("rpm", "posttrans", work))},
    }
    return {
        "name": "elastiq",
        "arch": "all",
        "platform": "linux",
        "version_schema": "none",
        "version": named,
        "release": "1",
        "section": "admin",
        "priority": "optional",
        "maintainer": MAINTAINER,
        "description": f"{SUMMARY}\n{DESCRIPTION}" if kind == "deb" else DESCRIPTION,
        "license": "Apache-2.0",
        # nfpm's Debian changelog has lines of any length: that one is among the contents.
        **({"changelog": str(work / "changelog.json"), "rpm": of_rpm} if kind == "rpm" else {}),
        "mtime": _time(epoch),
        "disable_globbing": True,
        **RELATIONS[kind],
        "scripts": {name: str(_script(kind, file, work)) for name, file in SCRIPTS[kind].items()},
        "contents": contents,
    }


def _script(kind: str, name: str, work: Path) -> Path:
    text = (SOURCE / "packaging" / kind / name).read_text()
    users = (SOURCE / "systemd/elastiq.sysusers").read_text()
    path = work / f"{kind}.{name}"
    path.write_text(text.replace("@SYSUSERS@\n", users))
    os.utime(path, (0, 0))
    return path


if __name__ == "__main__":
    sys.exit(main())
