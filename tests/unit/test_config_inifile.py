"""The reader of INI files: what is a value, a comment, a continuation."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastiq.inifile import ConfigError, Problems, Section, decode, parse


def read(text: str) -> dict[str, Section]:
    problems = Problems(Path("f"))
    found = parse(text, problems)
    problems.raise_any()
    return found


def value(line: str) -> str:
    return read(f"[s]\n{line}\n")["s"].entries["k"].value


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("k = v", "v"),
        ("k=v", "v"),
        ("k: v", "v"),
        ("k : v", "v"),
        ("K = v", "v"),
        ("k = a = b : c", "a = b : c"),
        ("k =", ""),
        ("k = # only a comment", ""),
        ("k = v # comment", "v"),
        ("k = v\t; comment", "v"),
        ("k = v#no;comment", "v#no;comment"),
        ("k =#value", "#value"),
        ("k = %(x)s %% %", "%(x)s %% %"),
        ("k = 'quoted'", "'quoted'"),
        ("k = é", "é"),
        ("  k = v", "v"),
        ("k = a\n  b", "a\nb"),
        ("k = a # c\n# c\n  b # c\n", "a\nb"),
        ("k = aGk\n  x==", "aGk\nx=="),
        ("k = a\u2028b", "a\u2028b"),
        ("; c\n # c\nk = v\r", "v"),
        ("k = a\n\n  k2 = b", "a"),
    ],
)
def test_a_value_is_what_stands_after_the_sign_without_its_comment(line: str, expected: str) -> None:
    assert value(line) == expected


def test_a_line_that_is_not_indented_more_than_its_key_is_a_key_of_its_own() -> None:
    entries = read("[s]\n  a = 1\n  b = 2\n c = 3\n")["s"].entries
    assert {key: entry.value for key, entry in entries.items()} == {"a": "1", "b": "2", "c": "3"}


def test_every_key_keeps_its_line_and_section() -> None:
    sections = read("# head\n\n[a] # comment\nx = 1\n  2\ny = 3\n[b:c]\nx = 4\n")
    found = [(e.section, e.key, e.line) for s in sections.values() for e in s.entries.values()]
    assert found == [("a", "x", 4), ("a", "y", 6), ("b:c", "x", 8)]
    assert [section.line for section in sections.values()] == [3, 7]


@pytest.mark.parametrize("line", ["[open", "word", "[]", "= value", "[a]b"])
def test_a_line_that_is_neither_key_nor_section_is_a_problem(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(f"[s]\nk = 1\n{line}\n")
    (problem,) = caught.value.problems
    assert problem.startswith("f:3: [s]: this line is neither")


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert decode(b"\xef\xbb\xbf[s]", Problems(Path("f"))) == "[s]"


def test_the_first_bad_byte_is_told_by_its_line() -> None:
    with pytest.raises(ConfigError) as caught:
        decode(b"[s]\nk = 1\nl = \xff\n", Problems(Path("f")))
    assert caught.value.problems == ["f:3: is not UTF-8, save the file in that encoding"]


names = st.text("abcdefgxyz_0123456789", min_size=1, max_size=6)
plain = st.text("abc%=:[]'\"(){}$#;,. \té/+", max_size=12)


@given(st.dictionaries(names, st.dictionaries(names, plain, max_size=4), max_size=4))
def test_it_reads_what_configparser_reads(sections: dict[str, dict[str, str]]) -> None:
    text = "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()) for name, keys in sections.items()
    )
    expected = configparser.RawConfigParser(
        inline_comment_prefixes=("#", ";"), default_section="\0", delimiters=("=", ":")
    )
    expected.read_string(text)
    found = {name: {key: entry.value for key, entry in section.entries.items()} for name, section in read(text).items()}
    assert found == {name: dict(expected[name]) for name in expected.sections()}


@given(st.text(max_size=200))
def test_no_text_makes_it_fail_in_any_other_way(text: str) -> None:
    try:
        read(text)
    except ConfigError as error:
        assert error.problems and not any("\n" in problem for problem in error.problems)
