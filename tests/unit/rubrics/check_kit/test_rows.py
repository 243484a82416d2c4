import pyarrow as pa
import pytest

from gradebook.rubrics.check_kit.check import RowFinding, gather_rows, read_settings
from gradebook.rubrics.checks.registry import find_check
from tests.support.law_over import law_over

OUTPUTS = [
    "",
    " \n",
    "Refunds. A refund, at last!",
    "refund",
    "_refund_ REFUNDED Kelvin",
    "\u212aelvin caf\u00e9?! \u2026 1\u3002",
    '  {"ticket": 7}\n',
    '{"ticket": 7,}',
    " " * 70 + "[7]",
    "x" * 60,
    "\u00e9" * 61,
    "\t" + "x" * 61,
]


def _show(found):
    reasons = [None] * len(found.evidence) if found.reasons is None else found.reasons.to_pylist()
    return [*zip(found.is_passed.to_pylist(), found.evidence.to_pylist(), reasons, strict=True)]


@law_over(
    ("name", "settings"),
    [
        ("length_words", {"min": 2, "max": 4}),
        ("count_sentences", {"min": 1, "max": 1}),
        ("json_valid", {}),
        ("json_valid", {"kind": "object"}),
        ("contains", {"all": ["refund", "k"]}),
        ("contains", {"any": ["refund", "Kelvin"], "whole_word": True}),
        ("not_contains", {"any": ["Refund"], "whole_word": True, "case_sensitive": True}),
        ("language", {"any": ["en"]}),
    ],
)
def test_an_output_alone_gets_the_verdict_that_it_gets_among_others(name, settings):
    check = find_check(name)
    read = read_settings(check, settings)
    together = check.function(pa.table({"output": OUTPUTS}), read)
    alone = [check.function(pa.table({"output": [output]}), read) for output in OUTPUTS]
    assert _show(together) == [_show(found)[0] for found in alone]


@pytest.mark.parametrize(
    "finding", [RowFinding(True), RowFinding(False, "no"), RowFinding(None, reason="why"), RowFinding(True, "yes")]
)
def test_one_finding_is_gathered_as_it_is(finding):
    assert _show(gather_rows([finding])) == [finding]


def test_the_evidence_of_one_finding_is_cut():
    assert len(gather_rows([RowFinding(False, "x" * 300)]).evidence[0].as_py()) == 200


def test_no_findings_are_gathered_as_none():
    assert _show(gather_rows([])) == []
