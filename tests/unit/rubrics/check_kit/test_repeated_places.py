"""Cost of patterns, counted before they search: RE2 searches some of them without its automaton."""

import pytest
from pydantic import TypeAdapter, ValidationError

from gradebook.rubrics.check_kit.regexes import MOST_PLACES, Regex, repeated_places
from gradebook.rubrics.schemas.validating import check_schema
from tests.support.law_over import law_over

PATTERN = TypeAdapter(Regex)
# What rubrics search for, the dearest with 1,000 places.
SANE = (
    *(r"\d+\.\d+\.\d+", r"\S+@\S+", r"\d ?(cm|mm|ml|l|g|kg)\b", r"\[[A-Z _]+\]", r"^\[(.+?)\]", "^$", "", r"(?i)sorry"),
    *(r"^.{0,280}$", r"^(?s:.{1,1000})$", r"^[\s\S]{50,500}$", r"[a-z]{1,1000}y", r"^\W*(\w+\W+){19,199}\w+\W*$"),
    *(r"^(\S+\s+){0,249}\S+$", r"(?m)^.{0,120}$", r"(?m)^#{1,6} .+$", r"(?m)^\s*[-*] .{1,200}$", r"(?m)^\d{1,3}[.)] "),
    *(r"^\d{4}-\d{2}-\d{2}$", r"\b\d{1,2}:\d{2}( ?[ap]m)?\b", r"\+?\d{1,3}[ -]?\(?\d{1,4}\)?([ -]?\d{2,4}){2,4}"),
    *(r"https?://[^\s)]+", r"\b(?:\d{1,3}\.){3}\d{1,3}\b", r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"),
    *(
        r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b",
        r"\b(?:\d[ -]*?){13,16}\b",
        r"\b[A-Fa-f0-9]{64}\b",
        r"\$\d{1,3}(,\d{3})*",
    ),
    *(r"```(?:python|json)\n", r"(?s)```.*?```", r"(?s)<think>.*</think>", r"(?s)^\{.*\}$", r"</?[a-z][^>]{0,100}>"),
    *(r"(?i)as an? (?:ai|language) (?:model|assistant)", r"(?i)\b(?:always|never|must|guarantee[ds]?)\b", r"[!?]{2,}"),
    *(r"\p{Han}+", r"[\p{L}\p{M}]+", r"\p{Lu}{5,}", r"[^\x00-\x7F]", r"[\x{1F300}-\x{1FAFF}]", r"(?:\w+ ){3}\w+[.!?]$"),
    *(r"(?i)\[(?:citation needed|sources?|docs?|refs?|\?+|#+)\](?:[^(]|$)", r"\[\d{1,3}(?:[,-] ?\d{1,3}){0,9}\]"),
    *(
        r"(?i)answer: ?\(?([A-J])\)?",
        r"\\boxed\{[^{}]{1,200}\}",
        r"(?m)^(?:[^|\n]*\|){2,20}[^|\n]*$",
        r"(x+x+)+y",
        "(.*)*y",
    ),
    *(
        "|".join(f"word{number}" for number in range(300)),
        r".{0,300}\bbecause\b.{0,300}",
        r"\A(?:[^\n]{0,49}\n){0,10}\z",
    ),
)
COSTLY = (
    "(.{1,31}){1,31}y",
    "(.?){1000}y",
    "((.?){100}){6}",
    ".{0,400}" * 3,
    "(?:(?:a{1,20}){1,20}){1,2}",
    r"(\w?){501}",
)


@law_over(
    ("pattern", "expected"),
    [
        ("abc", 0),
        ("a+b*c?", 3),
        (r"\d{4}-\d{2}", 6),
        ("[a-z]{1,1000}y", 1_000),
        ("(?:a|b){10}", 20),
        ("(?P<n>ab){8}", 16),
        ("(?i)abc{3}", 3),
        ("[)(]{4}", 4),
        ("[[:alpha:]]{7}", 7),
        (r"\Q(((\E{3}", 3),
        ("(.?){600}y", 1_200),
        ("(.{1,31}){1,31}y", 1_922),
        ("((.?){5}){105}", 2_100),
        (".{0,300}" * 4, 1_200),
        (")", 0),
    ],
)
def test_places_are_those_of_the_repeats(pattern: str, expected: int):
    assert repeated_places(pattern) == expected


@law_over("pattern", SANE)
def test_patterns_that_rubrics_need_are_taken(pattern: str):
    assert PATTERN.validate_python(pattern) == pattern
    assert check_schema({"pattern": pattern}) is None


@law_over("pattern", COSTLY)
def test_patterns_that_take_seconds_a_megabyte_are_refused_with_count_and_bound(pattern: str):
    count = repeated_places(pattern)
    assert count > MOST_PLACES
    with pytest.raises(ValidationError, match=f"whose repeats match {count:,} places, expected at most 1,000"):
        PATTERN.validate_python(pattern)
    assert f"repeats match {count:,} places" in str(check_schema({"pattern": pattern}))


def test_fifty_sane_patterns_were_tried():
    assert len(SANE) >= 50
