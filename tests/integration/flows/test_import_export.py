"""Import, evaluation and export of one file of every format, by command."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.flows.commands.options import DEFAULT_LAKE
from gradebook.rubrics.importers.registry import FORMAT_NAMES, find_format
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.lake.connections import commit
from tests.support.nightly import matrix
from tests.support.preference_judge import write_preference
from tests.support.samples import write_outputs

EXAMPLES = Path(__file__).parents[2] / "unit" / "rubrics" / "importers" / "examples"
OF_RUBRICS = [
    ("potato", "trajectory.yaml"),
    *matrix(
        [
            ("tree", "tree.json"),
            ("potato", "potato.yaml"),
            ("potato", "potato_points.yaml"),
            ("dataknobs", "dataknobs.json"),
            ("dimensions", "dimensions.json"),
            ("autorubric", "autorubric.yaml"),
        ]
    ),
]
OF_CASES = [
    ("scale", "scale.json"),
    *matrix(
        [
            ("healthbench", "healthbench.jsonl"),
            ("prometheus", "prometheus.json"),
            ("checklist", "checklist.jsonl"),
            ("ifeval", "ifeval.jsonl"),
        ]
    ),
]

OF_RUBRICS_READ = [("openai-graders", "openai-graders.json")]
OF_RESULTS = [
    ("openai-evals", "openai-evals.jsonl"),
    ("promptfoo", "promptfoo.json"),
    ("deepeval", "deepeval.json"),
    ("lm-eval", "lm-eval.jsonl"),
    ("pairs", "pairs.json"),
    ("inspect-scores", "inspect-scores.json"),
    ("tau-bench", "tau-bench.json"),
    ("terminal-bench", "terminal-bench.json"),
]
# Rows with criteria as those of a checklist; there is nothing to export.
OF_CASES_READ = [("multichallenge", "multichallenge.jsonl"), ("advancedif", "advancedif.jsonl")]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def marks_of(ratings: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    columns = ("case_id", "model", "criterion_id", "rater", "level_id")
    return sorted(tuple(row[column] for column in columns) for row in ratings)


def import_answered(gradebook, form: str, example: str, folder: Path) -> Path:
    """Import a file of cases; cases without answers get short ones."""
    first = folder / "first"
    assert gradebook("rubric", "import", EXAMPLES / example, "--format", form, "-o", first).code == 0
    if (first / "outputs.jsonl").exists():
        return first
    rows = [
        {"case_id": row["case_id"], "model": "m", "output": "A few words."} for row in rows_of(first / "cases.jsonl")
    ]
    answers = folder / "answers.jsonl"
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    words = ("--format", form, "--answers", answers, "-o", folder / "second")
    assert gradebook("rubric", "import", EXAMPLES / example, *words).code == 0
    return folder / "second"


def test_every_format_has_an_example_here():
    rows = [
        getattr(row, "values", row) for row in (*OF_RUBRICS, *OF_CASES, *OF_CASES_READ, *OF_RUBRICS_READ, *OF_RESULTS)
    ]
    assert {form for form, _ in rows} == set(FORMAT_NAMES)


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "example"), OF_RUBRICS)
def test_an_imported_rubric_is_evaluated_and_exported(gradebook, evaluate, tmp_path, form, example):
    rubric, back = tmp_path / "rubric.yaml", tmp_path / f"back{Path(example).suffix}"
    assert gradebook("rubric", "import", EXAMPLES / example, "--format", form, "-o", rubric).code == 0
    finished = evaluate(write_outputs(tmp_path / "o.jsonl", count=2), "--rubric", rubric, "--allow-unscored")
    assert finished.code in (0, 1), finished.err
    assert gradebook("rubric", "export", rubric, "--format", form, "-o", back).code == 0
    read = find_format(form).read
    original, again = (read(path.read_text(encoding="utf-8"), example) for path in (EXAMPLES / example, back))
    assert again.rubric == original.rubric


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "example"), OF_RUBRICS_READ)
def test_an_imported_rubric_of_a_format_that_is_only_read_is_evaluated(gradebook, evaluate, tmp_path, form, example):
    rubric = tmp_path / "rubric.yaml"
    assert gradebook("rubric", "import", EXAMPLES / example, "--format", form, "-o", rubric).code == 0
    finished = evaluate(write_outputs(tmp_path / "o.jsonl", count=2), "--rubric", rubric, "--allow-unscored")
    assert finished.code in (0, 1), finished.err
    refused = gradebook("rubric", "export", rubric, "--format", form)
    assert (refused.code, f"--format: found {form}, which is only read" in refused.err) == (2, True)


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "example"), OF_RESULTS)
def test_imported_results_have_the_scores_of_their_evaluator(gradebook, evaluate, tmp_path, form, example):
    folder = tmp_path / "results"
    assert gradebook("rubric", "import", EXAMPLES / example, "--format", form, "-o", folder).code == 0
    ratings, rubric, outputs = (folder / name for name in ("ratings.jsonl", "rubric.yaml", "outputs.jsonl"))
    named = rubric if rubric.exists() else "none"
    read = outputs if outputs.exists() else EXAMPLES / example  # of Inspect a run reads the log itself
    finished = evaluate(read, "--rubric", named, "--ratings", ratings, "--allow-unscored")
    assert finished.code in (0, 1), finished.err
    stored = gradebook("sql", "select criterion_id, score from ratings", "--format", "json").json
    given = [(row["criterion_id"], row["score"]) for row in rows_of(ratings)]
    assert sorted((row["criterion_id"], row["score"]) for row in stored) == sorted(given)


@pytest.mark.nightly
@pytest.mark.parametrize(("form", "example"), OF_CASES)
def test_imported_cases_are_evaluated_by_their_own_criteria_and_exported(gradebook, evaluate, tmp_path, form, example):
    folder = import_answered(gradebook, form, example, tmp_path)
    ratings = folder / "ratings.jsonl"
    words = ("--ratings", ratings) if ratings.exists() else ()
    finished = evaluate(folder / "outputs.jsonl", "--rubric", "none", *words)
    assert finished.code in (0, 1), finished.err
    criteria_count = sum(len(row["criteria"]) for row in rows_of(folder / "outputs.jsonl"))
    found = gradebook("sql", "select count(*) as n from verdicts", "--format", "json").json
    assert found == [{"n": criteria_count}]
    assert gradebook("rubric", "export", folder / "outputs.jsonl", "--format", form, "-o", tmp_path / "back").code == 0


@pytest.mark.nightly
def test_the_ratings_of_a_scale_task_are_the_scores(gradebook, evaluate, tmp_path):
    folder = import_answered(gradebook, "scale", "scale.json", tmp_path)
    evaluate(folder / "outputs.jsonl", "--rubric", "none", "--ratings", folder / "ratings.jsonl")
    scores = gradebook("sql", "select avg(score) as mean from verdicts", "--format", "json").json[0]["mean"]
    values = {"no_issues": 1, "minor_issues": 0.5, "major_issues": 0}
    given = [values[row["level_id"]] for row in rows_of(folder / "ratings.jsonl")]
    assert scores == pytest.approx(sum(given) / len(given))


@pytest.mark.nightly
def test_a_scale_task_comes_back_with_the_ratings_of_a_run(gradebook, evaluate, tmp_path):
    folder = import_answered(gradebook, "scale", "scale.json", tmp_path)
    first, second, *others = rows_of(folder / "ratings.jsonl")
    given = [first | {"level_id": "major_issues"}, second, second | {"rater": "ben"}, *others]
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps(row) + "\n" for row in given), encoding="utf-8")
    evaluate(folder / "outputs.jsonl", "--rubric", "none", "--ratings", new)
    run_id = gradebook("sql", "select run_id from runs", "--format", "json").json[0]["run_id"]
    back, again = tmp_path / "back.json", tmp_path / "again"
    words = ("rubric", "export", folder / "outputs.jsonl", "--format", "scale", "-o", back)
    assert gradebook(*words, "--run", run_id).code == 0
    assert gradebook("rubric", "import", back, "--format", "scale", "-o", again).code == 0
    assert marks_of(rows_of(again / "ratings.jsonl")) == marks_of(given) != marks_of([first, second, *others])
    assert "expected one of those" in gradebook(*words, "--force", "--run", "none-there").err
    # a choice of the page replaces the one that came in
    task = EXAMPLES / "scale.json"
    assert "1 choice between outputs, 1 new" in gradebook("people", "ratings", "import", task, "--rubric", "none").out
    changed = "'b' as choice, 0.75 as score, 'ann' as rater, now() as rated_at, null as likert_value"

    def choose(connection: Any, _version: int) -> None:
        connection.execute(f"insert into preferences by name select * replace ({changed}) from preferences")

    commit(find_lake(DEFAULT_LAKE), "a choice", choose)
    assert gradebook(*words, "--force", "--run", run_id).code == 0
    assert '"value": "model_b"' in back.read_text(encoding="utf-8")


def test_a_judge_s_preferences_are_held_against_the_labels_of_pairs(judge, gradebook, evaluate, tmp_path):
    judge.writer = write_preference  # the answer with more stars
    pairs = [("a **", "b", 1), ("c", "d *", 2), ("e *", "f", 2)]
    rows = [
        {"input": f"Say {first}", "output_1": first, "output_2": second, "label": label}
        for first, second, label in pairs
    ]
    file = tmp_path / "dataset.json"
    file.write_text(json.dumps(rows), encoding="utf-8")
    folder = tmp_path / "out"
    assert gradebook("rubric", "import", file, "--format", "pairs", "-o", folder).code == 0
    words = ("--rubric", folder / "rubric.yaml", "--ratings", folder / "ratings.jsonl", "--judge", "m")
    assert evaluate(folder / "outputs.jsonl", *words, "--allow-unscored").code in (0, 1)
    agreement = gradebook("people", "agreement", "--json").json["agreement"][0]
    assert agreement["statistics"]["percent_agreement"]["value"] == pytest.approx(2 / 3)  # the third label is wrong


def test_outputs_without_a_model_get_the_one_that_is_named(gradebook, tmp_path):
    words = ("rubric", "import", EXAMPLES / "lm-eval.jsonl", "--format", "lm-eval", "-o", tmp_path / "out")
    assert gradebook(*words, "--model", "small").code == 0
    rows = [*rows_of(tmp_path / "out" / "outputs.jsonl"), *rows_of(tmp_path / "out" / "ratings.jsonl")]
    assert {row["model"] for row in rows} == {"small"}


def test_a_file_is_not_overwritten_without_force(gradebook, tmp_path):
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text("mine", encoding="utf-8")
    words = ("rubric", "import", EXAMPLES / "potato.yaml", "--format", "potato", "-o", rubric)
    assert (gradebook(*words).code, rubric.read_text(encoding="utf-8")) == (2, "mine")
    assert gradebook(*words, "--force").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.json", "--format", "tree", "-o", "x"), "nowhere.json: can't be read"),
        (
            (EXAMPLES / "scale.json", "--format", "scale", "-o", "x.yaml"),
            "expected a folder for outputs.jsonl, cases",
        ),
        ((EXAMPLES / "potato.yaml", "--format", "potato", "-o", "x.jsonl"), "expected a folder for rubric.yaml"),
        ((EXAMPLES / "potato.yaml", "--format", "potato", "-o", "x.txt"), "or a file that ends in .yaml"),
        (("comma.json", "--format", "scale", "-o", "x"), "comma.json:1: found a comma before ']'"),
    ],
)
def test_a_bad_import_is_refused_and_writes_nothing(gradebook, tmp_path, words, message):
    (tmp_path / "comma.json").write_text('[{"task_id": "a"},\n]', encoding="utf-8")
    finished = gradebook("rubric", "import", *words)
    assert (finished.code, message in finished.err) == (2, True), finished.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["comma.json"]


def test_an_export_lists_lost_fields(gradebook):
    finished = gradebook("rubric", "export", "general_answer", "--format", "autorubric")
    assert (finished.code, "lost:" in finished.err) == (0, True)


def test_a_rubric_in_a_format_of_cases_is_told_from_a_missing_file(gradebook):
    finished = gradebook("rubric", "export", "json_record", "--format", "healthbench")
    assert finished.code == 2
    assert "--format healthbench: found json_record, a rubric, expected a file of rows with criteria" in finished.err
