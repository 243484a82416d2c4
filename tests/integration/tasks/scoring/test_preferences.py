"""Criteria of the method `preference`: outputs beside another model's or a baseline's, in a real run."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.model.errors import InputError, UnfinishedError
from gradebook.tasks.agreement.published_run import measure_run
from gradebook.tasks.comparing.compare import compare_runs
from gradebook.tasks.judging.opinions.parts import PartVote
from gradebook.tasks.judging.settings.judge import JudgeSettings, Opinion
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.ledger.verify import verify_ledger
from gradebook.tasks.methods.preference import _combine
from gradebook.tasks.ratings.import_ratings import import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.runs.request import EvaluationRequest
from gradebook.tasks.stages import run_stages
from gradebook.tasks.stages.preview import preview_run
from gradebook.tasks.stages.rescore import RescoreRequest, rescore_run
from tests.support.batch_jobs import PACE
from tests.support.law_over import law_over
from tests.support.loopback_judge import LoopbackJudge
from tests.support.preference_judge import write_preference
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: better
version: 1.0.0
missing: skip
criteria:
  - {{id: helps, description: Which answer helps more?, method: {{type: preference, against: {against}}}}}
"""
OLD = {"wins": "a", "loses": "b **", "ties": "c *", "flips": "d?", "same": "e", "alone": None}
NEW = {"wins": "a *", "loses": "b", "ties": "cc *", "flips": "dd?", "same": "e", "alone": "f"}
SCORES = {"wins": 1.0, "loses": 0.0, "ties": 0.5, "flips": 0.5, "same": 0.5, "alone": None}
NO_PAIR = "no_pair: found no answer of {} to the case and sample, expected one"


@pytest.fixture
def judge(judge: LoopbackJudge) -> LoopbackJudge:
    judge.writer = write_preference
    return judge


def rows_of(**models: dict[str, str | None]) -> list[dict[str, Any]]:
    return [
        {"case_id": case, "model": model, "output": text, "prompt": f"Say {case}"}
        for model, answers in models.items()
        for case, text in answers.items()
        if text is not None
    ]


def rubric_against(folder: Path, against: str) -> Path:
    path = folder / f"{against}.yaml"
    path.write_text(RUBRIC.format(against=against), encoding="utf-8")
    return path


def evaluated(folder: Path, rows: list[dict[str, Any]], against: str, **request: Any) -> Any:
    return publish(write_lines(folder / "outputs.jsonl", rows), rubric_against(folder, against), judge="m", **request)


def rows_in(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with connect(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def verdicts_in(folder: Path, model: str, column: str = "verdicts.score") -> dict[str, Any]:
    query = f"select case_id, {column} from verdicts join outputs using (output_id) where model = '{model}'"
    return dict(rows_in(folder, query))


def test_ratings_of_a_preference_are_choices_between_the_two_outputs(tmp_path: Path):
    scores = {"wins": 0.9, "loses": 0, "ties": 0.5}
    ratings = write_lines(
        tmp_path / "ratings.jsonl",
        [
            {"case_id": case, "model": "new", "criterion_id": "helps", "rater": "anna", "score": score}
            for case, score in scores.items()
        ],
    )
    rubric, outputs = rubric_against(tmp_path, "old"), write_lines(tmp_path / "o.jsonl", rows_of(old=OLD, new=NEW))
    publish(outputs, rubric, ratings=str(ratings))
    query = """select preferences.case_id, model, choice, score, likert_value
        from preferences join outputs on output_id = output_a order by all"""
    assert rows_in(tmp_path, query) == [  # A is the model that comes first by name
        ("loses", "new", "b", 0.75, 0.0),
        ("ties", "new", "tie", 0.5, 0.5),
        ("wins", "new", "a", 0.25, 0.9),
    ]
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    again = import_ratings(lake, read_rubric(rubric), RatingFile(ratings))
    assert (again.choice_count, again.new_choice_count) == (3, 0)


def test_every_run_of_the_rated_outputs_has_the_preferences_of_the_present_labels(tmp_path: Path):
    def write(name: str, score: float) -> Path:
        rating = {"case_id": "wins", "model": "new", "criterion_id": "helps", "rater": "anna", "score": score}
        return write_lines(tmp_path / name, [rating])

    rubric, outputs = rubric_against(tmp_path, "old"), write_lines(tmp_path / "o.jsonl", rows_of(old=OLD, new=NEW))
    lake = find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite")
    query = """select run_id, list(choice order by preferences.rowid) from preferences group by all order by all"""
    publish(outputs, rubric, ratings=str(write("first.jsonl", 1)), run_id="r1", allow_unscored=True)
    publish(outputs, rubric, run_id="r2", allow_unscored=True)
    other = tmp_path / "other.yaml"  # another question, which nobody answered
    other.write_text(rubric.read_text().replace("helps more", "is kinder").replace("1.0.0", "2.0.0"))
    publish(outputs, other, run_id="r3", allow_unscored=True)
    assert rows_in(tmp_path, query) == [("r1", ["a"]), ("r2", ["a"])]
    corrected = import_ratings(lake, read_rubric(rubric), RatingFile(write("second.jsonl", 0)))
    assert (corrected.choice_count, corrected.new_choice_count) == (2, 2)
    assert rows_in(tmp_path, query) == [("r1", ["a", "b"]), ("r2", ["a", "b"])]
    publish(outputs, rubric, ratings=str(write("third.jsonl", 0.5)), run_id="r4", allow_unscored=True)
    assert rows_in(tmp_path, query) == [("r1", ["a", "b", "tie"]), ("r2", ["a", "b", "tie"]), ("r4", ["tie"])]


@pytest.mark.nightly
def test_an_output_wins_ties_or_loses_against_the_answer_of_another_model(judge: LoopbackJudge, tmp_path: Path):
    outputs, rubric = (
        write_lines(tmp_path / "outputs.jsonl", rows_of(old=OLD, new=NEW)),
        rubric_against(tmp_path, "old"),
    )
    request = EvaluationRequest(str(outputs), str(rubric), judge="m", lake=f"sqlite:{tmp_path}/lake/catalog.sqlite")
    assert preview_run(request)[1].request_count == 8
    run = publish(outputs, rubric, judge="m", has_report=True)
    assert verdicts_in(tmp_path, "new") == SCORES
    assert verdicts_in(tmp_path, "new", "reason")["alone"] == NO_PAIR.format("old")
    assert set(verdicts_in(tmp_path, "old").values()) == {0.5}  # beside itself
    assert judge.request_count == 2 * 4  # both orders; nothing of equal texts and of an output alone
    words = verdicts_in(tmp_path, "new", "rationale")
    assert words["flips"] == "shown first: better: 0 and 0 stars\nshown second: worse: 0 and 0 stars"
    assert words["same"] == "both answers have the same text"
    assert verdicts_in(tmp_path, "new", "evidence")["wins"] == '["a"]'
    counts = "pair_count, win_count, tie_count, loss_count, asked_count, position_flip_rate"
    rates = rows_in(tmp_path, f"select model, other_model, {counts} from preference_rates order by model")
    assert rates == [("new", "old", 5, 1, 3, 1, 4, 0.25), ("old", "old", 5, 0, 5, 0, 0, None)]
    keys = rows_in(tmp_path, "select count(distinct request_key), count(*) from judgments")
    assert keys == [(8, 8)]  # each order has an identity of its own
    assert [(row["model"], row["win_rate"]) for row in run.preferences] == [("new", 0.5)]
    page = (tmp_path / "lake" / "runs" / run.run_id / "report.html").read_text(encoding="utf-8")
    assert "Preferences of the judge" in page
    assert (
        "another answer is preferred in at most 25.0% of the pairs, which are ties: on helps of new against old" in page
    )
    (ranking, _) = measure_run(find_lake(request.lake), run.run_id).rankings
    assert (ranking.source, ranking.models, ranking.ranking.strengths[1].choice_count) == ("judge", ("new", "old"), 5)


@pytest.mark.nightly
def test_a_baseline_is_held_against_and_nothing_is_asked_twice(judge: LoopbackJudge, tmp_path: Path):
    plain = tmp_path / "plain.yaml"
    plain.write_text(
        "id: plain\nversion: 1.0.0\ncriteria:\n  - id: long\n    description: Is it one word or more?\n"
        "    method: {type: check, check: length_words, settings: {min: 1}}\n",
        encoding="utf-8",
    )
    publish(write_lines(tmp_path / "outputs.jsonl", rows_of(old=OLD)), plain, run_id="first")
    evaluated(tmp_path, rows_of(new=NEW), "baseline", baseline="first", run_id="second")
    of_new = "select case_id, score from verdicts join outputs using (output_id) where run_id = '{}'"
    assert dict(rows_in(tmp_path, of_new.format("second"))) == SCORES
    evaluated(tmp_path, rows_of(new=NEW), "baseline", baseline="first", run_id="third")
    assert dict(rows_in(tmp_path, of_new.format("third"))) == SCORES
    assert judge.request_count == 8
    assert rows_in(tmp_path, "select distinct other_model from preference_rates") == [("old",)]
    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    later = rubric_against(tmp_path, "baseline")
    later.write_text(later.read_text().replace("1.0.0", "1.1.0"), encoding="utf-8")
    rescore_run(RescoreRequest("second", str(later), lake, run_id="rescored"))
    assert "different baselines" not in (compare_runs(find_lake(lake), "second", "rescored").banner or "")


@pytest.mark.parametrize(
    ("against", "baseline", "message"),
    [
        ("baseline", None, "--baseline: found none, expected the id of a run: helps compares with its outputs"),
        ("baseline", "latest", "--baseline: found latest, expected the id of a run: helps compares with its outputs"),
        ("else", None, "helps: method.against: found else, expected baseline, or a model of the outputs: new"),
    ],
)
def test_nothing_to_hold_against_is_refused_before_a_question(
    judge: LoopbackJudge, tmp_path: Path, against: str, baseline: str | None, message: str
):
    with pytest.raises(InputError) as refused:
        evaluated(tmp_path, rows_of(new=NEW), against, baseline=baseline)
    assert message in str(refused.value)
    assert judge.request_count == 0


@pytest.mark.nightly
def test_a_lost_judge_goes_on_where_it_stopped_and_a_lost_reply_is_a_gap(judge: LoopbackJudge, tmp_path: Path):
    judge.faults = ["", "", "", *["401"] * 50]
    with pytest.raises(UnfinishedError):
        evaluated(tmp_path, rows_of(old=OLD, new=NEW), "old", run_id="r")
    judge.faults = []
    judge.writer = lambda body: "no JSON" if "loses" in str(body) else write_preference(body)
    evaluated(tmp_path, rows_of(old=OLD, new=NEW), "old", run_id="r")
    assert verdicts_in(tmp_path, "new") == SCORES | {"loses": None}
    assert verdicts_in(tmp_path, "new", "reason")["loses"] == "parse_error"


@pytest.mark.nightly
def test_a_panel_and_replicates_vote_on_each_pair_in_both_orders(judge: LoopbackJudge, tmp_path: Path):
    def write(body: dict[str, Any]) -> str:
        if body["model"] != "contrary":
            return write_preference(body)
        return write_preference(
            body | {"messages": json.loads(json.dumps(body["messages"]).replace("*", "").replace("?", ""))}
        )

    judge.writer = write
    panel = tmp_path / "panel.yaml"
    (tmp_path / "twice.yaml").write_text("model: m\nreplicates: 2\n", encoding="utf-8")
    panel.write_text("aggregate: median\npanel: [twice.yaml, n, contrary]\n", encoding="utf-8")
    rows = rows_of(old=OLD, new=NEW)
    outputs, rubric = write_lines(tmp_path / "outputs.jsonl", rows), rubric_against(tmp_path, "old")
    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    request = EvaluationRequest(str(outputs), str(rubric), judge=str(panel), lake=lake)
    assert preview_run(request)[1].request_count == 32  # 4 votes in both orders, on 4 pairs
    publish(outputs, rubric, judge=str(panel), run_id="r")
    assert (judge.request_count, verdicts_in(tmp_path, "new")) == (32, SCORES)
    votes = "select judge, replicate, level_id from opinions join outputs using (output_id) where case_id = 'wins'"
    assert sorted(rows_in(tmp_path, votes)) == [
        ("contrary", 0, "same"),
        ("m", 0, "better"),
        ("m", 1, "better"),
        ("n", 0, "better"),
    ]
    verified = verify_ledger(find_lake(lake))
    assert (verified.verdict_count, verified.findings) == (4, [])
    spoil = "update opinions set level_id = 'better' where judge = 'n' and level_id = 'same'"
    commit(find_lake(lake), "spoil", lambda connection, _version: connection.execute(spoil))
    assert {(each.found, each.expected) for each in verify_ledger(find_lake(lake)).findings} == {("better", "same")}
    words = verdicts_in(tmp_path, "new", "rationale")["wins"]
    assert words.startswith("shown first: better (3 better, 1 same): 1 and 0 stars")


@law_over(
    ("votes", "level"),
    [
        ("b", "better"),
        ("bw", "same"),
        ("bs", "same"),
        ("bbw", "better"),
        ("bww", "worse"),
        ("b-", "better"),
        ("b--", None),
    ],
)
def test_votes_that_are_split_in_the_middle_are_a_tie_whichever_way(votes: str, level: str | None):
    names = {"b": "better", "s": "same", "w": "worse", "-": None}
    mirrored = {"better": "worse", "worse": "better"}
    for given, wanted in (
        (names, level),
        ({"b": "worse", "s": "same", "w": "better", "-": None}, mirrored.get(level, level)),
    ):
        cast = {Opinion(0, place): PartVote(given[each], None, str(place)) for place, each in enumerate(votes)}
        (found,) = _combine(JudgeSettings(model="m"), [cast])
        assert found.level == wanted


@pytest.mark.nightly
def test_preferences_go_in_batches_too(judge: LoopbackJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run_stages, "PACE", PACE)
    settings = tmp_path / "judge.yaml"
    settings.write_text("model: m\nmode: batch\n", encoding="utf-8")
    outputs = write_lines(tmp_path / "outputs.jsonl", rows_of(old=OLD, new=NEW))
    publish(outputs, rubric_against(tmp_path, "old"), judge=str(settings))
    assert verdicts_in(tmp_path, "new") == SCORES
    tiers = rows_in(tmp_path, "select service_tier, count(*) from judgments group by all")
    assert tiers == [("batch", 8)]
