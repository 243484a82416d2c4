"""The check against the row's own reference."""

import pyarrow as pa
import pyarrow.compute as pc

from rubrics.checks.columns import text_column
from rubrics.checks.evidence import EXCERPT_CHARACTERS, cut_texts, evidence_where, join_texts
from rubrics.checks.regexes import OTHER_THAN_SPACE, WHITESPACE
from rubrics.checks.registry import CheckSettings, CheckVerdicts, Example, register_check

NOT_ONE_SPACE = rf"[{WHITESPACE}]{{2,}}|[{OTHER_THAN_SPACE}]"  # a single space is left alone: most need no change


class ReferenceSettings(CheckSettings):
    """`fold_whitespace` reads each run of whitespace as one space, and none at the ends."""

    case_sensitive: bool = True
    """whether "Paris" and "paris" differ"""
    fold_whitespace: bool = True
    """read each run of whitespace as one space, and none at the ends"""


@register_check(
    "matches_reference",
    ReferenceSettings,
    columns=("output", "reference"),
    examples=(
        Example("the  Nile\n", True, others={"reference": "the Nile"}),
        Example("The Nile", False, others={"reference": "the Nile"}),
        Example("The Nile", None, others={"reference": None}),
    ),
)
def matches_reference(shard: pa.Table, settings: ReferenceSettings) -> CheckVerdicts:
    """The output is the row's reference, character by character. A row without one stays unscored: "no reference".

    Without `case_sensitive`, each character is compared by its simple Unicode case ("É" and "é" are the same,
    "ß" and "SS" are not). Nothing else is normalised: "é" as one and as two code points differ.
    """
    outputs, references = (text_column(shard, name) for name in ("output", "reference"))
    is_passed = pc.equal(_normalise(outputs, settings), _normalise(references, settings))
    is_missed = pc.fill_null(pc.invert(is_passed), False)
    found, expected = (cut_texts(texts.filter(is_missed), EXCERPT_CHARACTERS) for texts in (outputs, references))
    evidence = evidence_where(is_missed, join_texts("found '", found, "', expected '", expected, "'"))
    return CheckVerdicts(is_passed, evidence, evidence_where(references.is_null(), "no reference"))


def _normalise(texts: pa.Array, settings: ReferenceSettings) -> pa.Array:
    if settings.fold_whitespace:
        texts = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, NOT_ONE_SPACE, " "))
    return texts if settings.case_sensitive else pc.utf8_lower(pc.utf8_upper(texts))
