"""HTCondor with its Python bindings: jobs are matched with machines by HTCondor's own rules, and queries may go by
them. Imported where the bindings seem to be there, or ``query_method = bindings`` asks for them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from elastiq import interfaces
from elastiq.interfaces import Owner
from elastiq.plugins.batch import htcondor
from elastiq.plugins.batch.htcondor_ads import Row
from elastiq.plugins.batch.htcondor_slots import SLOTS

if TYPE_CHECKING:
    from elastiq.plugins.batch.htcondor_bindings import Bindings


class BoundHTCondor(htcondor.HTCondor):
    """`htcondor.HTCondor` that can match. The helper process starts with the first question."""

    def __init__(self, values: Mapping[str, Any], owner: Owner) -> None:
        super().__init__(values, owner)
        self.can_match = htcondor.has_bindings()
        self.asks_by_bindings = values.get("query_method") == "bindings"

    @cached_property
    def _bindings(self) -> Bindings:
        from elastiq.plugins.batch.htcondor_bindings import Bindings

        return Bindings(self, "".join(self._pool[1:]), self._timeout_s)

    def match(
        self, groups: Sequence[interfaces.JobGroup], machines: Sequence[interfaces.Machine]
    ) -> Mapping[tuple[str, interfaces.Machine], str]:
        """By HTCondor's own library: Requirements and START, in both directions. See `htcondor_server`."""
        return self._bindings.match(groups, machines)

    def portrait(self, worker: str) -> str:
        """See `htcondor_portraits`."""
        args = ("-json", "-constraint", f'{SLOTS} && Machine == "{htcondor.checked_host(worker)}"')
        return self._bindings.portrait(self._ask("condor_status", *args)) if self.can_match else ""

    def _ask(self, tool: str, *args: str) -> list[Row]:
        found = self._bindings.rows(tool, args) if self.asks_by_bindings else None
        return super()._ask(tool, *args) if found is None else found
