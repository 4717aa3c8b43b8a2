"""The configuration file -> typed, validated settings.

Everything that is wrong is found in one go and raised as one `ConfigError`, whose lines name file, line,
section and key; the caller starts nothing and exits with EX_CONFIG (78). Secrets are in no message.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Container, Iterable, Mapping, Optional, Union

from elastiq import plugin_loader, userdata, values
from elastiq.inifile import ConfigError, Entry, Problems, Section, decode, parse, printable
from elastiq.interfaces import Cloud, Pool, Resources
from elastiq.keys import CORE, POOL
from elastiq.options import Kind, Option
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
        self.problems = Problems(path)
        self.warnings: list[str] = []
        self.sections: dict[str, Section] = {}
        self.options: dict[tuple[str, str], Option] = {}  # of every key that was read
        self.bad: set[tuple[str, str]] = set()  # keys whose values could not be used
        self.homes: dict[str, str] = {}  # the section of each pool

    def load(self) -> Loaded:
        data, mode = self._bytes(self.path)
        self.sections = parse(decode(data, self.problems), self.problems)
        core = {name: self._values(self._section(name), options) for name, options in CORE.items()}
        self._cluster_name(core["elastiq"])
        batch, batch_options = self._batch(core["elastiq"]["batch_plugin"])
        pools = self._pools({*CORE, batch}, core["substitute"])
        self._check_quota(core["quota"]["min_vms"], core["quota"]["max_vms"], pools)
        if core["elastiq"]["log_format"] == "json" and importlib.util.find_spec("pythonjsonlogger") is None:
            self._complain("elastiq", "log_format", "json needs python-json-logger, install it or write text")
        self.problems.raise_any()
        if self._holds_secret():
            self._warn_readable(self.path, mode)
        settings = Settings(
            pools=tuple(pools),
            batch_options=batch_options,
            **core["elastiq"],
            **core["quota"],
            **core["debug"],
        )
        return Loaded(settings, self.warnings, list(self._set_keys()))

    # ------------------------------------------------------------------- the file

    def _bytes(self, path: Path, limit: int = 1 << 24) -> tuple[bytes, int]:
        """A file's content, cut at a limit, and its mode. Raises `ConfigError` if it cannot be read."""
        try:
            with path.open("rb") as file:
                return file.read(limit), os.fstat(file.fileno()).st_mode
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a file's name"
            raise ConfigError(
                [f"{path}: cannot be read ({reason}), check its name and permissions"]
            ) from None

    def _holds_secret(self) -> bool:
        return any(
            "***" in values.shown(option, self.sections[section].entries[key].value)
            for (section, key), option in self.options.items()
        )

    def _warn_readable(self, path: Path, mode: int) -> None:
        text = f"{path}: holds a secret and is open to all users, run `chmod o= {path}`"
        if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH) and text not in self.warnings:
            self.warnings.append(text)

    def _set_keys(self) -> Iterable[str]:
        for section in self.sections.values():
            for entry in section.entries.values():
                option = self.options.get((entry.section, entry.key))
                if option:
                    yield f"{entry.section}.{entry.key} = {values.shown(option, entry.value)}"

    # ------------------------------------------------------------------- keys

    def _section(self, name: str) -> Section:
        return self.sections.get(name) or Section(name, 1)

    def _complain(self, section: str, key: str, text: str) -> None:
        found = self._section(section)
        entry = found.entries.get(key)
        self.problems.add(entry.line if entry else found.line, section, key, text)

    def _bad(self, entry: Entry, text: str) -> None:
        self.problems.at(entry, text)
        self.bad.add((entry.section, entry.key))

    def _values(self, section: Section, options: Iterable[Option]) -> dict[str, Any]:
        """The typed value of every option; a key with a problem has its default."""
        known = {option.name: option for option in options}
        found = {
            name: dict(option.default) if option.kind is Kind.TAGS else option.default
            for name, option in known.items()
        }
        for entry in section.entries.values():
            option = known.get(entry.key)
            if option is None:
                self._unknown_key(entry, known)
                continue
            self.options[entry.section, entry.key] = option
            try:
                found[entry.key] = values.parse(option, entry.value)
            except ValueError as error:
                self._bad(entry, str(error))
        self._check_presence(section, known)
        return found

    def _unknown_key(self, entry: Entry, known: Iterable[str]) -> None:
        home = next((name for name, options in CORE.items() if entry.key in {o.name for o in options}), None)
        meant = plugin_loader.nearest(entry.key, known)
        if home and home != entry.section:
            hint = f"it belongs to [{home}]"
        else:
            hint = f"did you mean `{meant}`?" if meant else "remove it"
        name = printable(entry.key) if meant else entry.label
        self.problems.add(entry.line, printable(entry.section), name, f"is not a known key, {hint}")

    def _check_presence(self, section: Section, known: Mapping[str, Option]) -> None:
        given = {key for key, entry in section.entries.items() if entry.value}
        for name, option in known.items():
            if name not in given:
                if option.required and option.unless not in given:
                    also = f" (or {option.unless})" if option.unless else ""
                    self._complain(section.name, name, f"is missing, set it{also}")
                continue
            entry = section.entries[name]
            for other in option.excludes:
                if other in given:
                    self.problems.at(entry, f"cannot be set together with {other}, remove one")
            for other in option.needs:
                if other not in given:
                    self.problems.at(entry, f"is of no use without {other}, set both or neither")

    # ------------------------------------------------------------------- parts

    def _cluster_name(self, elastiq: dict[str, Any]) -> None:
        if elastiq["cluster_name"]:
            return
        name = socket.gethostname().partition(".")[0]
        option = next(option for option in CORE["elastiq"] if option.name == "cluster_name")
        try:
            elastiq["cluster_name"] = values.parse(option, name)
        except ValueError:
            self._complain("elastiq", "cluster_name", "is missing and cannot be the host name, set it")
        self.warnings.append(
            f"{self.path}: [elastiq] cluster_name is not set, `{name}` is used; set it, so that the cluster"
            " still knows its instances when the host name changes"
        )

    def _batch(self, name: str) -> tuple[str, dict[str, Any]]:
        """The section of the batch plugin, and its values."""
        try:
            batch = plugin_loader.batch_class(name)
        except ConfigError as error:
            self._complain("elastiq", "batch_plugin", error.problems[0])
            return name, {}
        return batch.section, self._values(self._section(batch.section), batch.OPTIONS)

    def _pools(self, taken: Container[str], given: Mapping[str, Optional[str]]) -> list[Pool]:
        """The pools in the order of the file, but [kind] before its [kind:NAME]."""
        pools: list[Pool] = []
        rest = [section for name, section in self.sections.items() if name not in taken]
        if not rest:
            self.problems.add(1, "", "", "there is no pool, add a section [ec2]")
        for kind in dict.fromkeys(section.name.partition(":")[0] for section in rest):
            mine = [section for section in rest if section.name == kind]
            mine += [section for section in rest if section.name.startswith(f"{kind}:")]
            cloud = self._cloud(kind, mine)
            first: dict[str, tuple[Pool, str]] = {}  # of each site
            for section in mine if cloud else ():
                assert cloud is not None
                pool = self._pool(cloud, kind, section, given)
                if pool is None:
                    continue
                if any(pool.name == other.name for other in pools):
                    text = f"there is another pool `{pool.name}`, rename one"
                    self.problems.add(section.line, section.name, "", text)
                pools.append(pool)
                self.homes[pool.name] = section.name
                self._check_site(
                    cloud, pool, section.name, *first.setdefault(pool.site, (pool, section.name))
                )
        return pools

    def _cloud(self, kind: str, sections: list[Section]) -> Optional[type[Cloud]]:
        try:
            return plugin_loader.cloud_class(kind)
        except ConfigError as error:
            complaint = error.problems[0]
        known = [*CORE, *plugin_loader.batch_names(), *plugin_loader.cloud_kinds()]
        for section in sections:
            if kind in plugin_loader.batch_names():
                self.warnings.append(
                    f"{self.path}:{section.line}: [{kind}] is not read, it is not batch_plugin"
                )
                continue
            if kind not in known:
                meant = plugin_loader.nearest(kind, known)
                hint = f"did you mean [{meant}]?" if meant else f"known are: {', '.join(known)}"
                complaint = f"is not a known section, {hint}"
            self.problems.add(section.line, printable(section.name), "", complaint)
        return None

    def _pool(
        self, cloud: type[Cloud], kind: str, section: Section, given: Mapping[str, Optional[str]]
    ) -> Optional[Pool]:
        name = section.name.partition(":")[2] if ":" in section.name else kind
        if not _POOL_NAME.fullmatch(name):
            text = "a pool's name is made of letters, digits, `_`, `.` and `-`, rename it"
            self.problems.add(section.line, printable(section.name), "", text)
            return None
        options = (*POOL, *cloud.OPTIONS)
        whole = _inherit(self._section(kind), section, options)
        found = self._values(whole, options)
        found["user_data"] = self._user_data(whole, found, given)
        if any((entry.section, entry.key) in self.bad for entry in whole.entries.values()):
            return None
        core = {option.name: found.pop(option.name) for option in POOL}
        site, networks = cloud.site_of(found), cloud.networks_of(found)
        flavours = core["flavour"] or ("",)
        capacity = Resources(core["cpus"], core["memory_mb"], core["disk_mb"], core["gpus"])
        public = {option.name for option in cloud.OPTIONS if not (option.secret or option.site)}
        seen = {
            key: value for key, value in found.items() if key in public and value not in (None, "", (), {})
        }
        content = repr((site, flavours, networks, capacity, found["user_data"], sorted(seen.items())))
        return Pool(
            name,
            site,
            flavours,
            networks,
            capacity,
            core["min_vms"],
            core["max_vms"],
            found,
            hashlib.sha256(content.encode()).hexdigest()[:12],
            kind,
        )

    def _user_data(
        self, section: Section, found: dict[str, Any], given: Mapping[str, Optional[str]]
    ) -> bytes:
        """The bytes that new instances get, and empty ones where the section gives none or bad ones."""
        data = found.pop("user_data_b64", None) or b""
        key = "user_data_b64"
        try:
            if found.get("user_data_file"):
                key = "user_data_file"
                path = self.path.parent / found[key]
                data, mode = self._bytes(path, 4 * userdata.LIMIT)
                self._warn_readable(path, mode)
            data = userdata.substitute(data, given)
        except ConfigError as error:
            self._bad(section.entries[key], error.problems[0])
        except userdata.SubstitutionError as error:
            self._bad(section.entries[key], str(error))
        if len(data) > userdata.LIMIT:
            text = f"has {len(data)} bytes or more, the limit is {userdata.LIMIT}; fetch the rest at boot"
            self._bad(section.entries[key], text)
        return data

    # ------------------------------------------------------------------- between keys

    def _check_site(self, cloud: type[Cloud], pool: Pool, section: str, first: Pool, home: str) -> None:
        for option in cloud.OPTIONS:
            if option.site and pool.options[option.name] != first.options[option.name]:
                text = f"differs from [{home}], but both are the site {pool.site}, give both the same"
                self._complain(section, option.name, text)

    def _check_quota(self, least: int, most: Optional[int], pools: list[Pool]) -> None:
        if any(key in ("min_vms", "max_vms") for _, key in self.bad):
            return
        limit = float("inf") if most is None else most
        if least > limit:
            self._complain("quota", "min_vms", f"{least} is above max_vms, which is {most}")
        for pool in pools:
            if pool.max_vms is not None and pool.min_vms > pool.max_vms:
                text = f"{pool.min_vms} is above the pool's max_vms, which is {pool.max_vms}"
                self._complain(self.homes[pool.name], "min_vms", text)
        together = sum(pool.min_vms for pool in pools)
        if together > limit:
            text = f"{most} is below the pools' min_vms, which are {together} together"
            self._complain("quota", "max_vms", text)
        room = sum(float("inf") if pool.max_vms is None else pool.max_vms for pool in pools)
        if pools and room < least:
            text = f"{least} is above the pools' max_vms, which are {room:g} together"
            self._complain("quota", "min_vms", text)


def _inherit(base: Section, own: Section, options: Iterable[Option]) -> Section:
    """A pool's section with what it inherits: a key of its own replaces also those that exclude it."""
    mine = set(own.entries)
    replaced = {other for option in options if option.name in mine for other in option.excludes}
    replaced |= {option.name for option in options if mine.intersection(option.excludes)}
    inherited = {key: entry for key, entry in base.entries.items() if key not in replaced}
    return Section(own.name, own.line, {**inherited, **own.entries})
