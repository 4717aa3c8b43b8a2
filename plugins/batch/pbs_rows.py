"""What PBS's commands print -> records of text: Torque's XML, PBS Pro's JSON, and the plain text of both. Pure.

A record has a name and attributes, their names in lower case, resources as ``resource_list.ncpus``; every value is the
text that was printed, numbers too.

Facts, from the sources of qstat and pbsnodes (OpenPBS 20-23, Torque 2.5-6.1), and from public captures:
an empty queue is zero bytes in older versions of Torque, ``<Data></Data>`` in newer ones, and in PBS Pro a JSON object
without the member ``Jobs``. PBS Pro's JSON is not always JSON: a variable of a job's environment with a quote, a
backslash or a number such as ``005`` breaks it (openpbs issues 1255, 2541, pull requests 830, 1033, 2049, 2603). The
plain text of the same answer is whole then, and is asked for.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence
from xml.etree import ElementTree

from elastiq.interfaces import SourceError

POOL = "elastiq_pool"  # of a job's environment: the only variable that we look at
OF_JOBS = frozenset({"job_state", "queue", "comment", "job_owner", "exec_host", "schedselect", f"variable_list.{POOL}"})
OF_ARRAYS = frozenset(
    "array_state_count array_indices_remaining array_indices_submitted max_run_subjobs job_array_request".split()
)
KEPT = OF_JOBS | OF_ARRAYS
# XML 1.0 has no such characters, and Torque writes them as they are.
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|&#(?:[0-8]|1[1-2]|1[4-9]|2\\d|3[01]);")
HEADER = re.compile(r"(?:Job Id|Queue|Server): *(\S+)")
ATTRIBUTE = re.compile(r" {4,5}([A-Za-z][\w.]*) = ?(.*)")


class Record(NamedTuple):
    """A job, a node, a queue or a server, as it was printed."""

    name: str
    attributes: Mapping[str, str]

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    def resources(self, of: str) -> Iterator[tuple[str, str]]:
        """The resources of an attribute, as ``resource_list``, by their own names."""
        prefix = f"{of}."
        return ((key[len(prefix) :], value) for key, value in self.attributes.items() if key.startswith(prefix))


class Malformed(SourceError):
    """The answer has the frame of its form, and something else inside; the plain text of the same may be whole."""


def _said(what: str, text: str, begin: str = "", end: str = "") -> SourceError:
    """`Malformed` if it begins and ends as it should, so that it is all that was to be said."""
    framed = begin and text.lstrip()[:60].startswith(begin) and text[-60:].rstrip().endswith(end)
    error = Malformed if framed else SourceError
    return error(f"{what} answered something that it should not ({' '.join(text[:200].split())[:60]!r})")


# --------------------------------------------------------------------------- XML (Torque)


def from_xml(text: str, what: str, kind: str, name: str) -> list[Record]:
    """The elements ``kind`` of a document ``Data``, each with its name in the element ``name``."""
    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    found: list[Record] = []
    root: Optional[ElementTree.Element] = None
    try:
        for begin in range(0, len(text), 1_000_000):
            parser.feed(NOT_XML.sub("?", text[begin : begin + 1_000_000]))
            for event, element in parser.read_events():
                if root is None:
                    root = element
                if event == "end" and element.tag == kind:
                    found.append(_record(element, name))
                    root.clear()  # so that ten thousand jobs are never all there as elements
        parser.close()
    except (ElementTree.ParseError, ValueError):
        root = None
    if root is None or root.tag != "Data" or any(not record.name for record in found):
        raise _said(what, text, "<", "</Data>")
    return found


def _record(element: ElementTree.Element, name: str) -> Record:
    attributes: dict[str, str] = {}
    for child in element:
        key = child.tag.lower()
        if len(child):
            attributes.update({f"{key}.{leaf.tag.lower()}": (leaf.text or "").strip() for leaf in child})
        else:
            attributes.setdefault(key, (child.text or "").strip())
    return Record(element.findtext(name, "").strip(), _slim(attributes))


# --------------------------------------------------------------------------- JSON (PBS Pro, OpenPBS)


def from_json(text: str, what: str, kind: str) -> list[Record]:
    """The members of the object ``kind``. Of jobs it is not there if there are none, of nodes it always is."""
    try:
        parsed = json.loads(
            text, strict=False, object_pairs_hook=_object, parse_int=str, parse_float=str, parse_constant=str
        )
    except (ValueError, RecursionError):
        raise _said(what, text, "{", "}") from None
    if not isinstance(parsed, dict) or "pbs_version" not in parsed or (kind != "Jobs" and kind not in parsed):
        raise _said(what, text)
    members = parsed.get(kind, {})
    if not isinstance(members, dict) or not all(isinstance(one, dict) for one in members.values()):
        raise _said(what, text)
    return [Record(name, _slim(_flat(member))) for name, member in members.items()]


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A key that comes twice is in old versions the rest of the same object; an environment is all but dropped."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            known.update(value)
        else:
            found.setdefault(key, value)
    environment = any(key.startswith("PBS_O_") for key in found)
    return {key: value for key, value in found.items() if key.lower() == POOL} if environment else found


def _flat(member: Mapping[str, Any]) -> dict[str, str]:
    flat = {}
    for key, value in member.items():
        if isinstance(value, dict):
            flat.update({f"{key}.{inner}".lower(): str(text) for inner, text in value.items()})
        elif isinstance(value, list):
            flat[key.lower()] = ",".join(map(str, value))
        elif value is not None:
            flat[key.lower()] = str(value)
    return flat


# --------------------------------------------------------------------------- text (both)


def from_text(text: str, what: str, nodes: bool = False) -> list[Record]:
    """The plain form: a header, indented lines ``name = value``, of which long ones go on after a tab. Of ``nodes``
    the header is the name alone. A value may hold the line of another attribute: what came first counts."""
    found: list[tuple[str, dict[str, str]]] = []
    last = ""
    for line in text.split("\n"):
        header = (line.strip() if nodes and line[:1].strip() else "") or _group(HEADER.match(line))
        attribute = ATTRIBUTE.match(line)
        if header:
            found.append((header, {}))
            last = ""
        elif line.startswith("\t") and found and last:
            found[-1][1][last] += line[1:].rstrip("\r")
        elif attribute and found:
            name = attribute[1].lower()
            last = "" if name in found[-1][1] else name
            found[-1][1].setdefault(name, attribute[2].rstrip("\r"))
    # Each ends with an empty line: what does not was cut.
    if (text.strip() and not (found and text.endswith("\n\n"))) or (
        nodes and any(not attributes for _, attributes in found)
    ):
        raise _said(what, text)
    return [Record(name, _slim(attributes)) for name, attributes in found]


def _group(match: Optional[re.Match[str]]) -> str:
    return match[1] if match else ""


def _slim(attributes: dict[str, str]) -> dict[str, str]:
    """Of a job what we look at, of its environment the pool alone: it is some 40 attributes, and there may be very many
    jobs, most of them alike."""
    environment = attributes.pop("variable_list", "")
    pool = re.search(rf"(?:^|,){POOL}=([^,]*)", environment, re.IGNORECASE)
    if pool:
        attributes[f"variable_list.{POOL}"] = pool[1]
    if "job_state" not in attributes:
        return attributes
    kept = ((name, value) for name, value in attributes.items() if name in KEPT or name.startswith("resource_list."))
    return {sys.intern(name): sys.intern(value) for name, value in kept}
