"""Which dialect of EC2's language a cloud speaks. The table of what each can do is ec2_dialects.ini."""

from __future__ import annotations

import re
from configparser import ConfigParser, SectionProxy
from pathlib import Path
from typing import Any, Mapping
from urllib.parse import urlsplit

TABLE = ConfigParser(interpolation=None, delimiters=("=",), default_section="common")
TABLE.read_string(Path(__file__).with_name("ec2_dialects.ini").read_text("utf-8"))


def dialect_of(options: Mapping[str, Any]) -> tuple[SectionProxy, str]:
    """The dialect of a site, and one line that says why."""
    name, own, why = options.get("dialect") or "auto", of_endpoint(options), "set by `dialect`"
    if name == "auto":
        name, why = (own, "its endpoint's") if own else ("generic", "set `dialect` if you know a nearer one")
    return TABLE[name], f"dialect {name}: {why}"


def of_endpoint(options: Mapping[str, Any]) -> str:
    """The dialect of an endpoint that can be no other cloud's, else empty."""
    url = urlsplit(options.get("api_url") or "")
    place = f"{url.hostname or ''}{url.path or '/'}"
    return next((one for one in TABLE.sections() if (form := TABLE[one]["endpoints"]) and re.search(form, place)), "")
