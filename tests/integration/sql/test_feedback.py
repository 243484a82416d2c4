"""output_feedback and run_feedback: feedback text from the tables of the lake."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.rubric_store.versions import store_rubric

Fill = Callable[..., str]
VERSION = {"rubric_id": "reply", "rubric_version": "1.0.0"}
CRITERIA = [
    VERSION | {"criterion_id": name, "weight": weight, "effective_weight": weight, "is_gate": gate, "position": place}
    for place, (name, weight, gate) in enumerate([("tone", 0.6, False), ("length", 0.4, False), ("safe", 0.0, True)], 1)
]
TONE = [
    ("bad", 0.0, None, "Blames."),
    ("partial", 0.5, None, "Polite,\n but curt."),
    ("good", 1.0, "Warm", "Names it."),
]
CHECK = [("fail", 0.0, None, None), ("pass", 1.0, None, None)]
VERSE = [
    {"id": "low", "score": 0.0, "label": None, "description": None},
    {"id": "high", "score": 1.0, "label": None, "description": "Sings."},
]
LEVELS = [
    VERSION
    | {"criterion_id": name, "position": place, "level_id": level, "score": score, "label": label, "description": words}
    for name, levels in {"tone": TONE, "length": CHECK, "safe": CHECK}.items()
    for place, (level, score, label, words) in enumerate(levels, 1)
]
OUTPUT = {"run_id": "run", "output_id": "o", "model": "m", "failed_gates": []}
OPEN = {"score_low": 0.31, "score_high": 0.81, "unscored_gate_count": 0}
FULL = {"tone": ("partial", 0.5), "length": ("pass", 1.0), "safe": ("pass", 1.0)}


def insert(connection: duckdb.DuckDBPyConnection, table: str, given: list[dict[str, Any]]) -> None:
    if given:
        names = list(dict.fromkeys(name for row in given for name in row))
        connection.register("given", pa.table({name: [row.get(name) for row in given] for name in names}))
        connection.execute(f"insert into {table} by name from given")
        connection.unregister("given")


def verdict(criterion_id: str, level: tuple[str | None, float | None] | str) -> dict[str, Any]:
    """Verdict with level and score, or unscored with a reason."""
    row: dict[str, Any] = {"run_id": "run", "output_id": "o", "criterion_id": criterion_id}
    return row | ({"reason": level} if isinstance(level, str) else {"level_id": level[0], "score": level[1]})


def fill_tables(connection, scores, verdicts, own=()):
    insert(connection, "runs", [VERSION | {"run_id": "run"}])
    insert(connection, "criteria", CRITERIA)
    insert(connection, "levels", LEVELS)
    insert(connection, "output_scores", [OUTPUT | {"unscored_count": 0, "unscored_gate_count": 0} | scores])
    insert(connection, "verdicts", [verdict(name, level) for name, level in verdicts.items()])
    insert(
        connection,
        "case_criteria",
        [{"run_id": "run", "output_id": "o", "weight": 1.0, "is_gate": False} | row for row in own],
    )


@pytest.fixture
def feedback(memory) -> Fill:
    """Feedback of one output, as lines."""

    def call(scores: dict[str, Any], verdicts: dict[str, Any], own: Any = ()) -> list[str]:
        fill_tables(memory, scores, verdicts, own)
        return memory.execute("select feedback from output_feedback").fetchall()[0][0].split("\n")

    return call


# -------- an output
def test_the_feedback_has_a_line_per_criterion_and_the_level_to_aim_for(feedback):
    # tone can gain 0.6 x 0.5, the others nothing
    assert feedback({"score": 0.7, "is_passed": True}, FULL) == [
        "Passed, score 0.70.",
        "tone: partial (0.50)",
        "length: pass (1.00)",
        "safe: pass (1.00), gate",
        "Improve first: tone, to reach Warm: Names it.",
    ]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({"score": 0.42}, "Score 0.42."),
        ({"score": 0.42, "is_passed": False}, "Not passed, score 0.42."),
        (
            {"score": 0.42, "is_passed": False, "failed_gates": ["no_pii"]},
            "Not passed, score 0.42: failed the gate no_pii.",
        ),
        (
            {"score": 0.4, "is_passed": False, "failed_gates": ["a", "b"]},
            "Not passed, score 0.40: failed the gates a, b.",
        ),
        (OPEN | {"unscored_count": 2}, "No score: 2 criteria unscored (between 0.31 and 0.81)."),
        (
            OPEN | {"unscored_count": 1, "is_passed": True},
            "Passed. No score: 1 criterion unscored (between 0.31 and 0.81).",
        ),
        (
            OPEN | {"unscored_count": 2, "unscored_gate_count": 1, "is_passed": False, "failed_gates": ["a"]},
            "Not passed: failed the gate a. No score: 1 criterion unscored (between 0.31 and 0.81).",
        ),
        ({"unscored_count": 2}, "No score: 2 criteria unscored."),
        ({"is_passed": True}, "Passed."),
        ({"is_passed": False, "failed_gates": ["a"]}, "Not passed: failed the gate a."),
        ({}, "No score."),
    ],
)
def test_the_first_line_has_pass_or_fail_and_the_score(feedback, scores, expected):
    assert feedback(scores, FULL)[0] == expected


def test_an_unscored_criterion_has_its_reason_if_known(feedback):
    lines = feedback({}, {"tone": "not_rated", "safe": ("pass", 1.0)})
    assert lines[1:] == ["tone: unscored (not_rated)", "length: unscored", "safe: pass (1.00), gate"]


def test_a_verdict_without_a_level_shows_its_score(feedback):
    assert feedback({}, FULL | {"length": (None, 0.25)})[2] == "length: 0.25"


def test_a_level_is_shown_by_its_label(feedback):
    assert feedback({}, FULL | {"tone": ("good", 1.0)})[1] == "tone: Warm (1.00)"


def test_a_levels_description_stays_on_one_line(feedback):
    assert feedback({}, FULL | {"tone": ("bad", 0.0)})[-1] == "Improve first: tone, to reach partial: Polite, but curt."


def test_the_level_to_aim_for_has_no_colon_without_a_description(feedback):
    # length can gain 0.4 x 1, tone 0.6 x 0.5 = 0.3
    assert feedback({}, FULL | {"length": ("fail", 0.0)})[-1] == "Improve first: length, to reach pass"


def test_at_the_best_level_there_is_no_aim(feedback):
    assert len(feedback({}, FULL | {"tone": ("good", 1.0)})) == 4


def test_a_failed_gate_is_the_aim_before_any_gain(feedback):
    # tone could gain 0.6 x 1
    lines = feedback({"failed_gates": ["safe"]}, FULL | {"tone": ("bad", 0.0), "safe": ("fail", 0.0)})
    assert lines[-1] == "Improve first: safe, to reach pass"


def test_a_gate_passed_below_its_best_level_is_not_the_aim(feedback):
    assert len(feedback({}, FULL | {"tone": ("good", 1.0), "safe": ("fail", 0.5)})) == 4


def test_of_two_failed_gates_that_of_the_rubric_is_the_aim(feedback):
    own = [{"criterion_id": "kind", "is_gate": True, "weight": 0.0, "levels": VERSE}]
    verdicts = FULL | {"kind": ("low", 0.0), "safe": ("fail", 0.0)}
    assert feedback({"failed_gates": ["kind", "safe"]}, verdicts, own)[-1] == "Improve first: safe, to reach pass"


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(None, "Improve first: kind, to reach c"), (0.6, "Improve first: kind, to reach c"), (0.4, None)],
)
def test_the_aim_for_a_gate_is_the_first_level_that_passes_it(feedback, threshold, expected):
    # b (0.5) does not pass a threshold of 0.6 or of the best level; it passes 0.4, so the gate did not fail
    levels = [VERSE[0] | {"id": name, "score": score} for name, score in (("a", 0.0), ("b", 0.5), ("c", 1.0))]
    own = [{"criterion_id": "kind", "is_gate": True, "weight": 0.0, "threshold": threshold, "levels": levels}]
    failed = ["kind"] if expected else []
    lines = feedback({"failed_gates": failed}, FULL | {"tone": ("good", 1.0), "kind": ("b", 0.5)}, own)
    assert lines[4:] == ["kind: b (0.50), gate", *([expected] if expected else [])]


def test_of_equal_gains_the_first_in_the_rubric_is_named(feedback):
    # tone 0.6 x (1 - 0.5) = 0.3, length 0.4 x (1 - 0.25) = 0.3
    assert feedback({}, FULL | {"length": (None, 0.25)})[-1] == "Improve first: tone, to reach Warm: Names it."


def test_per_case_criteria_come_last_by_id_with_their_own_levels(feedback):
    own = [{"criterion_id": "verse", "levels": VERSE}, {"criterion_id": "rude", "weight": -1.0, "levels": VERSE}]
    lines = feedback({}, FULL | {"verse": ("low", 0.0), "rude": ("fail", 0.0)}, own)
    assert lines[4:] == [
        "rude: fail (0.00), penalty",
        "verse: low (0.00)",
        "Improve first: verse, to reach high: Sings.",
    ]


def test_the_aim_for_a_penalty_is_the_lower_level(feedback):
    # the penalty costs 2 x 1, tone can gain 0.6 x 0.5
    own = [{"criterion_id": "rude", "weight": -2.0, "levels": [VERSE[0] | {"description": "Polite."}, VERSE[1]]}]
    lines = feedback({}, FULL | {"rude": ("high", 1.0)}, own)
    assert lines[4:] == ["rude: high (1.00), penalty", "Improve first: rude, to reach low: Polite."]


def test_written_feedback_of_the_judge_replaces_the_summary(memory, feedback):
    lines = feedback({"score": 0.7, "is_passed": True}, FULL)
    written = {"run_id": "run", "output_id": "o", "model": "m", "feedback": "Answer the second question."}
    insert(memory, "written_feedback", [written, written | {"output_id": None, "feedback": "Of the run."}])
    rows = memory.execute("select summary, feedback from output_feedback").fetchall()
    assert rows == [("\n".join(lines), "Answer the second question.")]


# -------- a tree
def keep_tree(memory) -> None:
    """Rubric with voice (3), facts (1), top (2) and a penalty at the top; b and d are in voice."""
    criteria = {"b": ("voice", 1), "d": ("voice", 2), "c": ("facts", 1), "top": (None, 2), "rude": (None, -1)}
    method = {"type": "check", "check": "any"}
    body = {
        "id": "reply",
        "version": "1.0.0",
        "categories": [{"id": "voice", "weight": 3}, {"id": "facts"}, {"id": "inner", "parent": "voice"}],
        "criteria": [
            {"id": name, "description": "So?", "method": method, "category": category, "weight": weight}
            for name, (category, weight) in (criteria | {"deep": ("inner", 1)}).items()
        ],
    }
    store_rubric(memory, Rubric.model_validate(body), datetime(2026, 11, 1, tzinfo=UTC))


def test_a_criterion_of_a_tree_has_a_weight_on_the_scale_of_per_case_criteria(memory):
    # voice (3) has b 1, d 2, inner 1: 0.75, 1.5, 0.75; the sum at the top, 3 + 1 + 2 = 6, excludes the penalty
    keep_tree(memory)
    weights = dict(memory.execute("select criterion_id, weight from criterion_ladders").fetchall())
    assert weights == pytest.approx({"b": 0.75, "d": 1.5, "deep": 0.75, "c": 1.0, "top": 2.0, "rude": -1.0})


@pytest.mark.parametrize(("weight", "expected"), [(1.0, "d"), (2.0, "mine")])
def test_the_gain_in_a_tree_is_compared_with_that_of_a_per_case_criterion(memory, weight, expected):
    # d costs 1.5, mine its weight; all others are met
    keep_tree(memory)
    insert(memory, "runs", [VERSION | {"run_id": "run"}])
    insert(memory, "output_scores", [OUTPUT | {"unscored_count": 0, "unscored_gate_count": 0}])
    own = {"run_id": "run", "output_id": "o", "criterion_id": "mine", "is_gate": False}
    insert(memory, "case_criteria", [own | {"weight": weight, "levels": VERSE}])
    insert(memory, "verdicts", [verdict(name, ("fail", 0.0)) for name in ("d", "mine")])
    last = memory.execute("select feedback from output_feedback").fetchall()[0][0].split("\n")[-1]
    assert last.startswith(f"Improve first: {expected}, to reach ")


def test_a_rubric_with_an_unreadable_body_has_weights_by_its_shares(memory):
    fill_tables(memory, {}, {})
    insert(memory, "rubrics", [VERSION | {"body": "no JSON"}])
    weights = dict(memory.execute("select criterion_id, weight from criterion_ladders").fetchall())
    assert weights == {"tone": 0.6, "length": 0.4, "safe": 0.0}


# -------- a run
def run_words(memory, scores, own=(), **criteria):
    fill_tables(memory, {}, {}, own)
    run = {"run_id": "run", "model": "m"}
    insert(memory, "run_scores", [run | {"output_count": 200, "n": 200} | scores])
    rows = [run | {"criterion_id": name, "output_count": 200, **row} for name, row in criteria.items()]
    insert(memory, "criterion_scores", rows)
    return memory.execute("select feedback from run_feedback").fetchall()[0][0].split("\n")


def test_the_feedback_of_a_run_is_about_its_means(memory):
    # tone 0.6 x 0.4 = 0.24, length 0.4 x 0.3 = 0.12; the level above 0.6 is good
    scores = {"mean": 0.64, "ci_low": 0.6, "ci_high": 0.68, "pass_rate": 0.91}
    means = {"safe": {"mean": 0.98}, "tone": {"mean": 0.6, "weight": 0.6}, "length": {"mean": 0.7, "weight": 0.4}}
    assert run_words(memory, scores, **means) == [
        "Mean 0.64 (0.60 to 0.68) over 200 outputs; 91.0% passed.",
        "tone: mean 0.60",
        "length: mean 0.70",
        "safe: mean 0.98, gate",
        "Weakest: tone: Warm: Names it.",
    ]


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({"mean": 0.5, "n": 180}, "Mean 0.50 over 180 of 200 outputs."),
        ({"mean": 0.5, "n": 1, "output_count": 1}, "Mean 0.50 over 1 output."),
        ({"n": 0, "pass_rate": 1.0}, "No mean over 0 of 200 outputs; 100.0% passed."),
    ],
)
def test_the_first_line_of_a_run_leaves_out_unknown_figures(memory, scores, expected):
    assert run_words(memory, scores)[0] == expected


def test_a_per_case_criterion_comes_last_in_the_feedback_of_a_run(memory):
    lines = run_words(memory, {"mean": 0.5}, mine={"mean": 0.1}, tone={"mean": None})
    assert lines[1:] == ["tone: unscored", "mine: mean 0.10"]


@pytest.mark.parametrize(("mean", "expected"), [(0.7, "tone: Warm: Names it."), (0.5, "verse: high: Sings.")])
def test_the_weakest_criterion_has_the_lowest_mean_and_may_be_per_case(memory, mean, expected):
    own = [{"criterion_id": "verse", "levels": VERSE, "weight": weight, "output_id": str(weight)} for weight in (1, 2)]
    lines = run_words(memory, {}, own, tone={"mean": 0.6}, verse={"mean": mean, "output_count": 50})
    assert lines[-1] == f"Weakest: {expected}"


def test_different_levels_under_one_id_give_no_aim(memory):
    own = [{"criterion_id": "verse", "levels": levels, "output_id": str(levels)} for levels in (VERSE, VERSE[:1])]
    assert run_words(memory, {}, own, verse={"mean": 0.5})[1:] == ["verse: mean 0.50"]


@pytest.mark.parametrize(("pass_rate", "expected"), [(0.97, "tone: Warm: Names it."), (0.4, "safe: pass")])
def test_a_gate_is_the_weakest_only_if_its_pass_rate_is_the_lowest(memory, pass_rate, expected):
    means = {"safe": {"mean": pass_rate, "pass_rate": pass_rate}, "tone": {"mean": 0.6}}
    assert run_words(memory, {}, **means)[-1] == f"Weakest: {expected}"


def test_of_two_gates_that_with_the_lower_pass_rate_is_the_weakest(memory):
    own = [{"criterion_id": "kind", "is_gate": True, "weight": 0.0, "levels": VERSE}]
    kind = {"mean": 0.4, "pass_rate": 0.4, "output_count": 50}
    lines = run_words(memory, {}, own, safe={"mean": 0.9, "pass_rate": 0.9}, kind=kind)
    assert lines[-1] == "Weakest: kind: high: Sings."


@pytest.mark.parametrize("pass_rate", [1.0, None])
def test_a_gate_without_known_failures_is_not_the_weakest(memory, pass_rate):
    assert run_words(memory, {}, safe={"mean": 0.9, "pass_rate": pass_rate})[1:] == ["safe: mean 0.90, gate"]


# -------- in a lake
@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Lake with one output, whose verdicts were added one version later."""
    place = find_lake(f"sqlite:{tmp_path_factory.mktemp('lake')}/catalog.sqlite")
    prepare_lake(place)
    before = commit(place, "scores", lambda connection, _: fill_tables(connection, {"score": 0.7}, {}))
    rows = [verdict(name, level) for name, level in FULL.items()]
    commit(place, "verdicts", lambda connection, _: insert(connection, "verdicts", rows))
    return place, before


def test_the_feedback_is_that_of_the_requested_version(lake):
    place, before = lake
    query = "select feedback from output_feedback"
    with connect(place, read_only=True) as connection:
        now, then = (
            connection.execute(query).fetchall(),
            connection.execute(f"{query} at (version => {before})").fetchall(),
        )
    assert ("tone: partial" in now[0][0], "tone: unscored" in then[0][0]) == (True, True)


def test_a_query_for_one_output_filters_the_scan_of_the_verdicts(lake):
    query = "explain (format json) select feedback from output_feedback where run_id = 'run' and output_id = 'o'"
    with connect(lake[0], read_only=True) as connection:
        plan = connection.execute(query).fetchall()[0][1]
    scans = [part for part in plan.split('"name"') if '"verdicts"' in part]
    assert ["output_id='o'" in scan and "run_id='run'" in scan for scan in scans] == [True]
