"""The configuration file -> typed, validated settings.

Everything that is wrong is found in one go and raised as one `ConfigError`, whose lines name file, line,
section and key; the caller starts nothing and exits with EX_CONFIG (78). Secrets are in no message.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Container, Iterable, Mapping, Optional, Union

from elastiq import values
from elastiq.idling import AUTO, WAITS_S
from elastiq.inifile import ConfigError, Entry, Problems, Section, decode, parse, read_file
from elastiq.interfaces import Cloud, Pool, Resources, Terms
from elastiq.keys import CORE, POOL
from elastiq.options import Option
from elastiq.plugin_loader import batch_class, cloud_class
from elastiq.settings import Settings

__all__ = ["ConfigError", "Loaded", "load"]

_SEEN_TERMS = ("worker_ad", "reserve_memory_mb", "reserve_disk_mb")  # these can change which jobs a pool runs
EXTRAS = {"hooks", "metrics", "web"}  # sections that `elastiq.extras` serves


@dataclass(frozen=True)
class Loaded:
    """A file that can be used. ``set_keys`` are `section.key = value` lines for the log, secrets hidden."""

    settings: Settings
    warnings: list[str]
    set_keys: list[str]


def load(path: Union[str, Path]) -> Loaded:
    """Read and check the file. Raises `ConfigError` with every problem that it has."""
    return Reader(Path(path)).load()


class Reader:
    """One reading of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems, self.warnings = Problems(path), Problems(path)
        self.set_keys: dict[int, str] = {}  # by their lines
        self.bad: set[tuple[str, str]] = set()  # keys whose values could not be used
        self.priced: dict[str, Pool] = {}  # of each section, its flavours and prices, if those could be read
        data, self.mode = read_file(path)
        self.sections = self.warnings.sections = parse(decode(data, self.problems), self.problems)

    def load(self) -> Loaded:
        core = {name: self._values(self._section(name), options) for name, options in CORE.items()}
        elastiq, quota, substitute = core["elastiq"], core["quota"], core.pop("substitute")
        if not elastiq["cluster_name"]:
            from elastiq.complaints import host_name

            elastiq["cluster_name"] = host_name(self.problems, self.warnings)
        batch, batch_options = self._batch(elastiq["batch_plugin"])
        scheduled = [name for name in self.sections if name.partition(":")[0] == "schedule"]
        extras = {}
        for name in sorted(self.sections.keys() & EXTRAS):
            from elastiq.extras import options_of

            extras[name] = self._values(self.sections[name], options_of(name))
        pools = self._pools({*CORE, batch, *scheduled, *EXTRAS}, substitute)
        if elastiq["prefer"] == "wait":
            from elastiq.quotas import keep_a_spare

            keep_a_spare(pools, self.sections)
        values_of_core = {key: value for section in core.values() for key, value in section.items()}
        if elastiq["waiting_jobs_time_s"] == AUTO:
            values_of_core["waiting_jobs_time_s"] = WAITS_S[elastiq["prefer"]]
        settings = Settings(pools=tuple(pools.values()), batch_options=batch_options, extras=extras, **values_of_core)
        if quota["max_cost_per_hour"] or quota["max_cost_per_day"] or any(pool.prices for pool in self.priced.values()):
            from elastiq.prices import check_prices

            check_prices(quota, self.priced, self.problems)
        least = [p.min_vms or p.terms.min_idle_vms or p.terms.max_vm_lifetime_s for p in pools.values()]
        if quota["min_vms"] or any(least):
            from elastiq.quotas import check_quotas

            check_quotas(settings, pools, self.bad, bool(scheduled), self.problems, self.warnings)
        if scheduled:
            from elastiq import timetable

            read = {name: self._values(self.sections[name], timetable.OPTIONS) for name in scheduled}
            settings = timetable.scheduled(settings, read, self.bad, self.problems)
        self.problems.raise_any()
        set_keys = [text for _, text in sorted(self.set_keys.items())]
        if any("***" in text for text in set_keys):
            self.warnings.at_open_file("", "", self.path, self.mode)
        return Loaded(settings, self.warnings.lines(), set_keys)

    # ------------------------------------------------------------------- keys

    def _section(self, name: str) -> Section:
        return self.sections.get(name) or Section(name, 1)

    def _bad(self, entry: Entry, text: str) -> None:
        self.problems.at(entry.section, entry.key, text)
        self.bad.add((entry.section, entry.key))

    def _values(self, section: Section, options: Iterable[Option]) -> dict[str, Any]:
        """The typed value of every option; a key with a problem has its default."""
        known = {option.name: option for option in options}
        found = {name: option.default for name, option in known.items()}
        given = {key for key, entry in section.entries.items() if entry.value}
        for key, entry in section.entries.items():
            option = known.get(key)
            if option is None:
                from elastiq.complaints import unknown_key

                unknown_key(entry, known, self.problems)
                continue
            self.set_keys[entry.line] = f"{entry.section}.{key} = {values.shown(option, entry.value)}"
            try:
                found[key] = values.parse(option, entry.value, self.path.parent)
            except ValueError as error:
                self._bad(entry, str(error))
            if option.risk and found[key] is False:
                self.warnings.at(entry.section, key, f"is no: {option.risk}")
            beside = [f"cannot be set together with {name}, remove one" for name in option.excludes if name in given]
            beside += [f"is of no use without {name}, set both or neither" for name in {*option.needs} - given]
            for text in beside if entry.value else ():
                self.problems.at(entry.section, key, text)
        for name, option in known.items():
            if option.required and not given & {name, option.unless}:
                also = f" (or {option.unless})" if option.unless else ""
                self.problems.at(section.name, name, f"is missing, set it{also}")
            if option.doubt and (text := option.doubt(found)):
                self.warnings.at(section.entries[name].section if name in given else section.name, name, text)
        return found

    # ------------------------------------------------------------------- parts

    def _batch(self, name: str) -> tuple[str, dict[str, Any]]:
        """The section of the batch plugin, and its values."""
        try:
            batch = batch_class(name)
        except ConfigError as error:
            from elastiq.complaints import unknown_batch

            return unknown_batch(name, error, self.problems, self._values)
        return batch.section, self._values(self._section(batch.section), batch.OPTIONS)

    def _pools(self, taken: Container[str], given: Mapping[str, Optional[str]]) -> dict[str, Pool]:
        """The pools of the sections, in the order of the file, but [kind] before its [kind:NAME]."""
        rest = [name for name in self.sections if name not in taken]
        if not rest:
            self.problems.add(1, "", "", "there is no pool, add a section [ec2]")
        kinds = [name.partition(":")[0] for name in rest]
        pools: dict[str, Pool] = {}
        for section in sorted(rest, key=lambda name: (kinds.index(name.partition(":")[0]), ":" in name)):
            try:
                cloud = cloud_class(section.partition(":")[0])
            except ConfigError as error:
                from elastiq.complaints import unread_section

                unread_section(section, error.problems[0], EXTRAS, self.problems, self.warnings)
                continue
            pool = self._pool(cloud, section, given)
            if not pool:
                continue
            if pools:
                from elastiq.further_pools import check_beside

                check_beside(section, pool, pools, cloud.OPTIONS, self.problems)
            pools[section] = pool
        return pools

    def _pool(self, cloud: type[Cloud], section: str, given: Mapping[str, Optional[str]]) -> Optional[Pool]:
        """The pool of a section, None if a value cannot be used."""
        kind, colon, name = section.partition(":")
        options, whole = (*POOL, *cloud.OPTIONS), self.sections[section]
        if colon:
            from elastiq.further_pools import inherit

            whole = inherit(self._section(kind), whole, options, self.problems)
        found = self._values(whole, options)
        file, data, found["user_data"] = found.get("user_data_file"), found.pop("user_data_b64", None), b""
        if file or data:
            from elastiq.userdata import of_section

            found["user_data"] = of_section(whole, file, data, given, self._bad, self.warnings)
        flavours, markets, low, high = (found.pop(key) for key in ("flavour", "market", "min_vms", "max_vms"))
        prices = {flavour: float(price) for flavour, price in (found.pop("price") or {}).items()}
        bad = {key for key, entry in whole.entries.items() if (entry.section, key) in self.bad}
        if not bad & {"flavour", "price"}:
            self.priced[section] = Pool("", "", flavours or ("",), prices=prices, markets=markets or ("",))
        if bad:
            return None
        capacity = Resources(*(found.pop(key) for key in ("cpus", "memory_mb", "disk_mb", "gpus")))
        terms = Terms(**{key: found.pop(key) for key in Terms.__dataclass_fields__})
        site, networks = cloud.site_of(found), cloud.networks_of(found)
        if markets:
            from elastiq.markets import check_markets

            check_markets(whole, site, markets, cloud.markets_of(found), terms, self.problems)
        public = sorted(option.name for option in cloud.OPTIONS if not (option.secret or option.site))
        seen = [(key, found[key]) for key in public if found.get(key) not in (None, "", (), {})]
        seen += [(key, value) for key in _SEEN_TERMS if (value := getattr(terms, key))]
        content = repr((site, flavours, networks, capacity, found["user_data"], seen))
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        parts = (found["user_data"], [found[option.name] for option in cloud.OPTIONS if option.build])
        build = hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
        made = Pool(name if colon else kind, site, flavours or ("",), networks, capacity, low, high, found, digest)
        return replace(made, kind=kind, prices=prices, markets=markets or ("",), terms=terms, build=build)
