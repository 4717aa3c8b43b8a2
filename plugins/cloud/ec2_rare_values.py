"""What is wrong with the values of keys that few files have; each returns a complaint, or an empty string.

Imported for the first of them.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping
from urllib.parse import urlsplit

from elastiq.plugins.cloud.ec2_dialects import of_endpoint

TAG_LIMIT = 40
"""EC2 allows 50 tags on an instance; the rest is for elastiq's own and the cloud's."""

INSTANCE = {"/sys/class/dmi/id/board_asset_tag": "i-", "/sys/hypervisor/uuid": "ec2"}


def url(value: str) -> str:
    try:
        found = urlsplit(value)
        good = found.scheme in ("http", "https") and found.hostname and found.port != 0 and not re.search(r"\s", value)
    except ValueError:  # a port that is no number, half an IPv6 address
        good = False
    return "" if good else "is not a URL, write https://HOST[:PORT]/PATH"


def api_url(value: str) -> str:
    return url(value) or ("holds a user name, write it under its own keys" if "@" in urlsplit(value).netloc else "")


def dialect(values: Mapping[str, Any]) -> str:
    """A warning of a dialect that surely is not its endpoint's. `generic` claims nothing, and who speaks `aws`
    elsewhere may well do so: there the endpoint says nothing."""
    name, own = values["dialect"], of_endpoint(values)
    certain = own and name not in ("auto", "generic", own)
    return f"is {name}, but api_url is an endpoint of {own}: correct one, or leave `dialect` out" if certain else ""


def template(value: str) -> str:
    fits = re.fullmatch(r"[^:]+(:([0-9]+|\$(Latest|Default)))?", value)
    return "" if fits else "is not ID-OR-NAME[:VERSION] (a number, $Latest, $Default)"


def name_template(value: str) -> str:
    fits = re.fullmatch(r"([^{}]|\{\{|\}\}|\{(cluster|pool|intent)\})*", value)
    return "" if fits else "knows only {cluster}, {pool}, {intent}, and no unpaired brace"


def readable(value: str) -> str:
    """Of one that is not there, and of one that is not for us, the words that the configuration's own reading has."""
    try:
        os.stat(value)  # denied where its directory is not for us
        regular, allowed = os.path.isfile(value), os.access(value, os.R_OK)
        why = os.strerror(errno.EACCES) if regular else "it is not a regular file"
    except (OSError, ValueError) as error:
        regular, allowed, why = False, False, getattr(error, "strerror", None) or "not a file's name"
    return "" if regular and allowed else f"cannot be read ({why}), check name and permissions"


class Given(str):
    """The path of the copy that systemd gave to the service."""

    original: str


def copy(value: str) -> str:
    """Where a file of keys is: what systemd gave to the service under its name (LoadCredential=, systemd.exec(5)) goes
    before the file itself, which may be for root alone."""
    its = Given(os.path.join(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent"), os.path.basename(value)))
    its.original = value
    return its if os.path.isfile(its) else value


def leak(values: Mapping[str, Any]) -> str:
    """Of a file of keys that everybody can read or change, also where the service reads a copy of it."""
    path = original(values["credentials_file"])
    return f"{path} holds a secret and is open to all users, run `chmod o= {path}`" if is_open(path) else ""


def original(path: str) -> str:
    """The file that the configuration names, of one that `copy` found."""
    return path.original if isinstance(path, Given) else path


def is_open(path: str) -> bool:
    """Whether everybody can read or change a file: whoever asks, which may be root, or not be let in its directory."""
    try:
        real = Path(os.path.realpath(path))
        way_in = all(one.stat().st_mode & stat.S_IXOTH for one in real.parents)
        return way_in and bool(real.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))
    except OSError:
        return False


def no_region(values: Mapping[str, Any]) -> str:
    """Of AWS without a region where botocore most likely finds none either: neither in the environment nor in a file
    of its own, nor in the metadata of a head node that is an instance."""
    name = values["profile"] or os.environ.get("AWS_DEFAULT_PROFILE") or os.environ.get("AWS_PROFILE") or "default"
    files = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
    paths = [os.environ.get(variable) or path for variable, path in files.items()]
    if os.environ.get("AWS_DEFAULT_REGION") or _on_instance() or any(_has_region(path, name) for path in paths):
        return ""
    return f"is not set, nor api_url, and neither AWS_DEFAULT_REGION nor profile {name} of {paths[0]} says it; set it"


def _on_instance() -> bool:
    """Whether this machine is an instance of AWS, whose metadata has a region ("Detect whether a host is an EC2
    instance", Amazon EC2 User Guide; the first is Nitro's, the other Xen's)."""
    for place, begin in INSTANCE.items():
        with suppress(OSError, ValueError):
            if Path(place).read_text("ascii").startswith(begin):
                return True
    return False


def _has_region(path: str, profile: str) -> bool:
    """Whether a file in the form of ~/.aws/config has a region for the profile; also if it cannot be read here, since
    botocore will say what is wrong with it."""
    parser = ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(os.path.expanduser(path), "utf-8")
    except (OSError, ValueError, ConfigParserError):
        return True
    return any(parser.get(section, "region", fallback="") for section in (profile, f"profile {profile}"))


def no_flavour(values: Mapping[str, Any]) -> str:
    """Of AWS without a flavour; a launch template may name one, and other clouds have defaults of their own."""
    if values["launch_template"] or (values["api_url"] and of_endpoint(values) != "aws"):
        return ""
    return "is all that a launch names: without `flavour` AWS takes its oldest, m1.small, if any; set flavour"


def interfaces(value: tuple[str, ...]) -> str:
    wrong = [entry for entry in value if not re.fullmatch(r"[^:]+(:[^:+]+(\+[^:+]+)*)?", entry)]
    return f"`{wrong[0]}` is not of the form SUBNET or SUBNET:GROUP+GROUP" if wrong else ""


def spot_price(value: float) -> str:
    return "" if value > 0.001 else "must be above 0.001"  # EC2 API Reference, SpotMarketOptions


def tags(value: Mapping[str, str]) -> str:
    for key, text in value.items():
        if key.lower().startswith(("aws:", "elastiq:")):
            return f"`{key}`: the prefixes aws: and elastiq: are reserved"
        if key == "Name":
            return "`Name`: use name_template"
        if len(key) > 128 or len(text) > 256:
            return f"`{key[:40]}`: EC2 takes 128 characters for a key and 256 for a value"
    return "" if len(value) <= TAG_LIMIT else f"are more than {TAG_LIMIT}"
