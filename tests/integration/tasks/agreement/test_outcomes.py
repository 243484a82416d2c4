"""`gradebook people outcomes`: imported beside runs, shown beside scores, on the command line and the page."""

import json
from pathlib import Path

import pytest

RUBRIC = """
id: r
version: 1.0.0
name: r
description: d
owner: o
criteria:
  - {id: long, description: L, weight: 0.5, method: {type: check, check: length_words, settings: {min: 5}}}
  - {id: short, description: S, weight: 0.3, method: {type: check, check: length_words, settings: {max: 5}}}
  - {id: any, description: A, weight: 0.2, method: {type: check, check: length_words, settings: {min: 1}}}
"""


@pytest.fixture
def run(evaluate, tmp_path: Path) -> Path:
    """Run of 40 cases, of 3, 5 and 7 words in turn."""
    rows = [
        {"case_id": f"c{n}", "model": "m", "output": " ".join(["word"] * (3 + 2 * (n % 3)) + [str(n)][:0]) + f" {n}"}
        for n in range(40)
    ]
    (tmp_path / "o.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "r.yaml").write_text(RUBRIC)
    finished = evaluate(tmp_path / "o.jsonl", "--rubric", tmp_path / "r.yaml", "--run-id", "run")
    assert finished.code == 0, finished.err
    lines = ["case_id,value", *(f"c{n},{5 * (n % 3 > 0) + n % 2}" for n in range(40)), "elsewhere,1"]
    (tmp_path / "clicks.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.nightly
def test_outcomes_are_imported_once_and_shown_beside_scores(gradebook, run):
    words = ["people", "outcomes", "import", run / "clicks.csv", "--name", "clicks", "--json"]
    assert gradebook(*words, "--dry-run").json["new_count"] == 41

    def counts() -> list[int]:
        found = gradebook(*words).json
        return [found[name] for name in ("row_count", "new_count", "changed_count", "unmatched_count")]

    assert counts() == [41, 41, 0, 1]
    assert counts() == [41, 0, 0, 1]
    (run / "clicks.csv").write_text((run / "clicks.csv").read_text().replace("c0,0", "c0,1"))
    assert counts() == [41, 0, 1, 1]
    stored = gradebook("sql", "select count(*) as n, sum(value) as total from outcomes", "--format", "json").json
    assert stored == [{"n": 41, "total": 5 * 26 + 20 + 1 + 1}]
    (shown,) = gradebook("people", "outcomes", "show", "run", "--json").json["outcomes"]
    rows = {row["criterion_id"]: row for row in shown["rows"]}
    assert (rows[""]["n"], rows["any"]["pearson"]) == (40, None)
    assert rows["long"]["pearson_low"] > 0.8 > rows["short"]["pearson_high"]
    assert rows["long"]["suggested"] > rows["long"]["weight"]
    beside = gradebook("sql", "select count(*) as n from outcome_scores where run_id = 'run'", "--format", "json").json
    assert beside == [{"n": 40}]
    gradebook("report", "run", "--out", run / "page.html")
    page = (run / "page.html").read_text()
    assert 'id="outcomes"' in page
    assert "clicks by case, m: the score" in page
    assert "any never varies within a model" in page


@pytest.mark.nightly
def test_a_run_whose_outputs_have_no_overall_score_still_has_a_report(gradebook, run, evaluate):
    levels = "[{id: bad, score: 0}, {id: good, score: 1}]"
    rated = f"  - {{id: rated, description: R, weight: 1, method: {{type: ratings}}, levels: {levels}}}\n"
    (run / "r.yaml").write_text(RUBRIC.replace("id: r\n", "id: s\n") + rated)
    words = ("--rubric", run / "r.yaml", "--run-id", "unrated", "--allow-unscored")
    assert evaluate(run / "o.jsonl", *words).code == 0
    assert gradebook("people", "outcomes", "import", run / "clicks.csv", "--name", "clicks").code == 0
    (shown,) = gradebook("people", "outcomes", "show", "unrated", "--json").json["outcomes"]
    assert [row["criterion_id"] for row in shown["rows"]] == ["long", "short", "any"]
    assert gradebook("report", "unrated", "--out", run / "page.html").code == 0
    assert "clicks by case, m: " in (run / "page.html").read_text()


@pytest.mark.nightly
def test_every_fault_of_a_file_is_reported_and_nothing_is_imported(gradebook, run):
    rows = [
        {"name": "x", "value": "abc", "case_id": "c1"},
        {"value": 1, "case_id": "c1"},
        {"name": "x", "value": 2},
        {"name": "x", "value": 2, "day": "2026-13-01"},
        {"name": "x", "value": True, "output_id": "o"},
        {"name": "x", "value": 0, "output_id": "o"},
        {"name": "x\0", "value": 0, "output_id": "o"},
        {"name": "x", "value": 0, "case_id": "c\0"},
        {"name": "x", "value": 0, "case_id": {"c": 1}},
        {"name": "x", "value": 0, "day": "2026-11-01", "model": "m\0"},
    ]
    (run / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "none.csv").write_text("name,case_id\nx,c1\n")
    finished = gradebook("people", "outcomes", "import", run / "none.csv")
    assert (finished.code, "expected value: name the column that holds it" in finished.err) == (2, True), finished.err
    finished = gradebook("people", "outcomes", "import", run / "bad.jsonl")
    assert finished.code == 2
    for line, words in enumerate(("a number", "the name None", "no output_id", "a date such as"), 1):
        assert f"bad.jsonl:{line}: " in finished.err
        assert words in finished.err
    for line, words in enumerate(("the name 'x", "case_id: found a null", "case_id: found", "model: found a null"), 7):
        assert f"bad.jsonl:{line}: {words}" in finished.err or f"bad.jsonl:{line}: found {words}" in finished.err
    assert "bad.jsonl:6: found the value 0 after 1 in line 5" in finished.err
    assert gradebook("people", "outcomes", "list", "--json").json == {"outcomes": []}


@pytest.mark.nightly
def test_a_day_stands_beside_the_runs_of_that_day(gradebook, run):
    (run / "days.jsonl").write_text("".join(json.dumps({"day": f"2026-11-{n:02}", "value": n}) + "\n" for n in (1, 2)))
    today = gradebook(
        "sql", "select (created_at at time zone 'UTC')::date::varchar as day from runs", "--format", "json"
    )
    with (run / "days.jsonl").open("a") as file:
        file.write(json.dumps({"day": today.json[0]["day"], "value": 7}) + "\n")
    imported = gradebook(
        "people", "outcomes", "import", run / "days.jsonl", "--name", "refunds", "--lower-is-better", "--json"
    ).json
    assert imported["unmatched_count"] >= 1
    (shown,) = gradebook("people", "outcomes", "show", "run", "--json").json["outcomes"]
    assert (shown["grain"], shown["rows"][0]["n"], shown["rows"][0]["pearson"]) == ("day", 1, None)
