"""Output of `gradebook people agreement`."""

import numpy as np
import pytest

from gradebook.flows.display.agreement import show_agreement
from gradebook.rubrics.statistics.agreement import measure_sides
from gradebook.tasks.agreement.published_run import AgreementPart, RunAgreement

RUN = {"run_id": "r", "rubric_id": "rated", "rubric_version": "1.0.0", "judge": None}


def part(rater=None):
    ratings = np.array([[0.0, 1.0], [0.0, 1.0]])
    found = measure_sides(ratings, ratings, np.array([0.0, 1.0]))
    return AgreementPart("tone", "judge_raters", None, rater, found.n, found.pair_count, found.measures, (), ())


def test_one_rater_alone_is_shown_by_name(capsys):
    show_agreement(RunAgreement(RUN, (part(), part("ann")), None), "rater", is_full=False)
    shown = capsys.readouterr().out
    assert "judge against raters" in shown
    assert "ann" in shown


@pytest.mark.parametrize(
    ("by", "why"), [("rater", "too many raters, or too few outputs of each"), ("judge", "there is only one judge")]
)
def test_a_missing_breakdown_is_explained(capsys, by, why):
    show_agreement(RunAgreement(RUN, (part(),), "tone: more than 50 raters"), by, is_full=False)
    shown = capsys.readouterr().out
    assert "note: tone: more than 50 raters\n" in shown
    assert f"nothing to compare by {by}: {why}\n" in shown
