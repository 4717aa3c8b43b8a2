"""docs/metrics.md, the alert rules and the dashboard are about the metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterator

import pytest

from elastiq.metrics.families import COUNTER, FAMILIES, HISTOGRAM, SUMMARY
from elastiq.metrics.reasons import REASONS
from elastiq.metrics.tally import KINDS
from elastiq.metrics.values import ERRORS, STATES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")
ALERTS = (ROOT / "packaging" / "prometheus" / "alerts.yml").read_text("utf-8")
DASHBOARD: dict[str, Any] = json.loads((ROOT / "packaging" / "grafana" / "elastiq.json").read_text("utf-8"))

# Every name that a query may have: of a histogram and a summary there are several.
PARTS = {HISTOGRAM: ("_bucket", "_count", "_sum"), SUMMARY: ("_count", "_sum")}
SERIES = {f"{name}{part}": one for name, one in FAMILIES.items() for part in PARTS.get(one.kind, ("",))}
ADDED = {"le", "job", "instance"}  # by histograms, and by Prometheus


def rows(header: str) -> list[list[str]]:
    """The cells of the table that begins so."""
    table = PAGE[PAGE.index(header) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def queries() -> Iterator[tuple[str, str]]:
    """Where each comes from, and the query."""
    for number, expr in enumerate(re.findall(r"(?m)^ +expr: (?:\|-?\n)?((?:.+\n)(?:(?:          ).+\n)*)", ALERTS)):
        yield f"alert {number}", expr
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["definition"]


def selectors(query: str) -> Iterator[tuple[str, list[str]]]:
    """Each metric that a query names, with the labels that it selects by."""
    for name, labels in re.findall(r"\b((?:elastiq|process)_\w+)(?:\{([^}]*)\})?", query):
        yield name, re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels)


def test_the_table_has_every_metric_as_it_is() -> None:
    table = {}
    for name, kind, labels, kept, _ in rows("| name | type | labels | kept |"):
        table[name.strip("`")] = (kind, tuple(re.findall(r"`(\w+)`", labels)), kept == "kept")
    assert table == {name: (one.kind, one.labels, one.kept) for name, one in FAMILIES.items()}


def test_the_table_of_reasons_has_every_reason() -> None:
    assert {name.strip("`") for name, _ in rows("| reason | |")} == {*REASONS}


@pytest.mark.parametrize(("name", "words"), [("failures", KINDS), ("errors", ERRORS.values())])
def test_the_values_of_a_label_are_told(name: str, words: Any) -> None:
    (text,) = (cells[4] for cells in rows("| name | type |") if cells[0] == f"`elastiq_{name}_total`")
    assert {*re.findall(r"`(\w+)`", text)} == {*words}


def test_the_states_are_those_of_the_status() -> None:
    text = (ROOT / "docs" / "status.md").read_text("utf-8")
    (row,) = re.findall(r"(?m)^\| `state` \| (`starting`.*)\|$", text)
    assert {*STATES} <= {*re.findall(r"`([\w-]+)`", row)}


def test_the_table_of_alerts_has_every_alert() -> None:
    assert [cells[0].strip("`") for cells in rows("| alert | means |")] == re.findall(r"- alert: (\w+)", ALERTS)


def test_every_query_is_about_metrics_and_labels_that_there_are() -> None:
    asked = list(queries())
    assert len(asked) >= 40
    for where, query in asked:
        named = list(selectors(query))
        assert named or "up{" in query, f"{where}: {query}"
        for name, labels in named:
            assert name in SERIES, f"{where}: {name}"
            assert {*labels} <= {*SERIES[name].labels} | ADDED, f"{where}: {name} {labels}"
        of_query = {label for name, _ in named for label in SERIES[name].labels} | ADDED
        for grouped in re.findall(r"\b(?:by|without|on|ignoring) \(([^)]*)\)", query):
            assert {*re.findall(r"\w+", grouped)} <= of_query, f"{where}: by {grouped}"


def test_counters_are_asked_for_their_rate() -> None:
    for where, query in queries():
        for name, _ in selectors(query):
            if SERIES[name].kind == COUNTER or name.endswith("_bucket"):
                pattern = rf"(rate|increase)\({name}"
                assert re.search(pattern, query) or "label_values" in query, f"{where}: {query}"


def test_values_that_queries_select_by_are_there() -> None:
    """A wrong word in a selector would select nothing, and never be noticed."""
    known = {"reason": {*REASONS}, "kind": {*KINDS, *ERRORS.values()}, "act": {"launch", "terminate"}, "state": None}
    for where, query in queries():
        for label, words in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"$]*)"', query):
            if known.get(label):
                assert {*words.split("|")} <= known[label], f"{where}: {label} {words}"  # type: ignore[operator]


def test_the_dashboard_shows_every_metric_but_those_that_say_the_same() -> None:
    shown = {name for _, query in queries() for name, _ in selectors(query)}
    left_out = {name for name, one in SERIES.items() if name not in shown and not name.endswith(("_count", "_sum"))}
    assert left_out <= {"elastiq_pool_offers", "elastiq_nodes_min", "elastiq_pool_nodes_min", "process_open_fds"}


def test_the_panels_lie_side_by_side() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        assert panel["type"] == "row" or panel["description"], panel["title"]
        taken |= cells
