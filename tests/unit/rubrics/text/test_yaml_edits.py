"""One value of a YAML text written anew: nothing else of the text changes."""

from difflib import unified_diff

import pytest
import yaml

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.yaml_edits import set_value
from tests.support.law_over import law_over

TEXT = """\
# a rubric 😀
version: 1.0.0  # the version
criteria:
  # above
  - id: tone
    description: >-
      Is it kind, and
      also warm?
    # below a block

    weight: 0.4  # of the whole
    levels: # worst first
      - {id: bad, description: Blames "you"}  # at the end
      - id: good
        description: 'It''s kind'
  - {id: short, description: "Is it short?", weight: 1}
  - id: both
    description: |
      Two
      lines

    weight: 1
"""
TONE, SHORT, BOTH = (("criteria", index) for index in range(3))
# Place, value, and the lines that replace others.
EDITS = (
    (("version",), "1.1.0", ["version: 1.1.0  # the version"]),
    ((*TONE, "weight"), 0.5, ["    weight: 0.5  # of the whole"]),
    ((*TONE, "weight"), None, ["    weight: null  # of the whole"]),
    ((*TONE, "description"), "Is it: kind?", ["      Is it: kind?"]),
    ((*TONE, "levels", 0, "description"), "a, b} c", ['      - {id: bad, description: "a, b} c"}  # at the end']),
    ((*TONE, "levels", 1, "description"), "It's warm", ["        description: 'It''s warm'"]),
    ((*TONE, "threshold"), 0.5, ["    threshold: 0.5"]),
    ((*SHORT, "threshold"), 1, ['  - {id: short, description: "Is it short?", threshold: 1, weight: 1}']),
    ((*SHORT, "description"), "é😀 #", ['  - {id: short, description: "é😀 #", weight: 1}']),
    ((*BOTH, "description"), "Three\n\nlines", ["      Three", ""]),
)
SPECIAL = (
    *("", "&a", "*a", "- a", "null", "1.0", "yes", "#", "a: b", "'", '"', "\\", "%", "---", "\u200b", "a\tb"),
    "x" * 5_000,
)
TEXTS = ((*TONE, "description"), (*TONE, "levels", 0, "description"), (*SHORT, "description"), (*BOTH, "description"))


@law_over(("place", "value", "lines"), EDITS)
def test_an_edit_changes_its_value_alone(place: tuple[str | int, ...], value: str | float | None, lines: list[str]):
    changed = set_value(TEXT, place, value, ("weight", "levels"))
    differing = [*unified_diff(TEXT.split("\n"), changed.split("\n"), n=0, lineterm="")][2:]
    assert [line[1:] for line in differing if line.startswith("+")] == lines
    assert sum("#" in line for line in differing if line.startswith("-")) == sum("  # " in line for line in lines)


@law_over("value", SPECIAL)
def test_a_text_that_yaml_would_read_otherwise_is_quoted(value: str):
    for place in TEXTS:
        read = yaml.safe_load(set_value(TEXT, place, value))
        for key in place:
            read = read[key]
        assert read.rstrip("\n") == value


def test_a_value_that_other_places_share_is_refused():
    shared = "a: &one [{id: x}]\nb: *one\n"
    with pytest.raises(InputError, match="an edit of the text itself"):
        set_value(shared, ("b", 0, "id"), "y")
