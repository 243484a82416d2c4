"""Outputs of a megabyte that are made to be slow: each instruction still comes to a verdict."""

import pyarrow as pa
import pytest

from gradebook.rubrics.check_kit.check import read_settings
from gradebook.rubrics.checks.registry import check_names, find_check
from tests.support.law_over import law_over

SIZE = 1_000_000
UNITS = ["*", "[", "<", "\n", "- ", "a.", "!", "a. ", '"', "P.", "'", "Section1", "A'S ", "{[", "`", "]\n*", "é.", "AB"]
NAMES = [
    name for name in check_names() if find_check(name).function.__module__.startswith("gradebook.rubrics.checks.ifeval")
]
HOSTILE = [(unit * (SIZE // len(unit)))[:SIZE] for unit in UNITS]


def test_all_instructions_of_the_paper_are_here():
    assert len(NAMES) == 25


@pytest.mark.nightly
@law_over("name", NAMES)
def test_hostile_texts_are_judged(name):
    check = find_check(name)
    settings = read_settings(check, check.examples[0].settings)
    shard = pa.table({"output": HOSTILE})
    found = check.function(shard, settings)
    assert len(found.is_passed) == len(HOSTILE)
    assert max(len(text or "") for text in found.evidence.to_pylist()) <= 200
