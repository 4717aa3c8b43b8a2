"""The configuration file -> typed, validated settings.

Everything that is wrong is found in one go and raised as one `ConfigError`, whose lines name file, line,
section and key; the caller starts nothing and exits with EX_CONFIG (78). Secrets are in no message.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Container, Iterable, Mapping, Optional, Union

from elastiq import values
from elastiq.inifile import ConfigError, Entry, Problems, Section, decode, parse
from elastiq.interfaces import Cloud, Pool, Resources
from elastiq.keys import CORE, POOL
from elastiq.options import Option
from elastiq.plugin_loader import batch_class, cloud_class
from elastiq.settings import Settings

__all__ = ["ConfigError", "Loaded", "load"]

_POOL_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Loaded:
    """A file that can be used. ``set_keys`` are `section.key = value` lines for the log, secrets hidden."""

    settings: Settings
    warnings: list[str]
    set_keys: list[str]


def load(path: Union[str, Path]) -> Loaded:
    """Read and check the file. Raises `ConfigError` with every problem that it has."""
    return _Reader(Path(path)).load()


class _Reader:
    """One reading of one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems, self.warnings = Problems(path), Problems(path)
        self.set_keys: dict[int, str] = {}  # by their lines
        self.bad: set[tuple[str, str]] = set()  # keys whose values could not be used
        data, self.mode = self._bytes(path)
        self.sections = self.warnings.sections = parse(decode(data, self.problems), self.problems)

    def load(self) -> Loaded:
        core = {name: self._values(self._section(name), options) for name, options in CORE.items()}
        elastiq, quota, debug, substitute = (core[name] for name in ("elastiq", "quota", "debug", "substitute"))
        if not elastiq["cluster_name"]:
            from elastiq.complaints import host_name

            elastiq["cluster_name"] = host_name(self.problems, self.warnings)
        batch, batch_options = self._batch(elastiq["batch_plugin"])
        pools = self._pools({*CORE, batch}, substitute)
        self._check_quota(quota["min_vms"], quota["max_vms"], list(pools.values()))
        if quota["max_cost_per_hour"] or quota["max_cost_per_day"] or any(pool.prices for pool in pools.values()):
            from elastiq.prices import check_prices

            check_prices(quota, pools, self.problems)
        if elastiq["log_format"] == "json" and importlib.util.find_spec("pythonjsonlogger") is None:
            self.problems.at("elastiq", "log_format", "json needs python-json-logger, install it or write text")
        self.problems.raise_any()
        set_keys = [text for _, text in sorted(self.set_keys.items())]
        if any("***" in text for text in set_keys):
            self._warn_readable("", "", self.path, self.mode)
        settings = Settings(pools=tuple(pools.values()), batch_options=batch_options, **elastiq, **quota, **debug)
        return Loaded(settings, self.warnings.lines(), set_keys)

    def _bytes(self, path: Union[str, Path], limit: int = 1 << 24) -> tuple[bytes, int]:
        """A file's content, cut at a limit, and its mode. Raises `ConfigError` if it cannot be read."""
        try:
            # Without O_NONBLOCK, a FIFO would be waited for.
            with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
                mode = os.fstat(file.fileno()).st_mode
                if not stat.S_ISREG(mode):
                    raise OSError(0, "it is not a regular file")
                return file.read(limit), mode
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a file's name"
            raise ConfigError([f"{path}: cannot be read ({reason}), check its name and permissions"]) from None

    def _warn_readable(self, section: str, key: str, path: Union[str, Path], mode: int) -> None:
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            self.warnings.at(section, key, f"{path} holds a secret and is open to all users, run `chmod o= {path}`")

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
        return found

    # ------------------------------------------------------------------- parts

    def _batch(self, name: str) -> tuple[str, dict[str, Any]]:
        """The section of the batch plugin, and its values."""
        try:
            batch = batch_class(name)
        except ConfigError as error:
            from elastiq.complaints import batch_classes

            self.problems.at("elastiq", "batch_plugin", error.problems[0])
            for other in batch_classes(self.sections):  # one of them may be meant
                self._values(self._section(other.section), other.OPTIONS)
            return name, {}
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

                unread_section(section, error.problems[0], self.problems, self.warnings)
                continue
            pool = self._pool(cloud, section, given)
            if not pool:
                continue
            if pool.name in (other.name for other in pools.values()):
                self.problems.at(section, "", f"there is another pool `{pool.name}`, rename one")
            pools[section] = pool
            if pool.max_vms and pool.min_vms > pool.max_vms:
                text = f"{pool.min_vms} is above the pool's max_vms, which is {pool.max_vms}"
                self.problems.at(section, "min_vms", text)
            home = next(home for home, other in pools.items() if (other.kind, other.site) == (pool.kind, pool.site))
            for option in cloud.OPTIONS:
                if option.site and pool.options[option.name] != pools[home].options[option.name]:
                    same = f"but both are the site {pool.site}, give both the same"
                    self.problems.at(section, option.name, f"differs from [{home}], {same}")
        return pools

    def _pool(self, cloud: type[Cloud], section: str, given: Mapping[str, Optional[str]]) -> Optional[Pool]:
        """The pool of a section, None if a value cannot be used."""
        kind, colon, name = section.partition(":")
        if colon and not _POOL_NAME.fullmatch(name):
            self.problems.at(section, "", "a pool's name is made of letters, digits, `_`, `.` and `-`, rename it")
        options = (*POOL, *cloud.OPTIONS)
        whole = _inherit(self._section(kind), self.sections[section], options)
        found = self._values(whole, options)
        found["user_data"] = self._user_data(whole, found, given)
        if any((entry.section, key) in self.bad for key, entry in whole.entries.items()):
            return None
        flavours, low, high = (found.pop(key) for key in ("flavour", "min_vms", "max_vms"))
        prices = {flavour: float(price) for flavour, price in (found.pop("price") or {}).items()}
        capacity = Resources(*(found.pop(key) for key in ("cpus", "memory_mb", "disk_mb", "gpus")))
        site, networks = cloud.site_of(found), cloud.networks_of(found)
        public = sorted(option.name for option in cloud.OPTIONS if not (option.secret or option.site))
        seen = [(key, found[key]) for key in public if found.get(key) not in (None, "", (), {})]
        content = repr((site, flavours, networks, capacity, found["user_data"], seen))
        digest = hashlib.sha256(content.encode()).hexdigest()[:12]
        name = name if colon else kind
        return Pool(name, site, flavours or ("",), networks, capacity, low, high, found, digest, kind, prices)

    def _user_data(self, section: Section, found: dict[str, Any], given: Mapping[str, Optional[str]]) -> bytes:
        """The bytes that new instances get, and empty ones where the section gives none or bad ones."""
        file, data = found.get("user_data_file"), found.pop("user_data_b64", None)
        if not (file or data):
            return b""
        from elastiq import userdata

        entry = section.entries["user_data_file" if file else "user_data_b64"]
        try:
            if file:
                data, mode = self._bytes(file, 4 * userdata.LIMIT)
                self._warn_readable(entry.section, entry.key, file, mode)
            return userdata.substitute(data, given)
        except ConfigError as error:
            self._bad(entry, error.problems[0])
            return b""

    def _check_quota(self, least: int, most: Optional[int], pools: list[Pool]) -> None:
        most = None if ("quota", "max_vms") in self.bad else most
        if most and least > most:
            self.problems.at("quota", "min_vms", f"{least} is above max_vms, which is {most}")
        together = sum(pool.min_vms for pool in pools)
        if most and together > most:
            self.problems.at("quota", "max_vms", f"{most} is below the pools' min_vms, which are {together} together")
        room = sum(pool.max_vms or least for pool in pools)  # one without a limit has room enough
        # What a pool with another problem has room for is not known.
        if pools and least > room and {section for section, _ in self.bad} <= {*CORE}:
            self.problems.at("quota", "min_vms", f"{least} is above the pools' max_vms, which are {room} together")


def _inherit(base: Section, own: Section, options: Iterable[Option]) -> Section:
    """A pool's section with what it inherits: a key of its own replaces also those that exclude it."""
    replaced = {other for option in options if option.name in own.entries for other in option.excludes}
    replaced |= {option.name for option in options if own.entries.keys() & option.excludes}
    if "flavour" in own.entries and (price := base.entries.get("price")) and "=" not in price.value:
        replaced.add("price")  # one price for all was that of other flavours
    inherited = {key: entry for key, entry in base.entries.items() if key not in replaced}
    return Section(own.name, own.line, {**inherited, **own.entries})
