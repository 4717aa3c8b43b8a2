"""What of a job's own ad decides, beside its request, which machines run it. Pure.

Imported for jobs whose Requirements are not just what condor_submit writes on x86_64 (`BY_DEFAULT`).
"""

from __future__ import annotations

import json
import re

from elastiq.plugins.batch.htcondor_ads import Row
from elastiq.plugins.batch.htcondor_requirements import DEFAULT_CLAUSES, requirements

BY_DEFAULT = '(TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX")'
# The clauses that the request, or any worker, answers.
OF_SIZES = DEFAULT_CLAUSES - {
    *('arch=="x86_64"', 'opsys=="linux"', "countmatches(requiregpus,availablegpus)>=requestgpus")
}
# Of a job these change, or differ from job to job: they make no shape, whatever refers to them.
VARYING = re.compile(
    r"requirements|request(cpus|memory|disk|gpus)|jobstatus|clusterid|procid|qdate|machineattr\w*|remote\w*|last\w*"
    r"|num(job|shadow|system|restart)\w*|enteredcurrent\w*|cumulative\w*|job\w*(date|count)"
    r"|(image|disk|memory|residentset|proportionalset)(size|usage)\w*",
    re.IGNORECASE,
)


def conditions_of(row: Row) -> tuple[str, tuple[str, ...]]:
    """The job's Requirements without HTCondor's default clauses, and its own ad, empty where it is as any other."""
    conditions = requirements(row.get("requirements"))
    if conditions or "requiregpus" in row or '"X86_64"' not in str(row.get("requirements")):
        return conditions, own_ad(row)
    return "", ()


def own_ad(row: Row) -> tuple[str, ...]:
    """What decides, beside the request, which machines run the job: its Requirements, and the attributes of its
    own that these refer to; each a line ``name = value`` with a value of JSON. Never empty."""
    text = requirements(row.get("requirements"), OF_SIZES)
    found, todo = {"requirements": f"/Expr({text or 'true'})/"}, [text]
    while todo:
        for name in map(str.lower, re.findall(r"[A-Za-z_]\w*", todo.pop())):
            if name in row and name not in found and not VARYING.fullmatch(name):
                found[name] = row[name]
                todo.append(str(row[name]))
    return tuple(f"{name} = {json.dumps(value)}" for name, value in sorted(found.items()))
