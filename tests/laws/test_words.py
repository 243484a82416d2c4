"""Words of messages: a count has the noun that fits it, and dollars have one form."""

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.support.source_trees import tree_of

ROOT = Path(__file__).parents[2]
NOUNS = re.compile(r" (?!over )(?:[a-z]+ )?[a-z]{2,}(?<!ss)s\b")
ANY_NUMBER = re.compile("at most|more than|fewer|expected one")  # so the count before is not 1


@cache
def texts(room: str) -> list[tuple[str, list[ast.expr]]]:
    """Formatted texts of a room: their place, and their parts."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node.values)
        for path in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.JoinedStr)
    ]


def words(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{}"


def test_a_count_below_what_is_expected_has_its_noun_by_counted():
    # "found 1 cases, expected 20": `counted` writes the noun in the singular.
    wrong = [
        f"{place}: {''.join(map(words, parts))}"
        for room in ("rubrics", "tasks", "flows")
        for place, parts in texts(room)
        for before, number, after in zip(parts, parts[1:], parts[2:], strict=False)
        if words(before).endswith("found ") and isinstance(number, ast.FormattedValue)
        if NOUNS.match(words(after))
        and "expected" in words(after)
        and not ANY_NUMBER.search("".join(map(words, parts)))
    ]
    assert wrong == []


def test_dollars_have_the_form_of_price_words():
    wrong = [
        f"{place}: {''.join(map(words, parts))}"
        for room in ("tasks", "flows")
        for place, parts in texts(room)
        for before, number in pairwise(parts)
        if words(before).endswith("$") and isinstance(number, ast.FormattedValue) and number.format_spec
    ]
    assert wrong == []
