"""Claims on the rating page: marked, scored, stored, exported, read again, and compared with the judge's verdicts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.errors import RatingsError
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.ratings.export_ratings import exported_ratings
from gradebook.tasks.ratings.import_ratings import RatingImport, import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import opened_session
from tests.support.nightly import matrix
from tests.support.samples import write_lines
from tests.support.served_ratings import CLAIMS_RUBRIC, HOSTILE, ORIGIN, RUN, Served, claimed_run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    lake = claimed_run(tmp_path)
    with opened_session(lake, RUN, queue=Queue.random, count=2, overlap=1) as session:
        served = Served.of(lake, session)
        served.enter("anna")
        yield served


def send(served: Served, position: int, *verdicts: str, version: int = 0, **fields: str) -> int:
    levels = {f"level.groundedness.{number}": verdict for number, verdict in enumerate(verdicts, 1)}
    sent = levels | {"version": str(version), "action": "submit"} | fields
    return served.client.post(f"/sheet/{position}", data=sent, headers={"origin": ORIGIN}).status_code


def rate_both(served: Served) -> None:
    """Mark the claims of both outputs: the moon and the returns as the judge did, the hostile text as contradicted."""
    for _ in range(2):
        position = int(served.client.get("/").headers["location"].rpartition("/")[2])
        has_moon = "moon" in served.client.get(f"/sheet/{position}").text
        assert send(served, position, *(("supported", "not_in_source") if has_moon else ("contradicted", "n/a"))) == 303
    served.session.store_marks()


def rows_in(served: Served, select: str) -> list[tuple[Any, ...]]:
    with connect(served.lake, read_only=True) as connection:
        return connection.execute(select).fetchall()


def imported(served: Served, folder: Path, rows: list[dict[str, Any]]) -> RatingImport:
    file = write_lines(folder / "ratings.jsonl", rows)
    return import_ratings(served.lake, parse_rubric(CLAIMS_RUBRIC, "rubric.yaml"), RatingFile(file))


def test_verdicts_on_claims_and_the_score_that_they_make_land_in_the_lake(served: Served):
    served.client.get("/")
    page = served.client.get("/sheet/1").text
    assert "level.groundedness.2" in page
    assert "level.groundedness.3" not in page  # an opinion is not rated
    assert "unverified" not in page  # raters do not see what the judge said
    assert HOSTILE not in page  # escaped
    rate_both(served)
    claims = rows_in(served, "select claim, side, verdict, rater from claim_ratings order by claim")
    assert [(claim, verdict) for claim, _, verdict, _ in claims] == [
        (HOSTILE, None),
        ("Returns take 60 days.", "contradicted"),
        ("The moon is cheese.", "not_in_source"),
        ("The shop is open.", "supported"),
    ]
    assert {(side, rater) for _, side, _, rater in claims} == {("output", "anna")}
    ratings = rows_in(served, "select criterion_id, score, notes from ratings order by score")
    assert ratings == [
        ("groundedness", 0.0, "0 of 1 claims supported, 1 contradicted"),
        ("groundedness", 0.5, "1 of 2 claims supported, 1 not in source"),
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("verdicts", [("supported", ""), *matrix([(("supported",),)])])
def test_a_claim_without_a_verdict_is_marked_and_nothing_is_stored(served: Served, verdicts: tuple[str, ...]):
    served.client.get("/")
    assert send(served, 1, *verdicts) == 422
    assert served.session.store.open_marks() == []
    assert send(served, 1, "true", "supported") == 400  # no page sends such a verdict


@pytest.mark.nightly
def test_verdicts_are_exported_and_read_again_and_compared_with_the_judge(served: Served, tmp_path: Path):
    rate_both(served)
    rows = [json.loads(json.dumps(row)) for row in exported_ratings(served.lake, RUN, "jsonl")]
    assert [len(row["claims"]) for row in rows] == [2, 1]
    again = imported(served, tmp_path, rows)
    assert (again.faults, again.claim_count, again.new_count, again.version) == ((), 3, 0, None)
    ben = [row | {"rater": "ben"} for row in rows]
    ben[1]["claims"][0]["verdict"] = "supported"
    assert imported(served, tmp_path, ben).version is not None
    found = {each.kind: each for each in measure_run(served.lake, RUN).claims}
    raters, judge = found["raters"], found["judge_raters"]
    assert (raters.criterion_id, raters.n, raters.percent_agreement.value) == ("groundedness", 3, pytest.approx(2 / 3))
    # anna agrees with the judge on all three claims, ben on two of them
    assert (judge.n, judge.percent_agreement.value) == (3, pytest.approx(5 / 6))
    assert ("contradicted", "contradicted", 1) in judge.error_pairs


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([{"claim": "The sea is dry.", "verdict": "supported"}], "expected a claim that a run of the lake found"),
        *matrix(
            [
                ([{"claim": "The shop is open.", "verdict": "yes"}], "claims[0].verdict: found 'yes', expected one of"),
                (
                    [{"claim": "The shop is open.", "side": "context"}],
                    "claims[0].side: found 'context', expected one of",
                ),
                ([{"claim": 7, "verdict": "supported"}], "claims[0].claim: found 7, expected the claim's words"),
                ([{"claim": "The shop is open."}] * 2, "found a claim twice"),
            ]
        ),
    ],
)
def test_verdicts_that_do_not_fit_are_refused_by_name(served, tmp_path: Path, claims: Any, expected: str):
    row = {"case_id": "c0", "model": "m", "rater": "ben", "criterion_id": "groundedness", "claims": claims}
    with pytest.raises(RatingsError) as caught:
        imported(served, tmp_path, [row])
    assert expected in str(caught.value)
