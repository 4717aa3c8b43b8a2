"""Celery's broker, asked through the helper process (`celery_server`), which one deadline can kill."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional
from urllib.parse import unquote

from elastiq.command import CommandError, CommandNotFound
from elastiq.coprocess import Coprocess
from elastiq.errors import SourceError
from elastiq.plugins.batch.celery_options import broker_url, transport_options

SERVER = Path(__file__).with_name("celery_server.py")
SYSTEM_PYTHON = "/usr/bin/python3"  # distributions' packages have kombu for this one
ALARM_S = 2.0  # after the deadline a helper ends itself, if there is nobody to kill it
GET_IT = "install python3-kombu and, for Redis, python3-redis, or `pip install elastiq[celery]` where elastiq is"


class Helper:
    """The helper processes of one broker. Any thread may call."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values, self._timeout_s = values, float(values["command_timeout_s"])
        self.url_file: Optional[str] = values.get("broker_url_file")
        pythons = [path for path in dict.fromkeys((sys.executable, SYSTEM_PYTHON)) if path]
        self.processes = [Coprocess((python, str(SERVER))) for python in pythons]

    def ask(self, what: str, do: str, **more: Any) -> Mapping[str, Any]:
        """The answer of `celery_server` to one request; ``what`` names it for a person. Raises `SourceError`, which
        holds no password, whatever a library wrote into its error."""
        values = self._values
        url, options = broker_url(values), transport_options(values)
        request = {
            "do": do,
            "url": url,
            "options": options,
            "ca_file": values.get("broker_ca_file"),
            "namespace": values["control_exchange"],
            "reply_s": values["reply_timeout_s"],
            "timeout_s": self._timeout_s + ALARM_S,
            **more,
        }
        try:
            return self._answer(what, json.dumps(request).encode())
        except SourceError as error:
            raise type(error)(hidden(str(error), url, options)) from None

    def _answer(self, what: str, line: bytes) -> Mapping[str, Any]:
        absent = []
        for helper in self.processes:
            try:
                said = json.loads(helper.ask(line, self._timeout_s))
            except CommandNotFound as error:
                said = {"absent": str(error)}
            except CommandError as error:
                raise SourceError(f"{what} failed: {error}") from None
            except ValueError:
                helper.close()
                raise SourceError(f"{what} failed: the helper process's answer is no JSON") from None
            if "error" in said:
                helper.close()  # what the library remembers of its connections may be what is wrong
                raise SourceError(f"{what} failed: {said['error']}")
            if "absent" not in said:
                self.processes = [helper]
                answer: Mapping[str, Any] = said
                return answer
            absent.append(said["absent"])
            helper.close()
        raise NoKombu(f"no Python here has kombu, Celery's library ({'; '.join(absent)}): {GET_IT}")


class NoKombu(SourceError):
    """There is none on this machine."""


def hidden(text: str, url: str, options: Mapping[str, Any]) -> str:
    """The text without the passwords of a broker's URL (there may be several, separated by semicolons) and of the
    transport's options."""
    found = {url, *_texts(options)}
    for one in url.split(";"):
        # Up to the last @: whoever forgot to quote his password has the more need of it.
        secret = one.partition("://")[2].rpartition("@")[0].partition(":")[2]
        found |= {one, secret, unquote(secret), one.partition("?")[2]}
    for secret in sorted(found - {""}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _texts(value: Any, secret: bool = False) -> Iterator[str]:
    """The passwords in what was read from JSON."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, secret or "pass" in key.lower())
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, secret)
    elif secret and isinstance(value, str):
        yield value
