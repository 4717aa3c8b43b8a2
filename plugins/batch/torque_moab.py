"""Which of Torque's jobs Moab holds back, by ``showq --xml``. Imported where the key ``showq`` names it.

The answer is ``<Data>`` with an element ``queue`` for each of ``option`` active, eligible and blocked, and in it
``job`` elements with ``DRMJID`` (Torque's name of the job; ``JobID`` is Moab's own, and may differ) and ``State``.
Eligible jobs wait for machines, blocked ones for something else: holds, limits, policies (``Deferred`` is also spelt
``Deffered``). With the completed jobs it is two documents in a row, after blank lines; a server that does not answer
is told in plain text instead (public captures).
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

from elastiq.errors import SourceError

DECLARATION = re.compile(r"<\?xml.*?\?>")


def blocked(text: str) -> dict[str, str]:
    """Of the jobs that Moab blocks, by their numbers as Torque has them (``77``, ``151[3]``), why: in its own word.
    Raises `SourceError`."""
    try:
        root = ElementTree.fromstring(f"<all>{DECLARATION.sub('', text)}</all>")
    except ElementTree.ParseError:
        root = ElementTree.Element("none")
    queues = {queue.get("option"): queue for queue in root.iterfind("Data/queue")}
    if not {"eligible", "blocked"} <= queues.keys():
        raise SourceError(f"showq answered something that it should not ({' '.join(text[:200].split())[:60]!r})")
    found = {}
    for job in queues["blocked"].iterfind("job"):
        name = job.get("DRMJID") or job.get("JobID") or ""
        found[number(name)] = f"Moab blocks it ({job.get('State') or 'no state told'})"
    return found


def number(name: str) -> str:
    """A job's number without its server."""
    return name.partition(".")[0]
