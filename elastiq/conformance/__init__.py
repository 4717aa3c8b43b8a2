"""The conformance suites: what every implementation of a contract must do, the simulated ones included.

They are for the tests of a plugin, whoever wrote it (docs/plugins.md), and need pytest. A suite is a class of tests;
it sets up situations by a bench that the plugin's author writes, and looks at them through the contract only.
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Iterator, Mapping, TypeVar

import pytest

from elastiq.interfaces import Check, Looks, SourceError

for _suite in ("bench", "batch", "drains", "ends", "jobs", "scale", "workers", "cloud", "cloud_bench"):
    pytest.register_assert_rewrite(f"{__name__}.{_suite}")

Test = TypeVar("Test", bound=Callable[..., Any])


def needs(*abilities: str) -> Callable[[Test], Test]:
    """Mark a test of something that not every system can do."""

    def mark(test: Test) -> Test:
        test.needs = frozenset(abilities)  # type: ignore[attr-defined]
        return test

    return mark


class Conformance:
    """A suite. A subclass names in ``cannot`` what its system cannot do, each with the reason; those tests are not
    collected, so that nothing is skipped at run time and nothing passes without having looked."""

    cannot: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        asked = {name: needed for name in dir(cls) if (needed := getattr(getattr(cls, name), "needs", None))}
        if cls.cannot:
            _look_at(cls, frozenset().union(*asked.values()))
        for name, needed in asked.items():
            if needed & cls.cannot.keys():
                setattr(cls, name, None)


def _look_at(cls: type[Conformance], known: frozenset[str]) -> None:
    if not isinstance(cls.cannot, Mapping) or not all(cls.cannot.values()):
        raise TypeError(f"{cls.__name__}.cannot is a mapping: of each ability that is missing, the reason")
    unknown = cls.cannot.keys() - known
    if unknown:
        raise TypeError(f"no test of {cls.__name__} needs {', '.join(sorted(unknown))}, but {', '.join(sorted(known))}")


def found(looks: Looks) -> list[Check]:
    """What all checks of a plugin find, each look made by itself; a look that finds nothing out is unknown."""
    return [check for subject, look in looks.items() for check in _made(subject, look)]


def _made(subject: str, look: object) -> Iterator[Check]:
    assert callable(look)
    try:
        yield from list(look())
    except SourceError as error:
        yield Check(subject, "unknown", str(error))


def assert_found_something(looks: Looks) -> None:
    """Every check is one that a person can use."""
    checks = found(looks)
    assert checks and {"ok", "warning", "error", "unknown"} >= {check.level for check in checks}
    for check in checks:
        assert isinstance(check, Check) and check.subject and check.text and "\n" not in check.text + check.remedy
        assert check.remedy or check.level in ("ok", "unknown"), check
