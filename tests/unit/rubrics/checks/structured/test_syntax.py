import ast
import logging
import warnings

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import find_check
from gradebook.rubrics.checks.syntax import judge_syntax
from tests.support.law_over import law_over
from tests.support.nightly import nightly

GOOD = {"xml_valid": "<a/>", "yaml_valid": "a: 1", "sql_valid": "select 1", "python_valid": "print(1)"}
BAD = {"xml_valid": "<a>\n</b>", "yaml_valid": "a: 1\n]", "sql_valid": "select 1\nfrom from", "python_valid": "a\nb c"}
NAMES = {"xml_valid": "XML", "yaml_valid": "YAML", "sql_valid": "SQL", "python_valid": "Python"}
MEGABYTES = {
    "spaces": " " * 1_000_000,
    "line ends": "\r\n" * 500_000,
    "brackets": "[" * 1_000_000,
    "parentheses": "(" * 1_000_000,
    "digits": "9" * 1_000_000,
    "quotes": "'" * 1_000_000,
    "ticks": "`" * 1_000_000,
    "open fence": "```\n" + "``` x\n" * 160_000,
    "elements": "<a>" * 333_000,
    "CJK": "中" * 1_000_000,
    "NUL": "\x00" * 1_000_000,
    "minus": "-" * 1_000_000,
    "words": "word " * 200_000,
}


def judge(name: str, output: str, **settings: object) -> tuple[bool | None, str | None]:
    """The verdict, with its evidence or its reason."""
    check = find_check(name)
    found = check.function(pa.table({"output": [output]}), read_settings(check, settings))
    return found.is_passed[0].as_py(), found.evidence[0].as_py() or found.reasons[0].as_py()


@law_over("name", GOOD)
@law_over(
    ("shape", "fence", "is_passed"),
    [
        ("{}", "optional", True),
        ("\n{}\n \n", "optional", True),
        ("```\n{}\n```", "optional", True),
        ("\r\n  ```xml a b\r\n{}\r\n```  \r\n", "optional", True),
        ("~~~~\n{}\n~~~~~", "optional", True),
        ("```\n{}\n```", "required", True),
        ("{}", "never", True),
        ("{}", "required", False),
        ("```\n{}\n```", "never", False),
        ("```\n{}", "optional", False),
        ("````\n{}\n```", "optional", False),
        ("```\n{}\n~~~", "optional", False),
        ("```\n{}\n```\nDone.", "optional", False),
        ("Here:\n```\n{}\n```", "required", False),
        ("```\n\n```", "optional", False),
    ],
)
def test_a_text_stands_in_a_code_fence_as_the_settings_have_it(name, shape, fence, is_passed):
    assert judge(name, shape.format(GOOD[name]), fence=fence)[0] is is_passed


@pytest.mark.parametrize("name", GOOD)
def test_the_line_of_a_fault_is_that_of_the_output(name):
    bare, fenced = (judge(name, text) for text in (BAD[name], f"```\n{BAD[name]}\n```"))
    assert (bare[0], (bare[1] or "")[:14]) == (False, "line 2 column ")
    assert (fenced[0], (fenced[1] or "")[:14]) == (False, "line 3 column ")


@law_over("name", GOOD)
@law_over("output", ["", " ", "\r\n", "\u00a0\u3000"])
def test_a_blank_output_fails(name, output):
    assert judge(name, output) == (False, f"empty, expected {NAMES[name]}")


@law_over("name", GOOD)
@pytest.mark.parametrize("kind", ["brackets", *nightly(kind for kind in MEGABYTES if kind != "brackets")])
def test_a_megabyte_made_to_stall_never_passes(name, kind):
    assert not judge(name, MEGABYTES[kind])[0]


@law_over(
    ("output", "settings", "expected"),
    [
        ("<a>\n<b></a>", {}, (False, "line 2 column 6: mismatched tag")),
        ("<a/><b/>", {}, (False, "line 1 column 5: junk after document element")),
        ("<!DOCTYPE a><a/>", {}, (False, "line 1: found a DOCTYPE, expected none")),
        ("\n\n<!DOCTYPE a><a/>", {}, (False, "line 3: found a DOCTYPE, expected none")),
        ("<a>&b;</a>", {}, (False, "line 1 column 4: undefined entity")),
        ("\n  <a>&b;</a>", {}, (False, "line 2 column 6: undefined entity")),
        ("<a>&amp;&#233;</a>", {}, (True, None)),
        ("<?xml version='1.0' encoding='latin-1'?><a>é 中 😀</a>", {}, (True, None)),
        ("<x:a/>", {"root": "x:a"}, (True, None)),
        ("<b/>", {"root": "a"}, (False, "line 1: found the root <b>, expected <a>")),
        ("```xml\n\n<b/>\n```", {"root": "a"}, (False, "line 3: found the root <b>, expected <a>")),
        ("Sure!", {}, (False, "line 1 column 5: not well-formed (invalid token)")),
        ("<a>" * 100_000 + "</a>" * 100_000, {}, (True, None)),
    ],
)
def test_xml_is_well_formed_or_says_where_not(output, settings, expected):
    assert judge("xml_valid", output, **settings) == expected


@law_over(
    ("output", "settings", "expected"),
    [
        ("a: {b: [1, é, 中, 😀]}\r\n", {}, (True, None)),
        ("--- # one\na: 1\n...\n", {}, (True, None)),
        ("- a", {"kind": "list"}, (True, None)),
        ("- a", {}, (False, "line 1 column 1: found a list at the top, expected a mapping")),
        ("It is late.", {}, (False, "line 1 column 1: found a single value at the top, expected a mapping")),
        ("It is late.", {"kind": "any"}, (True, None)),
        ("a: 1\na: 2", {}, (False, "line 2 column 1: found the key 'a' again, expected each key once")),
        ("a: 1\n'a': 2", {}, (False, "line 2 column 1: found the key 'a' again, expected each key once")),
        ("a: 1\na: 2", {"has_unique_keys": False}, (True, None)),
        ("1: a\n'1': b\nc: {1: d}", {}, (True, None)),
        ("a: &x [1]\nb: *x", {}, (True, None)),
        ("a: *x", {}, (False, "line 1 column 4: found the alias *x, expected its anchor before it")),
        ("a: !!set {b}", {}, (True, None)),
        ("a: !b c", {}, (False, "line 1 column 4: found the tag !b, expected one of YAML's own")),
        ("a: 1\n---\nb: 1", {}, (False, "line 2 column 1: found a second document, expected one")),
        ("# only a comment", {}, (False, "found no value, expected YAML")),
        ("a: \x07", {}, (False, "found the character '\\x07', expected printable text")),
        ("a: " + "[" * 99 + "]" * 99, {}, (True, None)),
        ("a: " + "[" * 100 + "]" * 100, {}, (None, "nested too deeply to parse, at most 100 levels are read")),
        ("%TAG !a! b\n" * 30, {}, (None, "found more than 20 %TAG lines, expected fewer")),
    ],
)
def test_yaml_is_what_was_asked_for_or_says_where_not(output, settings, expected):
    assert judge("yaml_valid", output, **settings) == expected


def test_aliases_that_unfold_to_a_billion_values_do_no_harm():
    lines = ["a0: &a0 [x]", *(f"a{level}: &a{level} [{f'*a{level - 1}, ' * 10}]" for level in range(1, 30))]
    assert judge("yaml_valid", "\n".join(lines)) == (True, None)


@law_over(
    ("output", "settings", "expected"),
    [
        ("select 'é中😀' -- ok\n;", {}, (True, None)),
        ("select 1; select 2", {"statements": 1}, (False, "found 2 statements, expected at most 1")),
        ("select from where", {}, (False, "line 1 column 17: Expected table name but got WHERE")),
        ("select 'a", {}, (False, "line 1 column 7: Missing '")),
        ("hello world", {}, (False, "found the expression 'hello AS world', expected a statement")),
        ("-- nothing", {}, (False, "found no statement, expected SQL")),
        ("select 1 union select 2", {"kinds": ["select"]}, (True, None)),
        ("with a as (select 1) select * from a", {"kinds": ["select"]}, (True, None)),
        ("insert into t select 1", {"kinds": ["insert"]}, (True, None)),
        ("drop table t", {"kinds": ["select"]}, (False, "found the kind 'drop', expected 'select'")),
        ("select 1; delete from t", {"kinds": ["select"]}, (False, "found the kind 'delete', expected 'select'")),
        ("select * into t from u", {"kinds": ["select"]}, (False, "found the kind 'create', expected 'select'")),
        ("call f()", {}, (None, "found a statement that can't be read: 'CALL'")),
        ("call f()", {"kinds": ["select"]}, (False, "found a statement with 'CALL', expected 'select'")),
        ("select `a` from b", {"dialect": "mysql"}, (True, None)),
        ("select a from b qualify c", {"dialect": "duckdb"}, (True, None)),
        ("select " + "(" * 1_000 + "1" + ")" * 1_000, {}, (None, "nested too deeply to parse")),
        ("select " + "a," * 6_000, {}, (None, "too long to parse: found 12,007 characters, at most 10,000 are read")),
    ],
)
def test_sql_parses_or_says_where_not(output, settings, expected):
    assert judge("sql_valid", output, **settings) == expected


def test_sql_that_the_parser_keeps_as_text_leaves_no_log_line(caplog):
    with caplog.at_level(logging.DEBUG):
        judge("sql_valid", "show me the money; select a -> '$.[x'")
    assert caplog.records == []


@law_over(
    ("output", "expected"),
    [
        ("def f(x):\r\n    return x\r\n", (True, None)),
        ("名前 = 'é😀'  # ok", (True, None)),
        ("if 1:\npass", (False, "line 2 column 1: expected an indented block after 'if' statement on line 1")),
        ("x = (", (False, "line 1 column 5: '(' was never closed")),
        ("a\x00", (False, "line 1: found a NUL character, expected none")),
        ("x = \\d", (False, "line 1 column 6: unexpected character after line continuation character")),
        ("a " * 30_000, (False, "line 1 column 3: invalid syntax")),
        ("1" + "+1" * 20_000, (None, "nested too deeply to parse")),
        ("-" * 50_000 + "1", (None, "nested too deeply to parse")),
        ("a = 1\n" * 20_000, (None, "too long to parse: found 120,000 characters, at most 100,000 are read")),
    ],
)
def test_python_parses_or_says_where_not(output, expected):
    assert judge("python_valid", output) == expected


@law_over("prefix", ["", "b", "f", "Rb", "u"])
@law_over("body", [r"'\d'", r"'\\d'", r"'''\d''\''''", r'"\'\d"', r"'\477'", r"'\d' # \d ' \d"])
def test_an_unknown_escape_passes_without_a_warning(prefix, body):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = judge("python_valid", prefix + body)
    assert (found, caught) == ((True, None), [])


@pytest.mark.parametrize("output", ["1if 2else 3", "[0x1for x in y]", "1_0or 2"])
def test_a_number_right_before_a_word_passes_without_a_warning(output):
    assert judge("python_valid", output) == (True, None)


PIECES = st.sampled_from(["'", '"', "'''", '"""', *"\\#\na1 =()brfé", "or"])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_python_is_what_the_parser_takes(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            is_python = bool(text.strip()) and bool(ast.parse(text))
        except SyntaxError:
            is_python = False
    assert judge("python_valid", text)[0] is is_python


@law_over(
    ("name", "settings"),
    [
        ("xml_valid", {"fence": "maybe"}),
        ("xml_valid", {"root": ""}),
        ("yaml_valid", {"kind": "object"}),
        ("sql_valid", {"dialect": "mysqll"}),
        ("sql_valid", {"statements": 0}),
        ("sql_valid", {"kinds": []}),
        ("sql_valid", {"kinds": ["query"]}),
        ("python_valid", {"version": "3.11"}),
    ],
)
def test_settings_that_mean_nothing_are_refused(name, settings):
    with pytest.raises(ValidationError):
        read_settings(find_check(name), settings)


def test_the_reading_of_a_row_does_not_see_blank_text():
    check = find_check("xml_valid")
    seen: list[str] = []
    shard = pa.table({"output": ["", "a", "```\nb\n```"]})
    judge_syntax(shard, read_settings(check, {}), "XML", 10, seen.append)
    assert seen == ["a", "b\n"]
