"""Whole scenarios as text: what once broke an invariant is kept as it was, whatever the generator draws later."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from elastiq.interfaces import Pool, Resources, Terms
from elastiq.settings import Settings
from elastiq.simulation.executor import Latency
from elastiq.simulation.scenario import Happening, Scenario
from elastiq.simulation.world import Image


class Entry(NamedTuple):
    """``why``: what was broken, and what was wrong."""

    why: str
    scenario: Scenario


def to_json(scenario: Scenario) -> str:
    """One line. Only what is not the default is written of the settings."""
    plain = asdict(scenario)
    plain["settings"] = _but_defaults(scenario.settings, Settings(""))
    plain["settings"]["pools"] = [
        _but_defaults(pool, Pool(pool.name, pool.site, pool.flavours)) for pool in scenario.settings.pools
    ]
    return json.dumps(plain, sort_keys=True, default=asdict)


def _but_defaults(made: Any, default: Any) -> dict[str, Any]:
    needed = ("cluster_name", "name", "site", "flavours")
    left_out = ("options", "batch_options")
    pairs = {one.name: getattr(made, one.name) for one in fields(made) if one.name not in left_out}
    return {name: value for name, value in pairs.items() if name in needed or value != getattr(default, name)}


def from_json(text: str) -> Scenario:
    """The other way."""
    plain: dict[str, Any] = json.loads(text)
    made: Mapping[str, Callable[[Any], Any]] = {
        "settings": lambda value: Settings(
            **{**_tuples(value), "pools": tuple(_pool(pool) for pool in value["pools"])}
        ),
        "flavours": lambda value: {name: Resources(**size) for name, size in value.items()},
        "happenings": lambda value: tuple(Happening(**one) for one in value),
        "image": lambda value: Image(**_tuples(value)),
        "latency": lambda value: Latency(**value),
    }
    return Scenario(**{name: made.get(name, lambda same: same)(value) for name, value in plain.items()})


def _pool(plain: Mapping[str, Any]) -> Pool:
    parts = {"capacity": Resources(**plain.get("capacity", {})), "terms": Terms(**_tuples(plain.get("terms", {})))}
    return Pool(**{**_tuples(plain), **parts})


def _tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def read(path: Path) -> list[Entry]:
    """The entries of a file: each a line that says why, after a ``#``, and the scenario on the next."""
    return list(_entries(path.read_text(encoding="utf-8").splitlines()))


def _entries(lines: list[str]) -> Iterator[Entry]:
    why = ""
    for line in lines:
        if line.startswith("#"):
            why = line.lstrip("# ")
        elif line:
            yield Entry(why, from_json(line))


def add(path: Path, why: str, scenario: Scenario) -> None:
    """Another entry at the end."""
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n# seed {scenario.seed}: {why}\n{to_json(scenario)}\n")
