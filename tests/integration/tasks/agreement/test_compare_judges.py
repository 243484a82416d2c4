"""`gradebook judge compare`: two judges of the same outputs."""

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.agreement.compare_judges import compare_judges
from tests.support.rated_lake import JudgedRun, publish_runs
from tests.support.scored_lake import make_lake

TRUTH = [1.0, 0.0, 1.0, 1.0] * 10


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """The same outputs by a judge that is right, and by one that says the opposite of every fourth; 24 are rated."""
    found = make_lake(tmp_path_factory.mktemp("judges"))
    wrong = [1.0 - score if place % 4 == 3 else score for place, score in enumerate(TRUTH)]
    runs = {"good": JudgedRun(TRUTH, "large"), "poor": JudgedRun(wrong, "small"), "else": JudgedRun(TRUTH, prefix="x")}
    ratings = [
        {"output_id": f"o{place:02}", "criterion_id": "tone", "rater": "ann", "score": TRUTH[place]}
        for place in range(24)
    ]
    costs = [
        {"run_id": "good", "cost_usd": 0.08, "saved_usd": 0.0},
        {"run_id": "poor", "cost_usd": 0.01, "saved_usd": 0.01},
    ]
    publish_runs(found, runs, {"ratings": ratings, "stage_costs": costs})
    return found


@pytest.mark.nightly
def test_the_better_judge_is_first_with_its_price(lake):
    found = compare_judges(lake, ["poor", "good"]).as_json()["judges"]
    assert [(row["judge"], row["n"], row["usd_per_1000_outputs"]) for row in found] == [
        ("large", 24, 2.0),
        ("small", 24, 0.5),
    ]
    assert found[0]["outputs"]["value"] == 1.0 and found[1]["outputs"]["value"] < 0.9
    assert found[1]["bias"] == -0.25
    # Of the 24 people fail 6, as do both; the small one also fails every fourth, so 18 agree as when all were passed.
    trusts = [(row["trust"]["found"]["value"], row["trust"]["agreement"]["value"]) for row in found]
    assert trusts == [(1.0, 1.0), (1.0, 0.75)]
    assert found[1]["trust"]["always_pass"] == 0.75


def test_judges_of_other_outputs_are_refused(lake):
    with pytest.raises(InputError, match="no output that people rated"):
        compare_judges(lake, ["good", "else"])
    with pytest.raises(InputError, match="two or more runs"):
        compare_judges(lake, ["good", "good"])
