#!/usr/bin/env python3
"""Resident memory of an EC2 client: Python alone, boto3's stock client, and elastiq's.

    python3 benchmarks/memory.py

Each is measured in a process of its own, after one request to an address where nobody listens. The
figures are MB of resident memory (VmRSS of /proc/self/status).
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

GOAL_MB = 40

_RSS = """
def rss():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1000 for line in status if line.startswith("VmRSS:"))
"""
_NOWHERE = 'api_url="http://127.0.0.1:9", region="eu-west-1", aws_access_key_id="A", aws_secret_access_key="S"'
PROGRAMS = {
    "python": "",
    "python + boto3's stock client": """
import boto3, botocore.config, botocore.exceptions
once = botocore.config.Config(retries={"total_max_attempts": 1, "mode": "standard"})
client = boto3.client("ec2", region_name="eu-west-1", endpoint_url="http://127.0.0.1:9", config=once,
                      aws_access_key_id="A", aws_secret_access_key="S")
try:
    client.describe_instances()
except botocore.exceptions.EndpointConnectionError:
    pass
""",
    "python + elastiq's client": f"""
from elastiq.plugins.cloud.ec2_client import EC2Client
from elastiq.plugins.cloud.ec2_errors import Fault
client = EC2Client(dict({_NOWHERE}, connect_timeout_s=1.0, read_timeout_s=1.0))
for operation in ("describe_instances", "run_instances"):
    try:
        client.call(operation, **(dict(MinCount=1, MaxCount=1) if operation == "run_instances" else {{}}))
    except Fault as fault:
        assert fault.code == "EndpointConnectionError", fault
""",
    "python + elastiq's whole EC2 plugin": f"""
from elastiq.interfaces import Owner, Pool, SourceError
from elastiq.plugins.cloud.ec2 import EC2Cloud
values = {{option.name: option.default for option in EC2Cloud.OPTIONS}}
values.update({_NOWHERE}, image_id="ami-1", connect_timeout_s=1.0)
cloud = EC2Cloud.from_config((Pool("ec2", "site", ("m5.large",), options=values),), Owner("c", "h"))
try:
    cloud.instances(frozenset())
except SourceError:
    pass
""",
}


def measured(program: str) -> float:
    """MB of resident memory of a fresh interpreter after it ran the program."""
    root = str(Path(__file__).resolve().parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "AWS_CONFIG_FILE": os.devnull}
    code = _RSS + program + "\nprint(rss())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    return float(done.stdout.split()[-1])


def machine() -> str:
    """The machine that the figures are of."""
    with open("/proc/cpuinfo") as cpus:
        model = next((line.split(":", 1)[1].strip() for line in cpus if line.startswith("model name")), "")
    return f"{model or platform.machine()}, {os.cpu_count()} cores, Linux {platform.release()}"


def main() -> int:
    from importlib.metadata import version

    print(f"{machine()}; Python {platform.python_version()}, boto3 {version('boto3')}")
    figures = {name: measured(program) for name, program in PROGRAMS.items()}
    stock = figures["python + boto3's stock client"]
    for name, megabytes in figures.items():
        print(f"{megabytes:6.1f} MB  {megabytes / stock:4.2f} of stock  {name}")
    ours = figures["python + elastiq's client"]
    verdict = "reached" if ours <= GOAL_MB else "MISSED"
    print(f"goal: python + client at most {GOAL_MB} MB: {verdict}")
    return 0 if ours <= GOAL_MB else 1


if __name__ == "__main__":
    sys.exit(main())
