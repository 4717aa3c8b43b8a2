"""One key of the configuration with another value, as `--set` and `--sweep` name it.

A key is named as in the file: ``idle_for_time_s``, ``quota.max_vms``, ``ec2.flavour``, ``pool:NAME.key`` or
``[section]key``. Without a section it is the cluster's, or that of the only pool. ``placement`` and ``start`` are keys,
too, though of no file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence

from elastiq import values
from elastiq.inifile import Section
from elastiq.names import nearest
from elastiq.options import Kind, Option
from elastiq.whatif.placing import OPTIONS, SECTION

MOST_RUNS = 400
OF_CLUSTER = ("elastiq", "quota", "broker")


class OverrideError(ValueError):
    """What was asked for cannot be set: one line that says what, where, and what to do."""


@dataclass(frozen=True)
class Change:
    """``name`` is the key as it was given: the name of a column. ``secret``: its value is shown to nobody."""

    section: str
    key: str
    value: str = field(repr=False)
    name: str
    shown: str = ""  # the value as it may be printed; the same if empty

    def __str__(self) -> str:
        return f"{self.name}={self.printed}"

    @property
    def printed(self) -> str:
        """The value, without what is a secret."""
        return self.shown or self.value


class Keys:
    """All keys that can be changed: those of the sections that a simulation reads.

    ``options`` has them by section, ``sections`` is what the file holds, ``pools`` names the section of each pool, and
    ``left_out`` are the kinds of sections that have no part in a simulation.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[str, Option]],
        sections: Mapping[str, Section],
        pools: Mapping[str, str],
        left_out: Sequence[str],
        home: Path,
    ) -> None:
        self._options = {SECTION: {option.name: option for option in OPTIONS}, **options}
        self._sections, self._pools = sections, pools
        self._left_out, self._home = left_out, home

    def change(self, text: str, what: str = "--set") -> Change:
        """Of ``key=value``. Raises `OverrideError`."""
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise OverrideError(f"{what} {_head(text)}: is not of the form key=value, as {what} idle_for_time_s=300")
        section, key = self.find(name, what)
        return self._changed(section, key, name, value, what)

    def find(self, name: str, what: str = "--set") -> tuple[str, str]:
        """The section and the key that are meant. Raises `OverrideError`."""
        section, key = _split(name)
        if section.startswith("pool:"):
            section = self._pool(section[5:], name, what)
        if section and section not in self._options:
            raise OverrideError(f"{what} {name}: {self._no_section(section)}")
        if section:
            if key not in self._options[section]:
                raise OverrideError(f"{what} {name}: {self._no_key(section, key)}")
            return section, key
        homes = [section for section in (SECTION, *OF_CLUSTER) if key in self._options[section]]
        homes = homes or [section for section in self._options if key in self._options[section]]
        if len(homes) > 1:
            ways = ", ".join(f"{section}.{key}" for section in homes)
            raise OverrideError(f"{what} {name}: several sections have this key, write one of {ways}")
        if not homes:
            raise OverrideError(f"{what} {name}: {self._nowhere(key)}")
        return homes[0], key

    def present(self, section: str, key: str) -> Optional[str]:
        """What the file says; None where it does not."""
        entry = self._sections[section].entries.get(key) if section in self._sections else None
        return entry.value if entry is not None else None

    def now(self, section: str, key: str) -> str:
        """Its present value as it would be written: what the file says, there or where it inherits it, or the default;
        empty where it is not set."""
        for home in (section, section.partition(":")[0], *OF_CLUSTER):
            option = self._options.get(home, {}).get(key)
            said = self.present(home, key)
            if said:
                return " ".join(said.split())
            if option is not None and option.default not in (None, (), {}):
                return _written(option.default)
            if option is not None and option.kind is Kind.LIMIT and home == section:
                return "unlimited"
        return ""

    def same(self, change: Change) -> bool:
        """Whether it is no change at all."""
        option, now = self._options[change.section][change.key], self.now(change.section, change.key)
        return bool(
            values.parse(option, change.value, self._home) == (values.parse(option, now, self._home) if now else None)
        )

    def known(self, section: str, key: str) -> bool:
        """Whether there is such a key."""
        return key in self._options.get(section, {})

    def without_effect(self, changes: Sequence[Change]) -> Iterator[str]:
        """Of a key of the cluster, the pools that have a value of their own, which stays."""
        for change in changes:
            for section in self._pools.values() if change.section == "elastiq" else ():
                if self.present(section, change.key):
                    own = f"[{section}] has a value of its own, which stays"
                    yield f"{change.name}: {own}; write {section}.{change.key}"

    def _changed(self, section: str, key: str, name: str, value: str, what: str) -> Change:
        option = self._options[section][key]
        shown = values.shown(option, value)
        try:
            values.parse(option, value, self._home)
        except ValueError as error:
            raise OverrideError(f"{what} {name}={shown}: {error}") from None
        return Change(section, key, value, name if section else key, "" if shown == value else shown)

    def _pool(self, pool: str, name: str, what: str) -> str:
        if pool not in self._pools:
            raise OverrideError(f"{what} {name}: there is no pool `{pool}`, there are: {', '.join(self._pools)}")
        return self._pools[pool]

    def _no_section(self, section: str) -> str:
        if section.partition(":")[0] in self._left_out:
            return f"[{section}] has no part in a simulation, remove it"
        meant = nearest(section, self._options)
        return f"there is no section [{section}], " + (
            f"did you mean [{meant}]?" if meant else f"there are: {', '.join(filter(None, self._options))}"
        )

    def _no_key(self, section: str, key: str) -> str:
        others = [home for home, options in self._options.items() if key in options]
        if others:
            return f"[{section}] has no such key, write {others[0]}.{key}"
        meant = nearest(key, self._options[section])
        return f"[{section}] has no such key, " + (f"did you mean {meant}?" if meant else "see elastiq.conf.example")

    def _nowhere(self, key: str) -> str:
        meant = nearest(key, {key for options in self._options.values() for key in options})
        return "there is no such key, " + (f"did you mean {meant}?" if meant else "elastiq.conf.example has them all")

    # ------------------------------------------------------------------- sweeps

    def grid(self, sweeps: Sequence[str]) -> list[tuple[Change, ...]]:
        """Every combination of the values of several sweeps, in their order; the last one changes fastest. Raises
        `OverrideError`."""
        axes = [self._axis(text) for text in sweeps]
        named = [(change.section, change.key) for change, *_ in axes]
        for at, axis in enumerate(axes):
            if named[at] in named[:at]:
                raise OverrideError(f"--sweep {axis[0].name}: is swept twice, write all its values in one")
        runs = prod(len(axis) for axis in axes)
        if runs > MOST_RUNS:
            sizes = " x ".join(str(len(axis)) for axis in axes)
            raise OverrideError(f"--sweep: {sizes} values are {runs} runs, at most {MOST_RUNS} are made; give fewer")
        return list(product(*axes))

    def _axis(self, text: str) -> list[Change]:
        name, equals, given = (part.strip() for part in text.partition("="))
        if not equals or not given:
            raise OverrideError(
                f"--sweep {_head(text)}: is not of the form key=value,value, as idle_for_time_s=60,300,900"
            )
        section, key = self.find(name, "--sweep")
        # Values that are lists themselves have commas.
        parts = given.split(";" if ";" in given else ",")
        found = [self._changed(section, key, name, part.strip(), "--sweep") for part in parts]
        return list(dict.fromkeys(found))


def _head(text: str) -> str:
    """The key of what has no proper form: what stands behind it may be a secret."""
    return re.sub(r"(?<!pool)[\s:=].*", "", text.strip(), flags=re.S)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _split(name: str) -> tuple[str, str]:
    """Section and key of ``[section]key``, ``section.key`` or ``key``. A key has no dot, a pool's name may."""
    brackets = re.fullmatch(r"\[\s*([^\]]*?)\s*\]\s*\.?\s*(.*)", name)
    section, key = brackets.groups() if brackets else name.rpartition(".")[::2]
    return section.strip(), key.strip().lower()
