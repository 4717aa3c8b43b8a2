"""Metrics, alert rules and the dashboard under Prometheus itself: its tool, and a server that scrapes a daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Mapping, Sequence

import pytest

from tests.e2e.rig import places
from tests.ec2_server import error
from tests.integration.test_metrics import Bench, bench
from tests.unit.test_docs_metrics import ALERTS, queries
from tests.unit.test_metrics_families import everything
from tests.waiting import PATIENCE_S, free_port, until

__all__ = ["bench"]  # a fixture

RULES = places.REPOSITORY / "packaging" / "prometheus" / "alerts.yml"
HEAD = 'instance="head"'


def tool(name: str) -> str:
    """Of Debian's package `prometheus`."""
    found = shutil.which(name)
    if found is None:
        text = f"there is no {name} here: apt-get install prometheus"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    return found


def promtool(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool("promtool"), *words], input=given, capture_output=True, text=True, timeout=PATIENCE_S)


# --------------------------------------------------------------------------- promtool


def test_names_and_types_please_promtool() -> None:
    from elastiq.metrics.families import text

    done = promtool("check", "metrics", given=text(everything()))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_promtool_can_read_the_rules() -> None:
    done = promtool("check", "rules", str(RULES))
    assert done.returncode == 0 and f"SUCCESS: {ALERTS.count('- alert:')} rules found" in done.stdout, done.stderr


def test_promtool_can_read_every_query_of_the_dashboard(tmp_path: Path) -> None:
    rules = [{"record": f"q{number}", "expr": concrete(query)} for number, (_, query) in enumerate(panels())]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = promtool("check", "rules", str(path))
    assert done.returncode == 0 and f"SUCCESS: {len(rules)} rules found" in done.stdout, done.stderr


def panels() -> list[tuple[str, str]]:
    return [(where, query) for where, query in queries() if not where.startswith(("alert", "variable"))]


def concrete(query: str) -> str:
    """As Grafana sends it."""
    return query.replace("$__rate_interval", "1m").replace("$instance", ".*").replace("$pool", ".*")


# alert -> series with which it fires, when (minutes), and the same series changed so that it does not
Series = Mapping[str, str]
FIRES: Mapping[str, tuple[Series, int, Series]] = {
    "ElastiqDown": ({'up{job="elastiq", instance="head"}': "0x20"}, 6, {'up{job="elastiq", instance="head"}': "1x20"}),
    "ElastiqLoopStuck": (
        {f"elastiq_published_timestamp_seconds{{{HEAD}}}": "0x20"},
        5,
        {f"elastiq_published_timestamp_seconds{{{HEAD}}}": "0+60x20"},
    ),
    "ElastiqLoopLate": (
        {f'elastiq_loop_lag_seconds_bucket{{{HEAD}, le="2"}}': "0x60",
         f'elastiq_loop_lag_seconds_bucket{{{HEAD}, le="5"}}': "0+6x60",
         f'elastiq_loop_lag_seconds_bucket{{{HEAD}, le="+Inf"}}': "0+6x60"},
        40,
        {f'elastiq_loop_lag_seconds_bucket{{{HEAD}, le="2"}}': "0+6x60"},
    ),
    "ElastiqFaults": (
        {f'elastiq_errors_total{{{HEAD}, kind="handler_fault"}}': "0 0 1 1 1 1"},
        5,
        {f'elastiq_errors_total{{{HEAD}, kind="handler_fault"}}': "1x10"},
    ),
    "ElastiqObservationStale": (
        {f'elastiq_observation_known{{{HEAD}, source="queue", site=""}}': "1 0x20"},
        15,
        {f'elastiq_observation_known{{{HEAD}, source="queue", site=""}}': "0x8 1 0x20"},
    ),
    "ElastiqNothingEnds": (
        {f"elastiq_workers_settled{{{HEAD}}}": "1 0x70", f"elastiq_queue_complete{{{HEAD}}}": "1x80"},
        70,
        {f"elastiq_workers_settled{{{HEAD}}}": "0x50 1 0x20"},
    ),
    "ElastiqEndsFailing": (
        {f'elastiq_errors_total{{{HEAD}, kind="terminate"}}': "0+1x60"},
        40,
        {f'elastiq_errors_total{{{HEAD}, kind="terminate"}}': "0 1 2 3x60"},
    ),
    "ElastiqLaunchesFailing": (
        {f'elastiq_errors_total{{{HEAD}, kind="launch"}}': "0+1x60"},
        40,
        {f'elastiq_errors_total{{{HEAD}, kind="launch"}}': "0 1 2 3x60"},
    ),
    "ElastiqBootsFailing": (
        {f'elastiq_failures_total{{{HEAD}, pool="ec2", kind="boot"}}': "0 1 2 3 4 4 4"},
        6,
        {f'elastiq_failures_total{{{HEAD}, pool="ec2", kind="boot"}}': "0 1 1 1 1 1 1"},
    ),
    "ElastiqBreakerOpen": (
        {f'elastiq_pool_breaker_open{{{HEAD}, pool="ec2"}}': "1x30"},
        20,
        {f'elastiq_pool_breaker_open{{{HEAD}, pool="ec2"}}': "0x30"},
    ),
    "ElastiqMachinesLost": (
        {f'elastiq_failures_total{{{HEAD}, pool="ec2", kind="lost"}}': "0 1 2 3 4 4 4"},
        6,
        {f'elastiq_failures_total{{{HEAD}, pool="ec2", kind="lost"}}': "0 1 1 1 1 1 1"},
    ),
    "ElastiqCapReached": (
        {f'elastiq_jobs_waiting{{{HEAD}, pool="", reason="limit"}}': "4x60"},
        40,
        {f'elastiq_jobs_waiting{{{HEAD}, pool="", reason="limit"}}': "0x60"},
    ),
    "ElastiqCostLimitNear": (
        {f'elastiq_limit_left{{{HEAD}, limit="max_cost_per_day"}}': "5x20",
         f'elastiq_limit_used{{{HEAD}, limit="max_cost_per_day"}}': "95x20"},
        10,
        {f'elastiq_limit_left{{{HEAD}, limit="max_cost_per_day"}}': "50x20"},
    ),
    "ElastiqJobsWaitLong": (
        {f'elastiq_jobs_waiting{{{HEAD}, pool="", reason="unmatchable"}}': "1x80"},
        70,
        {f'elastiq_jobs_waiting{{{HEAD}, pool="", reason="unmatchable"}}': "1x50 0x30"},
    ),
    "ElastiqStrangers": (
        {f"elastiq_strangers{{{HEAD}}}": "1x60", f'elastiq_other_heads_instances{{{HEAD}, site="aws"}}': "0x60"},
        40,
        {f"elastiq_strangers{{{HEAD}}}": "0x60"},
    ),
    "ElastiqStoreNotWritable": (
        {f"elastiq_store_writable{{{HEAD}}}": "0x10"},
        5,
        {f"elastiq_store_writable{{{HEAD}}}": "1x10"},
    ),
    "ElastiqPausedLong": (
        {f'elastiq_act_allowed{{{HEAD}, act="launch"}}': "0x300"},
        250,
        {f'elastiq_act_allowed{{{HEAD}, act="launch"}}': "0x200 1 0x100"},
    ),
    "ElastiqHooksFailing": (
        {f'elastiq_errors_total{{{HEAD}, kind="hook"}}': "0+1x10"},
        10,
        {f'elastiq_errors_total{{{HEAD}, kind="hook"}}': "5x10"},
    ),
}  # fmt: skip


def test_every_alert_is_tried() -> None:
    assert [*FIRES] == re.findall(r"- alert: (\w+)", ALERTS)


def unit_test(series: Series, minutes: int, firing: Sequence[str]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minutes}m",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing],
            }
        ],
    }


def test_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    tests = []
    for name, (series, minutes, calm) in FIRES.items():
        tests += [unit_test(series, minutes, [name]), unit_test({**series, **calm}, minutes, [])]
    tests.append(
        {
            "interval": "1m",
            "input_series": [{"series": f"elastiq_published_timestamp_seconds{{{HEAD}}}", "values": "0x20"}],
            "alert_rule_test": [
                {
                    "alertname": "ElastiqLoopStuck",
                    "eval_time": "5m",
                    "exp_alerts": [
                        {
                            "exp_labels": {"severity": "critical", "instance": "head"},
                            "exp_annotations": {
                                "summary": "elastiq on head decides nothing any more",
                                "description": "Its decision loop has published nothing for 5m 0s: it hangs.",
                            },
                        }
                    ],
                }
            ],
        }
    )
    path = tmp_path / "test.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


# --------------------------------------------------------------------------- a server


class Prometheus:
    def __init__(self, path: Path, target: str) -> None:
        self.port = free_port()
        configuration = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "elastiq", "static_configs": [{"targets": [target]}]}],
        }
        (path / "prometheus.yml").write_text(json.dumps(configuration))
        self.log = path / "prometheus.log"
        words = [f"--config.file={path / 'prometheus.yml'}", f"--storage.tsdb.path={path / 'data'}",
                 f"--web.listen-address=127.0.0.1:{self.port}"]  # fmt: skip
        with self.log.open("w") as log:
            self.process = subprocess.Popen([tool("prometheus"), *words], stdout=log, stderr=log)

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]

    def value(self, query: str) -> list[Any]:
        found: list[Any] = self.ask("query", query=query)["result"]
        return found

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE_S)


def _up(prometheus: Prometheus) -> bool:
    try:
        return bool(prometheus.value('up{job="elastiq"} == 1'))
    except OSError:
        return False


def test_a_server_scrapes_a_daemon_and_answers_the_dashboard(bench: Bench, tmp_path: Path) -> None:
    target = f"127.0.0.1:{free_port()}"
    bench.ec2.script("RunInstances", error("InsufficientInstanceCapacity", "no more of this"))
    bench.pool.submit(4, RequestCpus=1)
    bench.start(f"[metrics]\nlisten = {target}\n")
    prometheus = Prometheus(tmp_path, target)
    try:
        until(lambda: _up(prometheus))
        until(lambda: len(bench.instances()) == 1)
        bench.become_workers(busy=1)
        until(lambda: prometheus.value('elastiq_nodes{pool="ec2", state="busy"} == 1'))
        bench.pool.submit(1, RequestCpus=64)
        until(lambda: prometheus.value('elastiq_jobs_waiting{reason="unmatchable"} == 1'))
        rules = until(lambda: _evaluated(prometheus))
        assert {rule["name"]: rule["health"] for rule in rules} == dict.fromkeys(FIRES, "ok")
        until(lambda: prometheus.value('ALERTS{alertname="ElastiqJobsWaitLong", alertstate="pending"}'))
        assert {alert["metric"]["alertname"] for alert in prometheus.value("ALERTS")} == {"ElastiqJobsWaitLong"}
        answered = {where for where, query in panels() if prometheus.value(concrete(query))}
        assert {where for where, _ in panels()} - answered <= NOT_YET
        bench.stop()
        until(lambda: prometheus.value('ALERTS{alertname="ElastiqDown"}'))
    finally:
        prometheus.close()


# Where all of it was before the first scrape.
NOT_YET = {"Errors an hour", "Errors of clouds an hour", "Failed calls an hour", "Failures an hour"}


def _evaluated(prometheus: Prometheus) -> Any:
    (group,) = prometheus.ask("rules")["groups"]
    rules = group["rules"]
    return rules if all(rule["lastEvaluation"] > "1" for rule in rules) else None
