"""Start and stop the rig by hand: `python -m tests.e2e.rig up | down | purge | status | submit | run`."""

from __future__ import annotations

import argparse
import os
import sys

from tests.e2e.rig import client, htcondor, lifecycle, places, user
from tests.e2e.rig.process import RigError


def main() -> int:
    parser = argparse.ArgumentParser(prog="rig.sh", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="build what is missing and start everything; harmless if it runs")
    commands.add_parser("down", help="end everything: no process, no namespace, no mount is left")
    commands.add_parser("purge", help="down, and delete the rig's directory")
    commands.add_parser("reset", help="remove all jobs and instances")
    commands.add_parser("status", help="show jobs, workers and instances")
    submit = commands.add_parser("submit", help="submit sleep jobs as the job user")
    submit.add_argument("count", type=int)
    submit.add_argument("seconds", type=float)
    submit.add_argument("lines", nargs="*", help="further lines of the submit description")
    run = commands.add_parser(
        "run", help="run a command as the daemon's user in the head's network, with HTCondor's tools in PATH"
    )
    run.add_argument("argv", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    try:
        return _do(arguments)
    except RigError as error:
        print(f"rig: {error}", file=sys.stderr)
        return 1


def _do(arguments: argparse.Namespace) -> int:
    if arguments.command == "up":
        with lifecycle.alone(wait=False):
            lifecycle.up()
        print(f"up: EC2 at {places.EC2_URL}, HTCondor at {places.HUB_IP}, files in {places.base()}")
    elif arguments.command in ("down", "purge"):
        if not lifecycle.is_anothers():
            with lifecycle.alone(wait=False):
                lifecycle.down()
        if arguments.command == "purge":
            lifecycle.purge()
    elif arguments.command == "reset":
        with lifecycle.alone(wait=False):
            lifecycle.reset()
    elif arguments.command == "status":
        _status()
    elif arguments.command == "submit":
        print(htcondor.submit(arguments.count, arguments.seconds, arguments.lines))
    elif arguments.command == "run":
        argv = user.as_daemon(arguments.argv)
        os.execvp(argv[0], argv)
    return 0


def _status() -> None:
    for job in htcondor.queue("ClusterId,ProcId,JobStatus,RemoteHost"):
        print(f"job {job['ClusterId']}.{job['ProcId']} status {job['JobStatus']} {job.get('RemoteHost', '')}")
    for slot in htcondor.machines("Name,State,Activity,Cpus"):
        print(f"slot {slot['Name']} {slot['State']} {slot['Activity']} {slot['Cpus']} cpus")
    for endpoint in filter(lifecycle.serves, places.ENDPOINTS):
        for instance in client.Ec2(endpoint).instances():
            words = [instance[name] for name in ("id", "type", "state", "address", "tags")]
            print(f"{endpoint.name} instance", *words)


if __name__ == "__main__":
    sys.exit(main())
