"""The log as JSON, one object a line: `log_format = json`. An event's fields are keys beside `event` (docs/logs.md)."""

from __future__ import annotations

import logging
import pkgutil
from contextlib import suppress
from typing import Any

from elastiq.inifile import ConfigError

RENAMED = {"asctime": "time", "levelname": "level", "name": "logger"}


class _Flat:
    """Put before the library's formatter."""

    def add_fields(self, made: dict[str, Any], record: logging.LogRecord, message: dict[str, Any]) -> None:
        super().add_fields(made, record, message)  # type: ignore[misc]
        for key, value in (made.pop("fields", None) or {}).items():
            made.setdefault(key, value)


def json_formatter(line: str, time: str) -> logging.Formatter:
    """Of python-json-logger; ``line`` names what is to be in it, ``time`` is strftime's form. Raises `ConfigError`
    where the library is absent."""
    for module in ("json", "jsonlogger"):  # the second name before 3.1
        with suppress(ImportError, AttributeError):
            library: Any = pkgutil.resolve_name(f"pythonjsonlogger.{module}.JsonFormatter")
            made: logging.Formatter = type("JsonFormatter", (_Flat, library), {})(line, time, rename_fields=RENAMED)
            return made
    raise ConfigError(["[elastiq] log_format: json needs python-json-logger, install it or write text"])
