"""Check that an output is JSON."""

import re
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text, cut_texts, evidence_where, join_texts
from gradebook.rubrics.check_kit.json_text import NotJson, parse_json
from gradebook.rubrics.check_kit.matching import are_few
from gradebook.rubrics.check_kit.rows import PASSED, RowFinding, gather_rows

JSON_WHITESPACE = " \t\r\n"
STARTS_BY_KIND = {"any": '"{[-0123456789tfn', "object": "{", "array": "["}
EXPECTED_BY_KIND = {"any": "JSON", "object": "a JSON object", "array": "a JSON array"}


class JsonSettings(CheckSettings):
    """Required kind of JSON."""

    kind: Literal["any", "object", "array"] = "any"
    """type of the top-level value"""


@register_check(
    "json_valid",
    JsonSettings,
    cost="rows",
    examples=(
        Example('{"ticket": 7}', True, {"kind": "object"}),
        Example('{"ticket": 7,}', False),
        Example("[7]", False, {"kind": "object"}),
    ),
)
def json_valid(shard: pa.Table, settings: JsonSettings) -> CheckVerdicts:
    """The whole output is JSON (RFC 8259) of the required kind; whitespace may surround it, a code fence may not.

    NaN, Infinity and more than 200 levels of nesting are refused. An object may have a key twice. The evidence gives
    the place and the reason.
    """
    texts = text_column(shard, "output")
    if are_few(texts):
        return gather_rows(_judge(text, settings.kind) for text in texts.to_pylist())
    is_likely = pc.match_substring_regex(texts, rf"\A[{JSON_WHITESPACE}]*[{re.escape(STARTS_BY_KIND[settings.kind])}]")
    faults = pa.array([_json_fault(text) for text in texts.filter(is_likely).to_pylist()], pa.string())
    faults = pc.replace_with_mask(pa.nulls(len(texts), pa.string()), is_likely, faults)
    is_valid, is_unlikely = pc.and_(is_likely, faults.is_null()), pc.invert(is_likely)
    if is_unlikely.true_count:
        starts = _describe_starts(_cut_starts(texts, is_unlikely), EXPECTED_BY_KIND[settings.kind])
        faults = pc.coalesce(faults, evidence_where(is_unlikely, starts))
    return CheckVerdicts(is_valid, faults)


def _judge(text: str | None, kind: str) -> RowFinding:
    if text is None:
        return RowFinding(None)
    start = text.lstrip(JSON_WHITESPACE)
    if start and start[0] in STARTS_BY_KIND[kind]:
        fault = _json_fault(text)
        return PASSED if fault is None else RowFinding(False, fault)
    expected = EXPECTED_BY_KIND[kind]
    shown = f"starts with '{cut_text(start, EXCERPT_CHARACTERS)}'" if start else "empty"
    return RowFinding(False, f"{shown}, expected {expected}")


def _json_fault(text: str) -> str | None:
    try:
        parse_json(text)
    except NotJson as error:
        return cut_text(str(error))
    return None


def _cut_starts(texts: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """Start of each text where the mask is true, without whitespace: one character longer than an excerpt.

    Texts are cut first, so that only those with leading whitespace are copied as a whole.
    """
    starts = pc.utf8_slice_codeunits(texts, 0, EXCERPT_CHARACTERS + 1)
    trimmed = pc.utf8_ltrim(starts, characters=JSON_WHITESPACE)
    is_padded = pc.and_(mask, pc.not_equal(pc.binary_length(starts), pc.binary_length(trimmed)))
    if is_padded.true_count:
        padded = pc.utf8_ltrim(texts.filter(is_padded), characters=JSON_WHITESPACE)
        starts = pc.replace_with_mask(starts, is_padded, pc.utf8_slice_codeunits(padded, 0, EXCERPT_CHARACTERS + 1))
    return starts.filter(mask)


def _describe_starts(starts: pa.Array, expected: str) -> pa.StringArray:
    quoted = join_texts("starts with '", cut_texts(starts, EXCERPT_CHARACTERS), f"', expected {expected}")
    return pc.if_else(pc.equal(pc.binary_length(starts), 0), f"empty, expected {expected}", quoted)
