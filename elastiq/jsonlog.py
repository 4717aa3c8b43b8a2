"""The log as JSON, one object a line: `log_format = json`."""

from __future__ import annotations

import logging
import pkgutil
from contextlib import suppress
from typing import Callable

from elastiq.inifile import ConfigError


def json_formatter(line: str, time: str) -> logging.Formatter:
    """Of python-json-logger; ``line`` names what is to be in it, ``time`` is strftime's form. Raises `ConfigError`
    where the library is absent."""
    for module in ("json", "jsonlogger"):  # the second name before 3.1
        with suppress(ImportError, AttributeError):
            make: Callable[..., logging.Formatter] = pkgutil.resolve_name(f"pythonjsonlogger.{module}.JsonFormatter")
            return make(line, time, rename_fields={"asctime": "time", "levelname": "level", "name": "logger"})
    raise ConfigError(["[elastiq] log_format: json needs python-json-logger, install it or write text"])
