"""The conformance suites: what every implementation of a contract must do, the simulated ones included."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, TypeVar

import pytest

pytest.register_assert_rewrite("tests.conformance.batch", "tests.conformance.cloud")

Test = TypeVar("Test", bound=Callable[..., Any])


def needs(ability: str) -> Callable[[Test], Test]:
    """Mark a test of something that not every system can do."""

    def mark(test: Test) -> Test:
        test.needs = ability  # type: ignore[attr-defined]
        return test

    return mark


class Conformance:
    """A suite. A subclass names in ``cannot`` what its system cannot do; those tests are not collected,
    so that nothing is skipped at run time and nothing passes without having looked."""

    cannot: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in dir(cls):
            if getattr(getattr(cls, name), "needs", None) in cls.cannot:
                setattr(cls, name, None)
