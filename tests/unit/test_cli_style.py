"""What a terminal shows: colour where it is wanted, text by its width there."""

from __future__ import annotations

import io

import pytest

from elastiq.cli import style


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("environment", "on_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"CLICOLOR": "1"}, True, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR_FORCE": "0"}, True, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_colour_is_for_terminals_and_as_the_environment_wants_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], on_terminal: bool, in_pipe: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (style.wants_colour(Terminal()), style.wants_colour(io.StringIO())) == (on_terminal, in_pipe)


def test_without_a_terminal_a_line_is_as_wide_as_it_takes() -> None:
    assert style.width_of(io.StringIO()) == style.WIDE


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("\uff46", 2), ("", 0)])
def test_width_is_counted_in_columns_of_a_terminal(text: str, width: int) -> None:
    assert style.columns(text) == width
    assert style.columns(style.pad(text, 9)) == 9


@pytest.mark.parametrize(("text", "width", "left"), [("日本語", 4, "日本"), ("日本語", 3, "日"), ("abc", 2, "ab")])
def test_what_is_cut_is_never_too_wide(text: str, width: int, left: str) -> None:
    assert style.cut(text, width) == left


@pytest.mark.parametrize("width", [1, 2, 7, 20])
@pytest.mark.parametrize(
    "text", ["", "a " * 40, "word" * 20, "日本語 " * 9, "  indented as its first line is", "e\u0301" * 30]
)
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = style.wrap(text, width)
    assert all(style.columns(line) <= max(2, width) for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_further_lines_are_indented_and_the_first_as_the_text_is() -> None:
    assert style.wrap("  ! one two three", 9, "    ") == ["  ! one", "    two", "    three"]
    assert style.wrap("", 9, "    ") == [""]


def test_foreign_text_commands_no_terminal() -> None:
    assert style.clean("w\033[2J\r\n\x9b1m\u202e\u200b") == "w?[2J???1m??"
    assert style.clean("日本 é") == "日本 é"
