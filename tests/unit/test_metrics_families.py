"""The text of the metrics is Prometheus', and prometheus-client says the same of the same values."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from elastiq.metrics.families import COUNTER, FAMILIES, GAUGE, HISTOGRAM, SUMMARY, Histogram, Summary, Values, text
from elastiq.metrics.port import Collector

ODD = 'a "pool"\\ with\nlines'


def a_histogram() -> Histogram:
    made = Histogram((0.5, 60))
    for seconds in (0.5, 7, 60, 61):
        made.observe(seconds)
    return made


def everything() -> Values:
    """A value for every family; every label has a value that must be escaped."""
    by_kind: dict[str, Any] = {GAUGE: 1.5, COUNTER: 3.0, HISTOGRAM: a_histogram(), SUMMARY: Summary(2, 0.25)}
    return {name: {(ODD,) * len(one.labels): by_kind[one.kind]} for name, one in FAMILIES.items()}


def parsed(exposition: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def test_prometheus_reads_what_is_written_of_every_family() -> None:
    found = {one.name: one for one in text_string_to_metric_families(text(everything()))}
    assert len(found) == len(FAMILIES)
    for name, declared in FAMILIES.items():
        family = found[name[: -len("_total")] if declared.kind == COUNTER else name]
        assert (family.type, family.documentation) == (declared.kind, declared.help)
        for sample in family.samples:
            assert {*sample.labels} - {"le"} == {*declared.labels}
            assert {value for key, value in sample.labels.items() if key != "le"} <= {ODD}


def test_the_port_says_exactly_what_the_command_says() -> None:
    registry = CollectorRegistry()
    registry.register(Collector(everything))
    assert parsed(generate_latest(registry).decode()) == parsed(text(everything()))


def test_a_histogram_counts_upwards_to_infinity() -> None:
    lines = text({"elastiq_job_wait_seconds": {(): a_histogram()}}).splitlines()[2:]
    assert lines == [
        'elastiq_job_wait_seconds_bucket{le="0.5"} 1.0',
        'elastiq_job_wait_seconds_bucket{le="60.0"} 3.0',
        'elastiq_job_wait_seconds_bucket{le="+Inf"} 4.0',
        "elastiq_job_wait_seconds_count 4.0",
        "elastiq_job_wait_seconds_sum 128.5",
    ]


@pytest.mark.parametrize(("value", "shown"), [(math.inf, "+Inf"), (-math.inf, "-Inf"), (math.nan, "NaN"), (3, "3.0")])
def test_numbers_are_written_as_go_reads_them(value: float, shown: str) -> None:
    assert text({"elastiq_notices": {(): value}}).splitlines()[-1] == f"elastiq_notices {shown}"


def test_what_has_no_value_is_left_out() -> None:
    assert text({"elastiq_notices": {(): 0.0}}).count("# TYPE") == 1


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_names_follow_prometheus_conventions(name: str) -> None:
    """As `promtool check metrics` has them, which the end-to-end tier asks."""
    family = FAMILIES[name]
    assert re.fullmatch(r"(elastiq|process)_[a-z]+(_[a-z]+)*", name)
    assert name.endswith("_total") == (family.kind == COUNTER)
    assert not re.search(r"_(minutes|hours|days|ms|mb|gauge|counter|histogram)(_|$)", name), "base units only"
    assert not name.endswith(("_count", "_sum", "_bucket")), "these belong to histograms"
    assert family.help.endswith(".") and len(family.help) <= 90
    assert not {"le", "quantile", "job", "instance"} & {*family.labels}, "Prometheus gives these itself"
