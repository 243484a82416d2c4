"""`gradebook people agreement` and `gradebook people calibrate` on one rated run of a panel of two judges."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradebook.tasks.agreement.calibration import calibrate_run
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from tests.support.loopback_judge import LoopbackJudge
from tests.support.nightly import matrix
from tests.support.samples import query, write_outputs, write_rubric

CASES = 12
FIRST = ("people", "agreement", "r", "--criterion", "clarity", "--json")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lake of the first `rated`; later tests copy it."""
    return tmp_path_factory.mktemp("rated") / "kept"


@pytest.fixture
def rated(gradebook, evaluate, tmp_path: Path, kept: Path) -> Iterator[Any]:
    """Command in a folder with a lake with run `r`: two models, judges a and b, raters ann and bob."""
    if kept.exists():
        shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    else:
        _evaluate(tmp_path, evaluate)
        shutil.copytree(tmp_path, kept)
    return gradebook


@pytest.fixture
def measured(rated, kept: Path) -> Any:
    """Output of `gradebook people agreement --json` for the run, computed once."""
    known = kept.with_name("measured.json")
    if not known.exists():
        known.write_text(rated(*FIRST).out, encoding="utf-8")
    return json.loads(known.read_text(encoding="utf-8"))["agreement"]


def _evaluate(folder: Path, evaluate: Any) -> None:
    outputs, rubric = write_outputs(folder / "outputs.jsonl", CASES), write_rubric(folder / "rubric.yaml")
    rows = [
        {"case_id": f"c{case}", "model": "small", "criterion_id": "clarity", "rater": rater, "level_id": level}
        for case in range(8)
        for rater, level in (("ann", "clear" if case % 2 else "unclear"), ("bob", "clear" if case % 4 else "unclear"))
    ]
    (folder / "ratings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with LoopbackJudge() as one, LoopbackJudge() as other:
        for name, server in (("a", one), ("b", other)):
            settings = f"model: {name}\nbase_url: {server.base_url}\nprices: {{input_usd: 1, output_usd: 1}}\n"
            (folder / f"{name}.yaml").write_text(settings, encoding="utf-8")
        (folder / "judge.yaml").write_text("panel: [a.yaml, b.yaml]\n", encoding="utf-8")
        words = ("--judge", folder / "judge.yaml", "--ratings", folder / "ratings.jsonl", "--run-id", "r")
        finished = evaluate(outputs, "--rubric", rubric, *words)
    assert finished.code == 0, finished.err


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")


def part(found: Any, kind: str, **who: str) -> Any:
    wanted = {"judge": None, "rater": None} | who
    (row,) = [row for row in found if row["kind"] == kind and all(row[name] == wanted[name] for name in wanted)]
    return row


@pytest.mark.nightly
def test_raters_of_a_run_are_compared_with_each_other(measured):
    # ann: clear in odd cases, bob in those not divisible by 4: of 0..7 they differ in 2 and 6
    found = part(measured, "raters")
    assert (found["n"], found["pair_count"]) == (8, 8)
    assert found["statistics"]["percent_agreement"]["value"] == pytest.approx(6 / 8)


def test_every_kind_of_pair_appears_once(measured):
    kinds = [(row["kind"], row["judge"], row["rater"]) for row in measured]
    assert len(kinds) == len(set(kinds)) == 3 + 3 + 2 + 3


def test_the_bias_of_the_judge_is_the_difference_that_sql_finds(rated, measured):
    (row,) = query(
        rated,
        "select avg(v.score - r.score) as bias, count(*) as n from verdicts as v "
        "join ratings as r using (output_id, criterion_id)",
    )
    found = part(measured, "judge_raters")
    assert (found["statistics"]["bias"]["value"], found["pair_count"]) == (pytest.approx(row["bias"]), row["n"])


def test_a_confusion_matrix_counts_the_pairs(measured):
    found = part(measured, "judge_raters")
    assert sum(map(sum, found["confusion"])) == found["pair_count"] == 16


def test_the_published_rows_equal_the_command_s_output(rated, measured):
    published = query(rated, "select * from agreement where run_id = 'r'")
    for row in published:
        found = part(measured, row["kind"], judge=row["judge"], rater=row["rater"])
        assert found["statistics"][row["statistic"]]["value"] == row["value"]
        assert (found["n"], found["statistics"][row["statistic"]]["ci_low"]) == (row["n"], row["ci_low"])
    assert len(published) == 11 * 23 + 2  # of the verdict also its gaps, and its alpha beside that of people


def test_later_ratings_count_in_the_command_but_not_in_the_table(rated, tmp_path):
    def add(connection, _version):
        connection.execute(
            "insert into ratings by name select output_id, 'clarity' as criterion_id, 'cyd' as rater, "
            "'clear' as level_id, 1.0 as score, 'later' as source from outputs where model = 'large'"
        )

    commit(find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"), "ratings", add)
    found = part(rated(*FIRST).json["agreement"], "judge_raters")
    assert found["n"] == 8 + CASES
    assert query(rated, "select max(n) as n from agreement where kind = 'judge_raters'") == [{"n": 8}]


@pytest.mark.parametrize(("by", "shown"), [*matrix([("rater", ("ann", "bob"))]), ("judge", (" a ", " b "))])
def test_the_terminal_shows_each_rater_or_judge(rated, by, shown):
    finished = rated("people", "agreement", "--by", by)
    assert finished.code == 0
    assert all(name in finished.out for name in shown)
    assert " all " not in finished.out


def test_the_terminal_shows_a_table_for_each_kind_and_a_criterion_in_full(rated):
    shown = rated("people", "agreement", "--rubric", "short_answer", "--criterion", "clarity").out
    titles = ("raters among themselves", "judge against raters", "judges among themselves")
    assert [shown.count(f"\n{title}, with 95% intervals") for title in titles] == [1, 1, 1]
    assert "it is of one rater against the others" in shown
    assert "this side in rows" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("people", "agreement", "nowhere"), "run nowhere: found no such run"),
        (("people", "agreement", "--rubric", "other"), "found no published run of the rubric 'other'"),
        (("people", "agreement", "r", "--rubric", "other"), "--rubric: found 'other', but run r is of short_answer"),
        (("people", "agreement", "r", "--criterion", "x"), "--criterion: found 'x', expected one of clarity, length"),
        (("people", "calibrate", "r", "--criterion", "x"), "--criterion: found 'x', expected one of clarity, length"),
        (("people", "calibrate", "r", "--rate-next", "-1"), "--rate-next: found -1, expected 0 to 10,000"),
    ],
)
def test_missing_runs_and_criteria_are_refused(rated, words, message):
    finished = rated(*words)
    assert (finished.code, message in finished.err) == (2, True)


# -------- calibration
def test_the_rated_model_is_calibrated(rated):
    (row,) = rated("people", "calibrate", "r", "--json").json["calibration"]
    assert (row["criterion_id"], row["model"], row["n"], row["unrated_count"]) == ("clarity", "small", 8, CASES - 8)
    # ann and bob of 0..7: both clear in 4, one of two in 2 and 6: (4 + 2 x 1/2) / 8
    assert row["rated"]["value"] == pytest.approx(5 / 8)


@pytest.mark.nightly
def test_the_judge_alone_is_the_mean_of_the_run(rated):
    (row,) = rated("people", "calibrate", "r", "--criterion", "clarity", "--json").json["calibration"]
    (scores,) = query(rated, "select mean from criterion_scores where criterion_id = 'clarity' and model = 'small'")
    assert row["naive"]["value"] == pytest.approx(scores["mean"])


def test_the_report_of_a_rated_run_has_the_corrected_mean(rated, tmp_path):
    (row,) = rated("people", "calibrate", "r", "--json").json["calibration"]
    assert rated("report", "r", "--out", "page.html").code == 0
    assert f'<td class="number">{row["corrected"]["value"]:.3f}</td>' in (tmp_path / "page.html").read_text("utf-8")


def test_outputs_to_rate_next_are_unrated(rated):
    found = rated("people", "calibrate", "r", "--criterion", "clarity", "--rate-next", "100", "--json").json[
        "rate_next"
    ]
    rated_ids = {row["output_id"] for row in query(rated, "select output_id from ratings")}
    named = [row["output_id"] for row in found]
    assert len(named) == len(set(named)) == 2 * CASES - 8
    assert not rated_ids & set(named)


def test_the_terminal_shows_the_means_and_the_outputs_to_rate(rated):
    shown = rated("people", "calibrate", "r", "--rate-next", "3").out
    assert "corrected: PPI++" in shown
    assert "3 outputs to rate next, in this order:" in shown


@pytest.mark.nightly
@pytest.mark.server
def test_the_flow_gives_what_the_command_does(rated, tmp_path, prefect_server):

    from gradebook.flows.calibrate_judge import calibrate_judge

    lake = f"sqlite:{tmp_path}/lake/catalog.sqlite"
    found = calibrate_judge("r", rate_next=2, lake=lake)
    assert found == calibrate_run(find_lake(lake), "r", next_count=2)


@pytest.mark.nightly
def test_without_ratings_there_is_nothing_to_compare(gradebook, tmp_path):
    (tmp_path / "reply.txt").write_text("one two three", encoding="utf-8")
    gradebook("review", "reply.txt", "--rubrics", write_rubric(tmp_path / "rubric.yaml"), "--allow-unscored")
    assert gradebook("people", "agreement", "--json").json["agreement"] == []
    told = [gradebook("people", name).out.partition("note: ")[2] for name in ("agreement", "raters")]
    assert told[0] == told[1] and told[0].startswith("nobody rated the outputs of this run; to collect ratings: ")
