"""The configuration, read for a simulation: with other values, and without what only the outside world needs.

No secret, no file of keys or user data and no plugin's library is needed, so that a head node's file can be tried
anywhere. What has no part in a simulation is left out: the batch system's section, hooks, metrics, pages, logs, and
what keeps elastiq from launching or ending at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterable, Mapping, Optional, Sequence

from elastiq import config
from elastiq.inifile import ConfigError, Entry, Section
from elastiq.interfaces import Cloud, Pool
from elastiq.keys import CORE, POOL
from elastiq.names import known
from elastiq.options import Kind, Option
from elastiq.plugin_loader import BATCH_GROUP, BUILT_IN, cloud_class
from elastiq.settings import Settings
from elastiq.whatif.overrides import OF_CLUSTER, Change, Keys, OverrideError
from elastiq.whatif.placing import SECTION

SHIPPED = Path(__file__).with_name("shipped.conf")
SHIPPED_WORDS = "the defaults, with machines of 8 cores and max_vms = 20"

# What would keep a simulation from showing anything, or needs a library. With what is said of it; empty: nothing.
_LEFT_OUT = {
    "launch": "launch = no is left out: the simulation launches",
    "terminate": "terminate = no is left out: the simulation ends idle machines",
    "static_workers": "static_workers are not simulated: all jobs go to machines of the pools",
    "log_format": "",
    "log_level": "",
}
_NO_PART = ("debug", "substitute", *sorted(config.EXTRAS))
_OF_FILES = ("user_data_b64",)  # beside all that are a path


@dataclass(frozen=True)
class Supposed:
    """Settings to be simulated, and what a person should know of them."""

    settings: Settings
    notes: tuple[str, ...] = ()


class Configuration:
    """One file, to be read with any changes. Raises `ConfigError` if it cannot be used as it is."""

    def __init__(self, path: Path = SHIPPED) -> None:
        self.path = path
        reader = _Reader(path, ())
        self.keys = reader.keys()  # before anything is found to be wrong
        self._notes = tuple(reader.notes)
        self.flavours = frozenset(flavour for pool in reader.load().settings.pools for flavour in pool.flavours)

    def expect(self, changes: Iterable[Change]) -> None:
        """Those of other runs: their flavours may have prices and sizes in every run."""
        named = {flavour for change in changes if change.key == "flavour" for flavour in _words(change.value)}
        self.flavours |= named

    def with_changes(self, changes: Sequence[Change]) -> Supposed:
        """Raises `OverrideError` if these values do not go together."""
        changes = [change for change in changes if change.section != SECTION]
        try:
            settings = _Reader(self.path, changes, self.flavours).load().settings
        except ConfigError as error:
            given = " ".join(f"--set {change}" for change in changes)
            raise OverrideError(f"with {given}: {error.problems[0].partition(': ')[2]}") from None
        return Supposed(settings, (*self._notes, *self.keys.without_effect(changes)))


class _Reader(config.Reader):
    """One reading of the file, with changes."""

    def __init__(self, path: Path, changes: Sequence[Change], flavours: Iterable[str] = ()) -> None:
        super().__init__(path)
        self._flavours = frozenset(flavours)
        self.notes: list[str] = []
        self._no_part = {*_NO_PART, *known(BATCH_GROUP, BUILT_IN[BATCH_GROUP])}
        for name in [name for name in self.sections if name.partition(":")[0] in self._no_part]:
            del self.sections[name]
        self._leave_out(self.sections.get("elastiq", Section("elastiq", 1)))
        self._pool_sections = [name for name in self.sections if name.partition(":")[0] not in (*CORE, "schedule")]
        for name in self._pool_sections:
            _need_nothing(self.sections[name], _cloud_options(name))
        for change in changes:
            section = self.sections.setdefault(change.section, Section(change.section, 0))
            line = section.entries[change.key].line if change.key in section.entries else section.line
            section.entries[change.key] = Entry(change.section, change.key, change.value, line)

    def keys(self) -> Keys:
        """The keys that can be changed in this file."""
        options: dict[str, dict[str, Option]] = {section: _by_name(CORE[section]) for section in OF_CLUSTER}
        pools: dict[str, str] = {}
        for name in self._pool_sections:
            if cloud := _cloud_options(name):
                options[name] = _by_name((*POOL, *cloud))
                pools[name.partition(":")[2] or name] = name
        for name in self.sections:
            if name.partition(":")[0] == "schedule":
                from elastiq.timetable import OPTIONS

                options[name] = _by_name(OPTIONS)
        return Keys(options, dict(self.sections), pools, sorted(self._no_part), self.path.parent)

    def _pool(self, cloud: type[Cloud], section: str, given: Mapping[str, Optional[str]]) -> Optional[Pool]:
        """Without the prices of flavours that only other runs have."""
        made = super()._pool(cloud, section, given)
        priced = self.priced.get(section)
        if priced is None:
            return made
        others = self._flavours.difference(priced.flavours)
        prices = {name: price for name, price in priced.prices.items() if name.partition("/")[0] not in others}
        self.priced[section] = replace(priced, prices=prices)
        return made and replace(made, prices=prices)

    def _batch(self, name: str) -> tuple[str, dict[str, Any]]:
        """None: its section has no part in it, and it may not be installed here."""
        return name, {}

    def _leave_out(self, section: Section) -> None:
        for key, why in _LEFT_OUT.items():
            entry = section.entries.pop(key, None)
            said = entry is not None and entry.value.strip().lower() not in ("", "yes", "true", "on", "1", "1.0")
            if why and said:
                self.notes.append(why)
        section.entries.setdefault("cluster_name", Entry("elastiq", "cluster_name", "simulated", section.line))
        self.sections.setdefault("elastiq", section)


def _words(text: str) -> list[str]:
    """The items of a list, as `values.parse` splits it."""
    return text.replace(",", " ").split()


def _by_name(options: Sequence[Option]) -> dict[str, Option]:
    return {option.name: option for option in options}


def _cloud_options(section: str) -> tuple[Option, ...]:
    """The keys of a pool's cloud; nothing where there is no such cloud, of which the reading then tells."""
    try:
        return tuple(cloud_class(section.partition(":")[0]).OPTIONS)
    except ConfigError:
        return ()


def _need_nothing(section: Section, options: Sequence[Option]) -> None:
    """Take out what names a file or is a secret; a key's other half stays, with none in the secret's place. What must
    be there, as an image, is as if it were."""
    for option in options:
        entry = section.entries.get(option.name)
        if option.required and option.kind is Kind.TEXT and not (entry and entry.value):
            section.entries[option.name] = Entry(section.name, option.name, "none", section.line)
        if entry is None or not entry.value:
            continue
        if option.kind is Kind.PATH or option.name in _OF_FILES:
            del section.entries[option.name]
        elif option.secret:
            entry.value = "none"
