"""What executables print is held against the shipped schemas, as every other reader of JSON Schema would."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.interfaces import SourceError
from elastiq.plugins.batch.command_schema import checker, document, schema

NAMES = ("jobs", "workers")
LEAVES = [
    None,
    True,
    False,
    0,
    1,
    2,
    -1,
    0.5,
    3.0,
    1e16,
    10**20,
    "",
    "w1",
    "-w",
    "a b",
    "waiting",
    "running",
    "idle",
    "x" * 300,
]


def complaint(text: str, name: str = "jobs") -> str:
    with pytest.raises(SourceError) as caught:
        document(text, name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def whole(name: str) -> Any:
    """Documents that are nearly right: known and unknown keys, with values of all kinds."""
    leaf = st.sampled_from([*LEAVES, [], {}, ["w1"], ["10.0.0.1"], [1], {"cpus": 1}, {"cpus": "1"}, {"x": 1}])
    (element,) = [rule for rule in schema(name)["$defs"].values() if {"name", "id"} & rule.get("properties", {}).keys()]
    row = st.dictionaries(st.sampled_from([*element["properties"], "memory"]), leaf, max_size=4)
    good = st.just({"name": "w1", "state": "idle"} if name == "workers" else {})
    rows = st.lists(st.one_of(leaf, row, st.builds(lambda a, b: {**a, **b}, good, row)), max_size=3)
    top = st.dictionaries(st.sampled_from([*schema(name)["properties"], "job"]), leaf, max_size=2)
    return st.one_of(leaf, st.builds(lambda a, b: {**a, name: b}, top, rows))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_that_is_shipped_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_our_verdict_is_that_of_the_schema(name: str, data: Any) -> None:
    value = data.draw(whole(name))
    ours = checker(name)(value)
    theirs = list(jsonschema.Draft202012Validator(schema(name)).iter_errors(value))
    assert bool(ours) == bool(theirs), (ours, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_uses_nothing_of_json_schema_that_we_do_not_read(name: str) -> None:
    read = {"$ref", "enum", "type", "pattern", "minimum", "exclusiveMinimum", "maximum", "maxLength", "items"}
    told = {"$schema", "$defs", "title", "description", "properties", "required", "additionalProperties"}

    def words(rule: dict[str, Any]) -> set[str]:
        inner = [*rule.get("properties", {}).values(), *rule.get("$defs", {}).values()]
        return set(rule).union(*map(words, inner + ([rule["items"]] if "items" in rule else [])))

    assert words(dict(schema(name))) <= read | told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"jobs": [{}, {}, {}, {"cpus": "4"}]}', 'printed jobs[3].cpus: "4", expected a number above 0'),
        ('{"jobs": [{"cpus": true}]}', "jobs[0].cpus: true, expected a number above 0"),
        ('{"jobs": [{"count": 1.5}]}', "jobs[0].count: 1.5, expected a whole number of at least 0"),
        ('{"jobs": [{"nodes": 0}]}', "jobs[0].nodes: 0, expected a whole number of at least 1"),
        ('{"jobs": [{"state": "R"}]}', 'jobs[0].state: "R", expected "waiting" or "running" or "held"'),
        ('{"jobs": [{"memory": 5}]}', 'jobs[0] with the unknown key "memory", expected id, count, '),
        ('{"jobs": [{"workers": ["w1", "-rf"]}]}', 'jobs[0].workers[1]: "-rf", expected a worker\'s name'),
        ('{"jobs": [5]}', "jobs[0]: 5, expected an object"),
        ('{"jobs": {}}', "jobs: {}, expected a list"),
        ('{"job": []}', 'an answer with the unknown key "job", expected version, jobs, '),
        ("{}", 'an answer without the key "jobs"'),
        ("[]", "an answer: [], expected an object"),
        ("null", "an answer: null, expected an object"),
        ('{"version": 2, "jobs": []}', "version: 2, expected 1"),
        ('{"version": "1", "jobs": []}', 'version: "1", expected 1'),
        ('{"version": true, "jobs": []}', "version: true, expected 1"),
    ],
)
def test_a_fault_is_told_with_its_place_and_what_was_expected(text: str, said: str) -> None:
    assert said in complaint(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 'printed nothing; of none, print {"jobs": []}'),
        (" \n", "printed nothing"),
        ('{"jobs": [{"cpus": 1}, {"cp', "printed no JSON"),
        ('{"jobs": []}{"jobs": []}', "printed no JSON (Extra data"),
        (
            "<html>\n<body>log in",
            'printed no JSON (Expecting value: line 1 column 1 (char 0)): "<html>\\n<body>log in"',
        ),
        ("Warning: cannot read\n" * 1000, "printed no JSON"),
        ('{"jobs": [], "jobs": [{}]}', 'the key "jobs" stands there twice'),
        ('{"jobs": [{"cpus": NaN}]}', "NaN is no number of JSON's"),
        ('{"jobs": [{"cpus": 1e999}]}', "jobs[0].cpus: Infinity, expected a number above 0 and of at most 1e+15"),
        ('{"jobs": [{"count": 1' + "0" * 5000 + "}]}", "printed"),
        ("[" * 100_000, "printed no JSON"),
    ],
)
def test_what_is_no_whole_json_is_no_answer(text: str, said: str) -> None:
    found = complaint(text)
    assert said in found and len(found) < 300


def test_a_whole_answer_is_taken_as_it_is() -> None:
    text = json.dumps({"version": 1.0, "jobs": [{"count": 2.0, "cpus": 1}], "missing": []})
    assert document(text, "jobs")["jobs"] == [{"count": 2.0, "cpus": 1}]
