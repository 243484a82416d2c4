"""Ratings imported: matched to outputs of the lake, graded by a rubric, kept once, beside what was refused."""

import gzip
import json
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.importers.potato import read_potato
from gradebook.rubrics.model.errors import InputError, LakeError, RatingsError
from gradebook.rubrics.model.outputs import SHARD_SCHEMA
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect, prepare_lake
from gradebook.tasks.ratings import import_sheets as rating_sheets
from gradebook.tasks.ratings import import_sheets as rating_sources
from gradebook.tasks.ratings.import_ratings import RatingImport, import_ratings
from gradebook.tasks.ratings.import_sheets import RatingFile
from gradebook.tasks.ratings.tables import count_ratings, find_ratings
from tests.support.nightly import nightly

RUBRIC = parse_rubric(
    """
id: rated
version: 1.0.0
criteria:
  - id: tone
    name: Tone of voice
    description: Is it kind?
    method: {type: judge}
    levels: [{id: bad, score: 0}, {id: okay, score: 0.5}, {id: good, score: 1}]
  - id: clarity
    description: Is it clear?
    method: {type: ratings}
    scale: {min: 1, max: 5}
  - id: steps
    description: Are the steps right?
    method: {type: ratings, penalties: {minor: 2, major: 30, critical: 80}}
    levels: [{id: wrong, score: 0}, {id: right, score: 1}]
overall: {scale: {min: 1, max: 5}}
""",
    "rubric.yaml",
)
OWN = [{"id": "rubric_0_criteria_0", "description": "Names a tree.", "method": {"type": "ratings"}}]
OWN[0]["levels"] = [{"id": "major_issues", "score": 0}, {"id": "minor_issues", "score": 0.5}]
OWN[0]["levels"] += [{"id": "no_issues", "score": 1}]
OUTPUTS = [("o1", "c1", "m", None), ("o2", "c2", "m", "1"), ("o3", "c2", "m", "2"), ("o4", "c3", "m", None)]
WHO = {"trace_id": "c1", "annotator": "anna"}


@dataclass(frozen=True)
class Place:
    """A lake with four outputs, and a folder for files of ratings."""

    path: Path
    lake: Lake
    rubric: Rubric = field(default=RUBRIC)

    def write(self, rows: Any, name: str = "ratings.jsonl") -> Path:
        text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
        (self.path / name).write_text(text, encoding="utf-8")
        return self.path / name

    def take(self, rows: Any, name: str = "ratings.jsonl", is_dry: bool = False, **settings: Any) -> RatingImport:
        file = RatingFile(self.write(rows, name), **({"max_bad_rate": 0.9} | settings))
        return import_ratings(self.lake, self.rubric, file, is_dry=is_dry)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        with connect(self.lake, read_only=True) as connection:
            return connection.execute(text).fetchall()

    def kept(self) -> list[tuple[Any, ...]]:
        return self.query("select output_id, criterion_id, rater, level_id, score, notes from ratings order by all")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with outputs, made once and copied."""
    path = tmp_path_factory.mktemp("made")
    lake = find_lake(f"sqlite:{path}/catalog.sqlite")
    prepare_lake(lake)
    rows = [
        {"output_id": o, "case_id": c, "model": m, "checkpoint": k, "sample_index": 0, "output": o}
        for o, c, m, k in OUTPUTS
    ]
    rows[3]["criteria"] = json.dumps(OWN)
    table = pa.Table.from_pylist(rows, schema=SHARD_SCHEMA)

    def add(connection: Any, _version: int) -> None:
        connection.register("given", table)
        connection.execute("insert into outputs by name from given")
        connection.execute("insert into runs (run_id, status) values ('first', 'published')")
        connection.execute("insert into output_scores (run_id, output_id) values ('first', 'o2')")

    commit(lake, "outputs", add)
    return path


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    shutil.copytree(made, tmp_path / "lake")
    return Place(tmp_path, find_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite"))


def rated(**ratings: Any) -> dict[str, Any]:
    return WHO | {"rubric": {"criteria_ratings": ratings}}


# -------- what is kept
def test_a_rating_is_kept_with_its_level_score_and_notes(place):
    place.take([rated(clarity=4) | {"notes": "short"}])
    assert place.kept() == [("o1", "clarity", "anna", "4", 0.75, "short")]  # (4 - 1) / (5 - 1)


def test_the_same_file_again_adds_nothing(place):
    rows = [rated(clarity=4), rated(clarity=9)]
    first, second = place.take(rows), place.take(rows)
    assert (first.new_count, second.new_count, second.version) == (1, 0, None)
    assert (len(place.kept()), place.query("select count(*) from quarantine")) == (1, [(1,)])


def test_a_dry_run_counts_and_writes_nothing(place):
    imported = place.take([rated(clarity=4), rated(clarity=9)], is_dry=True)
    assert (imported.new_count, imported.bad_count, imported.version) == (1, 1, None)
    assert (place.kept(), place.query("from quarantine")) == ([], [])


def test_what_does_not_apply_is_counted_and_not_kept(place):
    assert place.take([rated(clarity=4, tone="n/a")]).missing_count == 1
    assert [row[1] for row in place.kept()] == ["clarity"]


def test_a_note_without_a_rating_is_counted(place):
    unrated = rated(clarity="n/a", tone="n/a")
    unrated["rubric"]["notes"] = "The answer is in another language."
    imported = place.take([unrated, rated(clarity=4, tone="n/a")])
    assert imported.left_out == ("notes of sheets on which no criterion applies",)


@pytest.mark.nightly
def test_the_notes_of_a_sheet_stand_at_its_overall_row(place):
    row = WHO | {"rubric": {"criteria_ratings": {"clarity": 4}, "overall": 5, "notes": "fine"}}
    place.take([row])
    assert [(row[1], row[5]) for row in place.kept()] == [("clarity", None), ("overall", "fine")]


def test_a_criterion_is_known_by_its_name_too(place):
    place.take([rated(**{"tone of voice": "good"})])
    assert place.kept()[0][1] == "tone"


# -------- which output
@pytest.mark.parametrize(
    ("slot", "output"),
    [
        *nightly(
            [
                ({"trace_id": "o3"}, "o3"),
                ({"output_id": "o3"}, "o3"),
                ({"case_id": "c2", "model": "m", "checkpoint": 2}, "o3"),
            ]
        ),
        ({"trace_id": "c2", "checkpoint": "1"}, "o2"),
    ],
)
def test_an_output_is_found_by_its_id_or_its_case(place, slot, output):
    place.take([slot | {"rater": "a", "clarity": 4}])
    assert [row[0] for row in place.kept()] == [output]


@pytest.mark.parametrize(
    ("slot", "words"),
    [
        *nightly(
            [
                ({"case_id": "c2"}, "case_id c2: found 2 outputs, expected one: name model, checkpoint"),
                ({"case_id": "c9"}, "case_id c9: found no such output in the lake"),
            ]
        ),
        ({"output_id": "o1", "model": "other"}, "output_id o1, model other: found no such output"),
    ],
)
def test_an_output_that_is_not_one_is_refused(place, slot, words):
    imported = place.take([slot | {"rater": "a", "clarity": 4}, rated(clarity=3)])
    assert words in imported.faults[0]


def test_a_run_says_which_of_several_outputs_is_meant(place):
    place.take([{"case_id": "c2", "rater": "a", "clarity": 4}], run_id="first")
    assert [row[0] for row in place.kept()] == ["o2"]


def test_an_unknown_run_is_refused(place):
    with pytest.raises(InputError, match="--run other: found no such run"):
        place.take([rated(clarity=4)], run_id="other")


def test_the_criteria_of_an_outputs_own_row_are_rated(place):
    own = {"case_id": "c3", "rater": "a", "criterion": "rubric_0_criteria_0", "rating": "minor_issues"}
    place.take([own])
    assert place.kept() == [("o4", "rubric_0_criteria_0", "a", "minor_issues", 0.5, None)]


@pytest.mark.nightly
def test_a_criterion_of_another_outputs_row_is_unknown(place):
    own = {"case_id": "c1", "rater": "a", "criterion": "rubric_0_criteria_0", "rating": "minor_issues"}
    assert (
        "criterion: found 'rubric_0_criteria_0', expected one of tone" in place.take([own, rated(tone="bad")]).faults[0]
    )


def test_a_scale_task_rates_the_criteria_of_its_rows(place):
    rating = {"id": "rubric_0_criteria_0_rating", "value": "minor_issues"}
    response = {"role": "assistant", "source_id": "m", "content": {"text": "o4"}, "annotations": [rating]}
    criterion = {"key": "rubric_0_criteria_0", "title": "Names a tree.", "value": "objective"}
    asked = {"role": "user", "content": {"text": "?"}}
    turn = {"messages": [asked, response], "annotations": [criterion]}
    place.take(json.dumps([{"task_id": "c3", "threads": [{"turns": [turn]}]}], indent=1), "task.json")
    assert place.kept() == [("o4", "rubric_0_criteria_0", "scale", "minor_issues", 0.5, None)]


OTHER = {"selected_model_id": "a", "likert_value": 2, "justification": "kinder"}


def test_the_selected_response_of_a_scale_task_is_preferred_to_the_others_once(place):
    def add(connection: Any, _version: int) -> None:
        connection.execute("insert into outputs (output_id, case_id, model, output) values ('o5', 'c3', 'a', 'o5')")
        for output in (("o4", "m"), ("o5", "a")):
            connection.execute("insert into output_scores (run_id, output_id, model) values ('first', ?, ?)", output)

    commit(place.lake, "a second response", add)
    asked = {"role": "user", "content": {"text": "?"}}
    responses = [{"role": "assistant", "source_id": name, "content": {"text": "x"}} for name in ("m", "a", "gone")]
    chosen = {"selected_model_id": "m", "likert_value": 6, "justification": "shorter"}
    task = [{"task_id": "c3", "threads": [{"turns": [{"messages": [asked, *responses[:2]], **chosen}]}]}]
    unknown = [task[0] | {"task_id": "c9"}, task[0]]
    first, again = place.take(json.dumps(task), "task.json"), place.take(json.dumps(task), "task.json")
    assert (first.choice_count, first.new_choice_count, again.new_choice_count, again.version) == (1, 1, 0, None)
    # a comes before m by name, so that the choice of m is that of side B
    columns = "run_id, output_a, output_b, criterion_id, rater, choice, score, notes, likert_value"
    expected = [("first", "o5", "o4", "overall", "scale", "b", 0.75, "shorter", 6.0)]
    assert place.query(f"select {columns} from preferences") == expected
    assert place.take(json.dumps(unknown), "task.json").bad_count == 1
    corrected = json.dumps([{"task_id": "c3", "threads": [{"turns": [task[0]["threads"][0]["turns"][0] | OTHER]}]}])
    assert [place.take(corrected, "task.json").new_choice_count for _ in range(2)] == [1, 0]
    assert place.query("select choice, notes from preferences order by rowid") == [("b", "shorter"), ("a", "kinder")]
    assert place.take(json.dumps(task), "task.json").new_choice_count == 1  # the first choice again, without a time


@pytest.mark.nightly
def test_an_annotation_of_no_criterion_in_a_scale_task_is_named(place):
    rating = {"id": "rubric_0_criteria_0_rating", "value": "minor_issues"}
    other = {"key": "fluency", "value": "major_issues"}
    response = {"role": "assistant", "source_id": "m", "content": {"text": "o4"}, "annotations": [rating, other]}
    criterion = {"key": "rubric_0_criteria_0", "title": "Names a tree.", "value": "objective"}
    turn = {"messages": [{"role": "user", "content": {"text": "?"}}, response], "annotations": [criterion]}
    imported = place.take(json.dumps([{"task_id": "c3", "threads": [{"turns": [turn]}]}]), "task.json")
    assert imported.left_out == ("messages[].annotations[] of no criterion: fluency",)


# -------- trajectories
def test_errors_beside_ratings_are_stored_with_them(place):
    error = {"step": 2, "error_type": "tool", "severity": "minor"}
    place.take([rated(tone="good") | {"annotations": [error]}])
    assert [row[1:5] for row in place.kept()] == [("steps", "anna", None, 0.98), ("tone", "anna", "good", 1.0)]


@pytest.mark.nightly
def test_errors_that_no_criterion_takes_are_named_and_cost_no_rating(place):
    criteria = tuple(each for each in place.rubric.criteria if each.id != "steps")
    place = replace(place, rubric=place.rubric.model_copy(update={"criteria": criteria}))
    error = {"step": 2, "error_type": "tool", "severity": "minor"}
    imported = place.take([rated(tone="good") | {"annotations": [error]}])
    assert imported.left_out == ("annotations, as no criterion takes a running score",)
    assert [row[1] for row in place.kept()] == ["tone"]


FORMS = """
annotation_schemes:
  - annotation_type: rubric_eval
    name: quality
    scale: {min: 1, max: 5}
    criteria: [{name: tone}]
    overall: {}
  - annotation_type: rubric_eval
    name: verdict
    scale: {min: 0, max: 1, labels: {"0": fail, "1": pass}}
    criteria: [{name: tone}]
    overall: {}
  - annotation_type: trajectory_eval
    name: errors
    error_types: [{name: tool, subtypes: [wrong_tool]}, {name: fact}]
    severities: [{name: minor, weight: -2}, {name: major, weight: -30}]
"""


def imported_forms(place: Place) -> Place:
    """Place with the rubric that an import makes of two forms and a trajectory."""
    return replace(place, rubric=Rubric.model_validate(read_potato(FORMS, "forms.yaml").rubric))


@pytest.mark.nightly
def test_two_forms_of_one_row_are_rated_side_by_side_overall_too(place):
    place = imported_forms(place)
    forms = {"quality": {"tone": "4", "overall": "5"}, "verdict": {"tone": "1", "overall": "fail"}}
    place.take([{"id": "c1", "user_id": "anna", **forms}], form="potato")
    found = {row[1]: row[3:5] for row in place.kept()}
    assert found == {"tone": ("4", 0.75), "overall": ("5", 1), "tone_2": ("1", 1), "verdict_overall": ("0", 0)}


@pytest.mark.nightly
def test_two_forms_that_mean_one_criterion_are_refused(place):
    row = {"id": "c1", "user_id": "anna", "a": {"tone": "good"}, "b": {"tone": "bad"}}
    imported = place.take([row, rated(tone="good")], form="potato")
    assert "tone: found it twice (as b.tone), expected each criterion once" in imported.faults[0]


@pytest.mark.nightly
def test_errors_rate_the_counts_and_the_steps_of_an_imported_trajectory(place):
    place = imported_forms(place)
    errors = [
        {"step": 2, "error_type": "wrong_tool", "severity": "minor"},
        {"step": 4, "error_type": "tool / wrong_tool", "severity": "Minor"},
        {"step": 5, "error_type": "fact", "severity": "major"},
        *({"step": step, "error_type": "fact", "severity": "major"} for step in (6, 7, 8, 9)),
    ]
    place.take([WHO | {"annotations": errors}, WHO | {"annotator": "bea", "annotations": []}])
    kept = place.kept()
    scores = {row[2]: row[4] for row in kept if row[1] == "step_correctness"}
    assert scores == {"anna": 0.0, "bea": 1.0}  # 100 - 2 - 2 - 5 * 30 is below 0
    marks = {row[1:4]: row[5] for row in kept if row[1] != "step_correctness"}
    assert marks == {
        ("tool_wrong_tool_minor", "anna", "2"): "steps 2, 4",
        ("tool_wrong_tool_major", "anna", "0"): None,
        ("fact_minor", "anna", "0"): None,
        ("fact_major", "anna", "4"): "steps 5, 6, 7, 8, 9",  # 100 / 30: four errors use up the start
        **{(name, "bea", "0"): None for name in ("tool_wrong_tool_minor", "tool_wrong_tool_major")},
        **{(name, "bea", "0"): None for name in ("fact_minor", "fact_major")},
    }


def test_marks_of_steps_land_in_a_table_in_any_shape_of_the_form_and_once(place):
    place = imported_forms(place)
    right = {"step_index": 0, "correctness": "correct"}
    tool = {"error_type": "tool", "error_subtype": "wrong_tool", "severity": "minor", "rationale": "the map"}
    sheets = [
        WHO | {"annotations": [{"step": 1, "error_type": "tool::wrong_tool", "severity": "minor"}]},
        WHO
        | {
            "annotator": "bea",
            "steps": [
                right,
                {"step_index": 1, "correctness": "partially_correct", **tool},
                {"step_index": 2, "label": None},
            ],
        },
        WHO | {"annotator": "cas", "runs": {"errors": json.dumps({"steps": [right], "score": 100})}},
    ]
    imported = place.take(sheets, form="potato")
    again = place.take(sheets, "again.jsonl", form="potato")
    assert (imported.faults, imported.step_count, again.version) == ((), 4, None)
    with connect(place.lake, read_only=True) as connection:
        rows = connection.execute(
            "select rater, step_index, label, score, error_type, error_subtype, severity, rationale from step_ratings "
            "where criterion_id = 'step_correctness' order by all"
        ).fetchall()
    assert rows == [
        ("anna", 1, "incorrect", 0.0, "tool", "wrong_tool", "minor", None),
        ("bea", 0, "correct", 1.0, None, None, None, None),
        ("bea", 1, "partially_correct", 0.5, "tool", "wrong_tool", "minor", "the map"),
        ("cas", 0, "correct", 1.0, None, None, None, None),
    ]


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ({"label": "odd"}, "step 3: found the label 'odd', expected one of incorrect, partially_correct, correct"),
        *nightly(
            [
                ({"label": "wrong"}, "severity: found nothing, expected one of minor, major"),
                (
                    {"label": "wrong", "severity": "minor"},
                    "annotations: found nothing, expected one of tool / wrong_tool, fact",
                ),
                (
                    {"label": "right", "severity": "minor"},
                    "step 3: found an error on a step labelled correct, expected none",
                ),
            ]
        ),
    ],
)
def test_a_mark_that_the_taxonomy_lacks_is_refused_with_what_it_has(place, mark, reason):
    imported = imported_forms(place).take([WHO | {"annotations": [{"step": 3, **mark}]}, WHO | {"annotations": []}])
    assert reason in imported.faults[0]


@pytest.mark.nightly
def test_an_error_that_no_count_has_is_refused_with_those_there_are(place):
    errors = [{"step": 2, "error_type": "tool", "severity": "minor"}]
    imported = imported_forms(place).take([WHO | {"annotations": errors}, WHO | {"annotations": []}])
    reason = (
        "annotations: found 'tool' minor, expected one of wrong_tool minor, wrong_tool major, fact minor, fact major"
    )
    assert reason in imported.faults[0]


def test_a_trajectory_is_a_running_score_from_100(place):
    errors = [
        {"step": 2, "error_type": "tool", "severity": "minor"},
        {"step": 5, "error_type": "fact", "severity": "major"},
    ]
    place.take([WHO | {"annotations": errors}])
    notes = "step 2: tool (minor, -2); step 5: fact (major, -30)"
    assert place.kept() == [("o1", "steps", "anna", None, 0.68, notes)]  # (100 - 2 - 30) / 100


@pytest.mark.nightly
def test_what_a_person_wrote_of_a_trajectory_stands_below_its_steps(place):
    place.take([WHO | {"annotations": [{"step": 2, "error_type": "tool", "severity": "minor"}], "notes": "tidy"}])
    assert place.kept()[0][5] == "step 2: tool (minor, -2)\ntidy"


@pytest.mark.parametrize(("count", "score"), [(0, 1.0), *nightly([(2, 0.0)])])
def test_a_running_score_lies_between_0_and_1(place, count, score):
    place.take([WHO | {"annotations": [{"step": 1, "error_type": "x", "severity": "critical"}] * count}])
    assert place.kept()[0][4] == score  # max(0, 100 - 2 * 80) / 100


@pytest.mark.nightly
def test_a_severity_without_a_penalty_is_refused(place):
    error = {"step": 1, "error_type": "x", "severity": "huge"}
    imported = place.take([WHO | {"annotations": [error]}, WHO | {"annotations": []}])
    assert "severity: found 'huge', expected one of minor, major, critical" in imported.faults[0]


# -------- numbers
@pytest.mark.nightly
def test_numbers_of_a_file_are_ranks_where_one_is_above_1(place):
    imported = place.take([rated(tone=1), rated(tone=3) | {"annotator": "bob"}])
    assert imported.numbers == {"tone": "rank"}
    assert [row[3] for row in place.kept()] == ["bad", "good"]


@pytest.mark.nightly
def test_a_file_of_ones_is_refused_until_somebody_says_what_1_means(place):
    with pytest.raises(RatingsError, match="tone: found no number but 1"):
        place.take([rated(tone=1)])
    place.take([rated(tone=1)], numbers="score")
    assert place.kept()[0][3] == "good"


@pytest.mark.nightly
def test_a_number_can_mean_not_applicable(place):
    text = "case_id,rater,tone,clarity\nc1,a,0,4\nc1,b,3.0,0\n"
    assert place.take(text, "wide.csv", missing=("0",)).missing_count == 2
    assert [(row[2], row[3]) for row in place.kept()] == [("a", "4"), ("b", "good")]


# -------- what is refused
def test_a_sheet_is_refused_whole_and_the_others_go_on(place):
    imported = place.take([rated(clarity=4, tone="awful"), rated(clarity=3)])
    assert (imported.bad_count, [row[3] for row in place.kept()]) == (1, ["3"])


def test_a_refused_row_is_quarantined_with_its_line(place):
    place.take([rated(clarity=4), rated(clarity=9)])
    ((run_id, source, line, reason, row),) = place.query("from quarantine")
    assert (run_id, Path(source).name, line) == (None, "ratings.jsonl", 2)
    assert reason == "clarity: found 9, expected one of 1, 2, 3, 4, 5" and json.loads(row) == rated(clarity=9)


def test_more_bad_sheets_than_the_share_refuse_all(place):
    with pytest.raises(RatingsError, match="found 1 of 2 sheets of ratings that do not fit"):
        place.take([rated(clarity=4), rated(clarity=9)], max_bad_rate=0.4)
    assert (place.kept(), place.query("from quarantine")) == ([], [])


def test_a_file_that_says_nothing_of_the_criteria_is_refused(place):
    with pytest.raises(RatingsError, match="left out: the column other"):
        place.take("case_id,rater,other\nc1,a,1\n", "wide.csv")


@pytest.mark.parametrize(
    "line",
    [
        *nightly(
            [
                '{"trace_id": "c1", "annotator": "a", "clarity": 4, "clarity": 5}',
                '{"trace_id": "c1", "annotator": "a", "clarity": NaN}',
                '{"trace_id": "c1", "annotator": "a", "clarity": 1e999}',
                '{"trace_id": "c1", "annotator": "a", "clarity": ' + "9" * 5000 + "}",
            ]
        ),
        '{"trace_id": "c1", "annotator": "a", "clarity": ' + "[" * 5000 + "]" * 5000 + "}",
        *nightly(
            [
                '{"trace_id": "c1", "annotator": "\\ud800", "clarity": 4}',
                '{"trace_id": "c1", "annotator": {"a": 1}, "clarity": 4}',
                '["c1", "a", 4]',
                "null",
                "{",
            ]
        ),
    ],
)
def test_a_hostile_line_is_one_bad_row(place, line):
    good = json.dumps(WHO | {"clarity": 3})
    imported = place.take(f"{good}\n{line}\n")
    assert (imported.bad_count, imported.new_count) == (1, 1)


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("", "a.jsonl", "found no ratings"),
        ("[]", "a.json", "found no ratings"),
        ("[" * 5000, "a.json", "found a nesting without measure"),
        ('[{"a": 1} {"b": 2}]', "a.json", "found no comma"),
        ('[{"a": 1},\n', "a.json", "the file's end"),
        (
            '[{"task_id": "t",\n}]',
            "a.json",
            ":1: found a comma before '}', expected none after the last entry: remove it",
        ),
        ("case_id,rater,tone,tone\n", "a.csv", "found the column tone twice"),
        ("x", "a.parquet", "found the suffix .parquet"),
        ("x", "a.txt", "found the suffix .txt"),
    ],
)
def test_a_file_that_is_none_is_refused(place, text, name, words):
    with pytest.raises(RatingsError, match=words):
        place.take(text, name)


def test_a_packed_file_with_a_byte_order_mark_is_read(place):
    path = place.path / "ratings.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + json.dumps(rated(clarity=4)).encode()))
    assert import_ratings(place.lake, RUBRIC, RatingFile(path)).new_count == 1


def test_a_list_that_is_too_long_to_hold_is_refused(place, monkeypatch):
    monkeypatch.setattr(rating_sources, "MOST_BYTES", 100)  # 2**28 in truth: a packed file may hold any number
    with pytest.raises(RatingsError, match="found more than 100 bytes in one JSON value"):
        place.take("[" + " " * 100 + "]", "list.json")


def test_more_sheets_than_fit_in_memory_are_refused(place, monkeypatch):
    monkeypatch.setattr(rating_sheets, "MOST_SHEETS", 1)
    with pytest.raises(RatingsError, match="found more than 1 sheets of ratings"):
        place.take([rated(clarity=4)] * 2)


def test_rows_without_a_sheet_count_among_those_that_fit_in_memory(place, monkeypatch):
    monkeypatch.setattr(rating_sheets, "MOST_SHEETS", 1)
    with pytest.raises(RatingsError, match=r"ratings.jsonl:2: found more than 1 sheets"):
        place.take(["first", "second"])


def test_the_text_of_the_first_refused_rows_is_kept_and_of_the_others_the_reason(place, monkeypatch):
    monkeypatch.setattr(rating_sheets, "MOST_REFUSED_TEXTS", 1)
    place.take(["first", "second", rated(clarity=9), rated(clarity=4)])
    rows = place.query("select line, row, reason <> '' from quarantine order by line")
    assert rows == [(1, '"first"', True), (2, "", True), (3, "", True)]


@pytest.mark.nightly
def test_entries_of_a_list_have_the_lines_on_which_they_begin(place):
    text = json.dumps([WHO | {"clarity": 4}, WHO | {"clarity": 9}], indent=2)
    assert ":7: clarity: found 9" in place.take(text, "list.json").faults[0]


def test_a_lake_that_is_not_there_is_told(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps(rated(clarity=4)))
    with pytest.raises(LakeError, match="found no lake there"):
        import_ratings(find_lake(f"sqlite:{tmp_path}/none.sqlite"), RUBRIC, RatingFile(tmp_path / "a.jsonl"))


# -------- list and show
def test_ratings_are_counted_by_rater_and_criterion(place):
    place.take([rated(clarity=4), {"case_id": "c3", "rater": "anna", "clarity": 2}])
    (row,) = count_ratings(place.lake)
    assert (row["rating_count"], row["output_count"], row["mean_score"]) == (2, 2, 0.5)  # (0.75 + 0.25) / 2


@pytest.mark.parametrize("name", ["o1", *nightly(["c1"])])
def test_the_ratings_of_an_output_are_found_by_its_id_or_case(place, name):
    place.take([rated(clarity=4)])
    assert [row["level_id"] for row in find_ratings(place.lake, name)] == ["4"]
