"""Outcomes on disk: the same again, by request key."""

from pathlib import Path

import pytest

from gradebook.tasks.judging.replies.outcome_cache import KeptOutcomes
from gradebook.tasks.judging.replies.question import Outcome

KEY = "0123456789abcdef" * 2
SCORED = Outcome("scored", "good", '["a"]', "Because.", judgment_id="j", cost_usd=0.5, request_count=2, paid_by="run")
OUTCOMES = {
    "scored": SCORED,
    "unscored": Outcome("unscored", reason="parse_error"),
    "a pack": Outcome("scored", "good", parts=(SCORED, Outcome("unscored", reason="refused"))),
    "half of a surrogate pair": Outcome("unscored", reason="\udfff.png"),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_an_outcome_comes_back_as_it_was(tmp_path: Path, outcome: Outcome):
    kept = KeptOutcomes(tmp_path)
    kept.keep("no hash", Outcome("unscored", reason="of another"))
    kept.keep(KEY, outcome)
    assert (kept.find(KEY), kept.find("f" * 32)) == (outcome, None)
    kept.close()


def test_nothing_is_left_in_the_folder(tmp_path: Path):
    kept = KeptOutcomes(tmp_path)
    kept.keep(KEY, SCORED)
    assert list(tmp_path.iterdir()) == []
    kept.close()
