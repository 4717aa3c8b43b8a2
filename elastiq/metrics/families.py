"""The metrics: their names, types and labels, and the text that Prometheus reads.

Pure. Every family is declared here once. `elastiq.metrics.values` fills them, and both ways out use what it makes:
`elastiqctl metrics` (`text`, which needs no library) and the TCP port (`elastiq.metrics.port`, by prometheus-client).
The table of docs/metrics.md, the alert rules and the dashboard are checked against the declarations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence, Union

GAUGE, COUNTER, HISTOGRAM, SUMMARY = "gauge", "counter", "histogram", "summary"


@dataclass(frozen=True)
class Family:
    """One metric. ``kept``: its count goes on after a restart of elastiq; others begin at 0 with it."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    kept: bool = False


def _family(kind: str, name: str, labels: str, help_: str, kept: bool = False) -> Family:
    return Family(f"elastiq_{name}", kind, help_, tuple(labels.split()), kept)


FAMILIES: Mapping[str, Family] = {
    one.name: one
    for one in (
        # What runs, and whether it decides.
        _family(GAUGE, "build_info", "version python", "Always 1; what runs, by its labels."),
        _family(GAUGE, "cluster_info", "cluster head", "Always 1; whose it is: cluster_name and the head node's id."),
        _family(GAUGE, "state", "state", "1 for the state that elastiq is in, 0 for the others."),
        _family(GAUGE, "act_allowed", "act", "0 while a person wants none: [elastiq] keys, pause, or a dry run."),
        _family(GAUGE, "published_timestamp_seconds", "", "When the decision loop last published these values."),
        _family(HISTOGRAM, "loop_lag_seconds", "", "How late the decision loop came to its timer, each 10 s."),
        _family(GAUGE, "last_plan_timestamp_seconds", "", "When the last plan was made."),
        _family(GAUGE, "last_action_timestamp_seconds", "", "When the last plan was made that did something."),
        _family(GAUGE, "notices", "", "Things that a person should know now: elastiqctl status says them."),
        # What is read.
        _family(GAUGE, "observation_known", "source site", "1 if the last read can be decided by."),
        _family(GAUGE, "observation_age_seconds", "source site", "How long ago the last good read began."),
        _family(GAUGE, "observation_failures", "source site", "Reads that failed since the last good one."),
        _family(GAUGE, "queue_complete", "", "0 if a part of the queue did not answer: its counts are a lower bound."),
        _family(GAUGE, "workers_settled", "", "1 if the view of the workers can be believed to be complete."),
        # Jobs.
        _family(GAUGE, "jobs_waiting", "pool reason", "Jobs that wait, by what serves them or why nothing does."),
        _family(GAUGE, "jobs_running", "pool", "Jobs that run on elastiq's machines."),
        _family(HISTOGRAM, "job_wait_seconds", "", "How long jobs waited, as the reads of the queue show it."),
        # Machines.
        _family(GAUGE, "nodes", "pool state", "Machines, from the launch to the confirmed end."),
        _family(GAUGE, "nodes_counted", "", "What counts against max_vms."),
        _family(GAUGE, "nodes_max", "", "max_vms of the cluster, as it holds now; absent if unlimited."),
        _family(GAUGE, "nodes_min", "", "min_vms of the cluster, as it holds now."),
        _family(GAUGE, "pool_nodes_max", "pool", "max_vms of the pool, as it holds now; absent if it has none."),
        _family(GAUGE, "pool_nodes_min", "pool", "min_vms of the pool, as it holds now."),
        _family(GAUGE, "pool_drained", "pool", "1 if elastiqctl drain-pool took the pool out of service."),
        _family(GAUGE, "pool_failed_boots", "pool", "Boots in a row that never joined."),
        _family(GAUGE, "pool_breaker_open", "pool", "1 if the pool gets one machine at a time until one joins."),
        _family(GAUGE, "pool_offers", "pool", "Choices of flavour, network and market that the pool has."),
        _family(GAUGE, "pool_offers_held_back", "pool", "Those of them not asked for now, since a launch failed."),
        _family(GAUGE, "strangers", "", "Workers that are no machine of elastiq's and not in static_workers."),
        _family(GAUGE, "foreign_instances", "site", "Instances of the account that are not this cluster's."),
        _family(GAUGE, "other_heads_instances", "site", "Instances that other head nodes launched for this cluster."),
        _family(GAUGE, "launches_unknown", "", "Launches of unknown outcome, whose machines are being looked for."),
        # What became of them.
        _family(COUNTER, "launches_asked_total", "pool", "Machines asked for.", True),
        _family(COUNTER, "launches_total", "pool", "Machines that the cloud made.", True),
        _family(COUNTER, "terminations_total", "pool before", "Machines that ended, by their state before.", True),
        _family(COUNTER, "stops_total", "pool", "Stops of machines.", True),
        _family(COUNTER, "starts_total", "pool", "Starts of stopped machines.", True),
        _family(COUNTER, "failures_total", "pool kind", "Machines that were not made, joined, or kept.", True),
        _family(HISTOGRAM, "boot_seconds", "pool", "From the launch, or the start, until it joined.", True),
        _family(HISTOGRAM, "lifetime_seconds", "pool", "From the launch to the confirmed end.", True),
        # Money.
        _family(COUNTER, "machine_seconds_total", "pool", "Time for which machines were there; / 3600: hours.", True),
        _family(COUNTER, "cost_total", "pool", "What they cost, by the key price; without one nothing.", True),
        _family(GAUGE, "cost_per_hour", "pool", "What the machines that are there cost an hour, by the key price."),
        _family(GAUGE, "limit_used", "limit", "What is used of a limit of launches or cost."),
        _family(GAUGE, "limit_left", "limit", "What is left of it."),
        # Calls and faults.
        _family(COUNTER, "calls_total", "source site operation", "Calls to the batch system and the clouds."),
        _family(COUNTER, "call_errors_total", "source site operation error", "Those that failed, by the error."),
        _family(SUMMARY, "call_duration_seconds", "source site operation", "How long they took."),
        _family(COUNTER, "api_requests_total", "site operation", "Requests to a cloud's API, with repetitions."),
        _family(COUNTER, "api_errors_total", "site operation code", "Answers that were errors, by the cloud's code."),
        _family(COUNTER, "errors_total", "kind", "What went wrong, by what it was."),
        _family(GAUGE, "store_writable", "", "0 while the state cannot be written: nothing is launched then."),
        _family(COUNTER, "log_failures_total", "", "Records that the log could not take."),
    )
}
# These have the names that Prometheus' own client libraries give them.
for _one in (
    Family("process_cpu_seconds_total", COUNTER, "Total user and system CPU time spent in seconds."),
    Family("process_resident_memory_bytes", GAUGE, "Resident memory size in bytes."),
    Family("process_start_time_seconds", GAUGE, "Start time of the process since unix epoch in seconds."),
    Family("process_open_fds", GAUGE, "Number of open file descriptors."),
):
    FAMILIES = {**FAMILIES, _one.name: _one}


class Histogram:
    """Counts by upper bounds, which are seconds, and the sum. The last count is of what is above all of them."""

    def __init__(self, bounds: Sequence[float], counts: Sequence[int] = (), total: float = 0.0) -> None:
        self.bounds, self.counts, self.total = tuple(bounds), list(counts) or [0] * (len(bounds) + 1), total

    def observe(self, value: float, count: int = 1) -> None:
        place = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[place] += count
        self.total += value * count

    def copy(self) -> Histogram:
        return Histogram(self.bounds, self.counts, self.total)


@dataclass(frozen=True)
class Summary:
    """A count and a sum."""

    count: int
    total: float


# Of each family its values, by those of its labels in their order.
Value = Union[float, Histogram, Summary]
Rows = Mapping[tuple[str, ...], Value]
Values = Mapping[str, Rows]
Sample = tuple[str, dict[str, str], float]


def samples(family: Family, values: Rows) -> Iterator[Sample]:
    """The lines of a family: name, labels, value."""
    for names, value in sorted(values.items()):
        labels = dict(zip(family.labels, names))
        if isinstance(value, Summary):
            yield f"{family.name}_count", labels, value.count
            yield f"{family.name}_sum", labels, value.total
        elif isinstance(value, Histogram):
            so_far = 0
            for bound, count in zip((*value.bounds, math.inf), value.counts):
                so_far += count
                yield f"{family.name}_bucket", {**labels, "le": number(bound)}, so_far
            yield f"{family.name}_count", labels, so_far
            yield f"{family.name}_sum", labels, value.total
        else:
            yield family.name, labels, value


def text(values: Values) -> str:
    """Prometheus' text format, version 0.0.4 (prometheus.io, "Exposition formats"); families without a value are
    left out."""
    lines: list[str] = []
    for name, family in FAMILIES.items():
        if name in values:
            lines += [f"# HELP {name} {_escaped(family.help)}", f"# TYPE {name} {family.kind}"]
            for sample, labels, value in samples(family, values[name]):
                shown = ",".join(f'{key}="{_quoted(said)}"' for key, said in labels.items())
                lines.append(f"{sample}{{{shown}}} {number(value)}" if shown else f"{sample} {number(value)}")
    return "\n".join(lines) + "\n"


def objects(values: Values) -> list[dict[str, Any]]:
    """The same for programs that read JSON; what is no number there (infinity) is a text."""
    return [
        {
            "name": name,
            "type": family.kind,
            "help": family.help,
            "samples": [
                {"name": sample, "labels": labels, "value": value if math.isfinite(value) else number(value)}
                for sample, labels, value in samples(family, values[name])
            ],
        }
        for name, family in FAMILIES.items()
        if name in values
    ]


def number(value: float) -> str:
    """As Go's strconv reads it."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(float(value))


def _escaped(said: str) -> str:
    return said.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(said: str) -> str:
    return _escaped(said).replace('"', '\\"')
