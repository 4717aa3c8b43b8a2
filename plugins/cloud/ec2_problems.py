"""What DescribeInstanceStatus holds against an instance. Imported once it holds something against one. Pure."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

_ENDING_EVENTS = ("instance-retirement", "instance-stop")


def problems(rows: Iterable[Mapping[str, Any]], ids: Iterable[str]) -> dict[str, str]:
    """What is held against each of these instances that has something against it."""
    found = {row.get("InstanceId"): problem(row) for row in rows}
    return {key: found[key] for key in ids if found.get(key)}


def problem(row: Mapping[str, Any]) -> str:
    """What DescribeInstanceStatus holds against an instance, empty for nothing."""
    found = []
    for key, label in (("SystemStatus", "system"), ("InstanceStatus", "instance")):
        status = row.get(key) or {}
        if status.get("Status") == "impaired":
            failed = [one.get("Name") for one in status.get("Details") or () if one.get("Status") == "failed"]
            found.append(f"{label} status impaired" + (f" ({', '.join(map(str, failed))})" if failed else ""))
    for event in row.get("Events") or ():
        text = str(event.get("Description") or "")
        if event.get("Code") in _ENDING_EVENTS and not text.startswith(("[Completed]", "[Canceled]")):
            found.append(" ".join(f"{event['Code']} scheduled: {text}".split()).rstrip(": "))
    return "; ".join(found)
