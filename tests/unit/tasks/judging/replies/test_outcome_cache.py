"""Cached outcomes come back as they were, by request key."""

import pytest

from gradebook.tasks.judging.replies.question import Outcome
from gradebook.tasks.judging.session.request_coalescing import MOST_UNWRITTEN, OutcomeCache

KEY = "0123456789abcdef" * 2
SCORED = Outcome("scored", "good", '["a"]', "Because.", judgment_id="j", cost_usd=0.5, request_count=2, paid_by="run")
OUTCOMES = {
    "scored": SCORED,
    "unscored": Outcome("unscored", reason="parse_error"),
    "a pack": Outcome("scored", "good", parts=(SCORED, Outcome("unscored", reason="refused"))),
    "half of a surrogate pair": Outcome("unscored", reason="\udfff.png"),
}


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
def test_an_outcome_comes_back_as_it_was(outcome: Outcome):
    kept = OutcomeCache()
    kept.store("no hash", Outcome("unscored", reason="of another"))
    kept.store(KEY, outcome)
    assert (kept.find(KEY), kept.find("f" * 32)) == (outcome, None)
    for number in range(MOST_UNWRITTEN):  # then it is read from the database
        kept.store(f"{number:032x}", SCORED)
    assert (kept.find(KEY), kept.find("f" * 32)) == (outcome, None)
    kept.close()


def test_an_outcome_that_a_full_disk_refuses_is_found_all_the_same():
    cache = OutcomeCache()
    cache._database.execute("pragma max_page_count = 3")
    keys = [f"{number:032x}" for number in range(2 * MOST_UNWRITTEN + 1)]
    for key in keys:
        cache.store(key, SCORED)
    assert [cache.find(key) for key in keys] == [SCORED] * len(keys)
    assert cache._unwritten
    cache.close()
