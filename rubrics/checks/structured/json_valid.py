"""The check that an output is JSON."""

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from rubrics.checks.columns import text_column
from rubrics.checks.evidence import EXCERPT_CHARACTERS, cut_text, cut_texts, evidence_where, join_texts
from rubrics.checks.registry import CheckSettings, CheckVerdicts, Example, register_check
from rubrics.checks.structured.json_text import NotJson, parse_json

JSON_WHITESPACE = " \t\r\n"
START_BY_KIND = {"any": r'["{\[\-0-9tfn]', "object": r"\{", "array": r"\["}
EXPECTED_BY_KIND = {"any": "JSON", "object": "a JSON object", "array": "a JSON array"}


class JsonSettings(CheckSettings):
    """What the JSON has to be."""

    kind: Literal["any", "object", "array"] = "any"
    """what stands at the top"""


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
    """The whole output is JSON (RFC 8259) of the kind asked for; whitespace may surround it, a code fence may not.

    NaN, Infinity and more than 200 levels of nesting are refused. An object may hold a key twice. The evidence
    gives the place and the reason.
    """
    texts = text_column(shard, "output")
    is_likely = pc.match_substring_regex(texts, rf"\A[{JSON_WHITESPACE}]*{START_BY_KIND[settings.kind]}")
    faults = pa.array([_json_fault(text) for text in texts.filter(is_likely).to_pylist()], pa.string())
    faults = pc.replace_with_mask(pa.nulls(len(texts), pa.string()), is_likely, faults)
    is_unlikely = pc.invert(is_likely)
    starts = _describe_starts(texts.filter(is_unlikely), EXPECTED_BY_KIND[settings.kind])
    return CheckVerdicts(pc.and_(is_likely, faults.is_null()), pc.coalesce(faults, evidence_where(is_unlikely, starts)))


def _json_fault(text: str) -> str | None:
    try:
        parse_json(text)
    except NotJson as error:
        return cut_text(str(error))
    return None


def _describe_starts(texts: pa.Array, expected: str) -> pa.StringArray:
    trimmed = pc.utf8_ltrim(texts, characters=JSON_WHITESPACE)
    excerpts = cut_texts(trimmed, EXCERPT_CHARACTERS)
    quoted = join_texts("starts with '", excerpts, f"', expected {expected}")
    return pc.if_else(pc.equal(pc.binary_length(trimmed), 0), f"empty, expected {expected}", quoted)
