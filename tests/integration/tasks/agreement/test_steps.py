"""Agreement on the steps of agents, by hand-made marks in a real lake."""

from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from tests.support.rated_lake import TONE
from tests.support.scored_lake import make_lake, write_scores

RUN = "run-1"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Four cases of three steps. The judge marks step 1 of each; anna step 1 of three and step 2 of the last."""
    lake = make_lake(tmp_path)
    rows = [{"case_id": f"c{case}", "output_id": f"o{case}", "scores": {"tone": 1}} for case in range(4)]
    write_scores(lake, RUN, TONE, rows)
    wrong_of = {"anna": [(0, 1), (1, 1), (2, 1), (3, 2)], "judge": [(case, 1) for case in range(4)]}

    def mark(connection: Any, _version: int) -> None:
        for who, wrong in wrong_of.items():
            for case in range(4):
                for step in range(3):
                    is_wrong = (case, step) in wrong
                    kind = ("fact" if (who, case) == ("anna", 0) else "tool") if is_wrong else None
                    marked = [f"o{case}", "tone", step, "wrong" if is_wrong else "right", float(not is_wrong), kind]
                    into = "step_verdicts (run_id," if who == "judge" else "step_ratings (rater,"
                    connection.execute(
                        f"insert into {into} output_id, criterion_id, step_index, label, score, error_type) "
                        "values (?, ?, ?, ?, ?, ?, ?)",
                        [RUN if who == "judge" else who, *marked],
                    )

    commit(lake, "marks", mark)
    return lake


def test_the_judge_s_marks_of_steps_are_compared_with_people_s(lake: Lake):
    (found,) = measure_run(lake, RUN).steps
    assert (found.criterion_id, found.kind, found.n, found.case_count) == ("tone", "judge_raters", 12, 4)
    assert found.percent_agreement.value == pytest.approx(10 / 12)
    # expected by chance: 4/12 * 4/12 + 8/12 * 8/12 = 80/144; (120 - 80) / (144 - 80)
    assert found.kappa.value == pytest.approx(0.625)
    assert found.found_rate.value == 3 / 4
    assert found.same_type_rate.value == pytest.approx(2 / 3)
    assert found.found_rate.ci_low < 3 / 4 < found.found_rate.ci_high
    assert {(one, other): count for one, other, count in found.error_pairs} == {
        ("tool", "tool"): 2,
        ("tool", "fact"): 1,
        ("tool", None): 1,
        (None, "tool"): 1,
    }


@pytest.mark.nightly
def test_a_later_mark_of_a_step_counts_and_one_that_is_taken_back_does_not(lake: Lake):
    def change(connection: Any, _version: int) -> None:
        connection.execute(
            "insert into step_ratings (output_id, criterion_id, rater, step_index, label, score, rated_at) values "
            "('o3', 'tone', 'anna', 2, 'right', 1, now()), ('o3', 'tone', 'anna', 1, null, null, now())"
        )

    commit(lake, "later marks", change)
    (found,) = measure_run(lake, RUN).steps
    assert (found.n, found.percent_agreement.value) == (11, 1.0)


@pytest.mark.nightly
def test_raters_are_compared_with_each_other_even_one_called_judge(lake: Lake):
    def rate(connection: Any, _version: int) -> None:
        connection.execute("insert into step_ratings by name select * replace ('judge' as rater) from step_ratings")

    commit(lake, "another rater", rate)
    kinds = {each.kind: each for each in measure_run(lake, RUN).steps}
    assert kinds["raters"].percent_agreement.value == 1.0
    assert kinds["raters"].found_rate.value == 1.0
    assert kinds["judge_raters"].percent_agreement.value == pytest.approx(20 / 24)


@pytest.mark.nightly
def test_votes_of_several_judges_are_compared_and_count_in_no_other_row(lake: Lake):
    def vote(connection: Any, _version: int) -> None:
        for who, wrong_step in (("large", 1), ("small", 2)):
            connection.execute(
                "insert into step_opinions by name select run_id, output_id, criterion_id, step_index, "
                "$who as judge, 0 as replicate, (step_index <> $step)::double as score from step_verdicts",
                {"who": who, "step": wrong_step},
            )

    commit(lake, "votes", vote)
    before, after = measure_run(lake, RUN).steps
    assert (before.kind, before.n) == ("judge_raters", 12)
    assert before.percent_agreement.value == pytest.approx(10 / 12)
    # of three steps the two judges agree on the first alone, and neither finds an error of the other
    assert (after.kind, after.n, after.found_rate.value) == ("judges", 12, 0.0)
    assert after.percent_agreement.value == pytest.approx(1 / 3)
