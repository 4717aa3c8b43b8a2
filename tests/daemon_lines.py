"""Count our lines that a default daemon (HTCondor and EC2) imports: python3 -m tests.daemon_lines

Imports inside functions count too: the daemon may come to them. Those inside a method ``checks`` do not:
the daemon never calls it, a person does before the daemon runs; nor do the modules that ON_DEMAND names, each
with what asks for it. tests/integration/test_daemon_lines.py watches a daemon at work. An administrator who
wants to know what runs on the head node should be able to read it, so the number has a limit. The limit is for
lines of code: what explains them, and blank lines, cost the reader nothing; both numbers are printed.
With --all, every module is listed.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 5000
# Imported in a function, and by few daemons: a key asks for it, as for a plugin, or an event that most never see.
ON_DEMAND = {
    "elastiq.adoption": "elastiqctl adopt",
    "elastiq.black_holes": "a machine that may be one",
    "elastiq.consolidation": "consolidate = yes",
    "elastiq.cooldown": "a cooldown_after_ key",
    "elastiq.coprocess": "HTCondor's bindings",
    "elastiq.leaving": "a notice of the cloud, a drained pool, max_vm_lifetime_s, or a changed image",
    "elastiq.in_turns": "job_length_s",
    "elastiq.matching": "a batch system that can match",
    "elastiq.plugins.batch.htcondor_bound": "HTCondor's Python bindings, where they are there",
    "elastiq.plugins.batch.htcondor_bindings": "query_method = bindings, or bindings that are there",
    "elastiq.plugins.batch.htcondor_own_ads": "Requirements that are not just what condor_submit writes on x86_64",
    "elastiq.plugins.batch.htcondor_portraits": "HTCondor's bindings",
    "elastiq.plugins.batch.htcondor_refusals": "a drain that is refused or undone",
    "elastiq.policies": "a policy other than cheapest",
    "elastiq.sizing": "offers of several sizes, or a job that needs several machines",
    "elastiq.stopped": "a machine that was stopped",
    "elastiq.stopping": "idle_action = stop",
    "elastiq.pool_service": "elastiqctl drain-pool",
    "elastiq.by_force": "elastiqctl terminate",
    "elastiq.by_hand": "elastiqctl drain, undrain or terminate",
    "elastiq.pausing": "elastiqctl pause or resume",
    "elastiq.scaling": "elastiqctl scale, or a section [schedule:NAME]",
    "elastiq.commanding": "a command of elastiqctl, as adopt or reload",
    "elastiq.complaints": "an unknown key or section, or no cluster_name",
    "elastiq.discrepancies": "an instance that nobody knew, that the cloud does not list, or calls broken",
    "elastiq.doubtful_ends": "a machine that never joined, a worker that is lost, or an end that takes no effect",
    "elastiq.exits": "a daemon that cannot start",
    "elastiq.failed_boots": "a machine that never joined",
    "elastiq.failed_drains": "a drain that failed, or is undone",
    "elastiq.failed_launches": "a launch that was refused, or whose outcome is not known",
    "elastiq.faults": "a bug, or a store that cannot be written",
    "elastiq.findings": "another head's instances, or such as a lost state does not know",
    "elastiq.further_pools": "a section [ec2:NAME]",
    "elastiq.explain": "a client that asks for the status",
    "elastiq.headid": "a machine without an id",
    "elastiq.history": "a limit of launches or cost",
    "elastiq.holder": "another elastiq that has the same directories or cluster",
    "elastiq.hooks": "a section [hooks]",
    "elastiq.journal": "standard error that may lead to systemd's journal",
    "elastiq.jsonlog": "log_format = json",
    "elastiq.limits": "a limit of launches or cost",
    "elastiq.logfiles": "--logdir",
    "elastiq.long_paths": "a run directory whose path is too long for a socket",
    "elastiq.markets": "a market",
    "elastiq.minima": "a min_vms or min_idle_vms, or a notice of the cloud",
    "elastiq.metrics": "a section [metrics], or elastiqctl metrics",
    "elastiq.misread": "a line of the file that cannot be used",
    "elastiq.names": "a plugin that is not built in",
    "elastiq.plugins.batch.htcondor_expressions": "a request that is an expression of its own, or measured much",
    "elastiq.plugins.batch.htcondor_lookups": "a worker that was lost, or elastiqctl explain JOB",
    "elastiq.plugins.batch.htcondor_requirements": "a job with Requirements of its own",
    "elastiq.plugins.batch.htcondor_special": "a job with a pool, a limit, an accounting group, or several machines",
    "elastiq.plugins.cloud.ec2_acts": "a refused end, idle_action = stop, or elastiqctl adopt",
    "elastiq.plugins.cloud.ec2_alikes": "a cloud that is not AWS",
    "elastiq.plugins.cloud.ec2_errors": "a call that failed",
    "elastiq.plugins.cloud.ec2_eucalyptus": "a Eucalyptus cloud",
    "elastiq.plugins.cloud.ec2_extras": "a refused launch",
    "elastiq.plugins.cloud.ec2_interfaces": "network_interfaces",
    "elastiq.plugins.cloud.ec2_notices": "interruption_queue",
    "elastiq.plugins.cloud.ec2_problems": "an instance that the cloud calls impaired",
    "elastiq.plugins.cloud.ec2_rare_values": "a key that few files have",
    "elastiq.plugins.cloud.ec2_regions": "no region, or an interruption_queue",
    "elastiq.plugins.cloud.ec2_telling": "a call that failed",
    "elastiq.plugins.cloud.ec2_volumes": "root_disk_gb, or an image whose volumes outlive their instance",
    "elastiq.plugins.cloud.ec2_watch": "a section [metrics], or elastiqctl metrics",
    "elastiq.notify": "a service manager that names a socket, as systemd does",
    "elastiq.protocol": "a client of the control socket",
    "elastiq.notices": "a notice of the cloud",
    "elastiq.preparing": "a batch system that prepares launches or registers machines",
    "elastiq.prices": "a price or a cap on the cost",
    "elastiq.quotas": "a min_vms, min_idle_vms or max_vm_lifetime_s, or prefer = wait",
    "elastiq.rare_values": "a key that few files have, or a number that is none",
    "elastiq.refusals": "a launch that was refused, a machine that never joined, or a notice of the cloud",
    "elastiq.extras": "a section [hooks], [metrics] or [web]",
    "elastiq.reload": "SIGHUP or elastiqctl reload",
    "elastiq.seldom": "consolidate, a notice of the cloud, or a machine that may be a black hole",
    "elastiq.taken": "a machine that others have got, or that leaves, before a job of its own",
    "elastiq.serving": "a client of the control socket",
    "elastiq.schedule": "a section [schedule:NAME]",
    "elastiq.sites": "a node at a site that is not configured",
    "elastiq.status": "a client that asks for the status",
    "elastiq.telling": "a client that asks for the status",
    "elastiq.timetable": "a section [schedule:NAME]",
    "elastiq.strangers": "a worker that is no machine of ours",
    "elastiq.torn": "a state file that is corrupt, another's, or cannot be opened",
    "elastiq.unserved": "a job that does not start on the machine that was launched for it",
    "elastiq.unsettled": "a view of the workers that is not believed",
    "elastiq.useless": "a machine that never joined, failed or was lost",
    "elastiq.untried": "a machine that never came, or ended before its jobs had started",
    "elastiq.userdata": "user data",
    "elastiq.web": "a section [web]",
    "elastiq.web.document": "a section [web]",
    "elastiq.web.feed": "a section [web]",
    "elastiq.web.kept": "a section [web]",
    "elastiq.web.news": "a section [web]",
    "elastiq.web.page": "a section [web]",
    "elastiq.web.server": "a section [web]",
    "elastiq.web.trend": "a section [web]",
}
ENTRIES = ("elastiq.service", "elastiq.plugins.batch.htcondor", "elastiq.plugins.cloud.ec2")


def file_of(module: str) -> Path | None:
    """The source of a module of ours, None if there is none of that name."""
    base = ROOT.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def imports(path: Path, module: str) -> Iterator[str]:
    """Every name that a file imports, but for what only the type checker sees, or only ``checks()``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unseen = {
        inner
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"))
        or (isinstance(node, ast.FunctionDef) and node.name == "checks")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            origin = ".".join([*parent, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imported_by(entries: tuple[str, ...]) -> dict[str, Path]:
    """Our modules that these come to import, with their files."""
    found: dict[str, Path] = {}
    todo = list(entries)
    while todo:
        module = todo.pop()
        path = file_of(module)
        if path is None or module in {*found, *ON_DEMAND} or module.partition(".")[0] != "elastiq":
            continue
        found[module] = path
        todo.extend(imports(path, module))
        todo.append(module.rpartition(".")[0])
    return found


NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def lines_of_code(text: str) -> int:
    """Lines that are neither blank nor all comment or docstring."""
    explained: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            first = node.body[0]
            explained.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - explained)


def main() -> int:
    missing = [entry for entry in ENTRIES if file_of(entry) is None]
    if missing:
        print(f"not found: {', '.join(missing)}", file=sys.stderr)
    texts = {name: path.read_text(encoding="utf-8") for name, path in imported_by(ENTRIES).items()}
    code = {name: lines_of_code(text) for name, text in texts.items()}
    total = sum(code.values())
    print(
        f"{total} lines of code in {len(code)} modules of ours, at most {LIMIT}"
        f" ({sum(text.count(chr(10)) for text in texts.values())} with docstrings, comments and blank lines)"
    )
    largest = sorted(code.items(), key=lambda item: -item[1])
    print("the largest: " + ", ".join(f"{name.removeprefix('elastiq.')} {lines}" for name, lines in largest[:10]))
    seldom = {name: path for name in ON_DEMAND if (path := file_of(name))}
    extra = {name: lines_of_code(path.read_text(encoding="utf-8")) for name, path in seldom.items()}
    print(f"on demand: {sum(extra.values())} more in {', '.join(name.removeprefix('elastiq.') for name in extra)}")
    for name, lines in largest if "--all" in sys.argv else ():
        print(f"{lines:5} {name}")
    return 1 if missing or total > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
