"""Home page of a lake: its lists, links and unchanged reports."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from gradebook.rubrics.files.load import parse_rubric, shipped_rubrics
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.connections import commit, connect_up_to_date
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.site import Site, read_home, trend_of, write_site
from tests.support.published_runs import publish
from tests.support.samples import write_lines
from tests.support.scored_lake import make_lake, write_scores

RUBRIC = """
id: words
version: {version}
name: <b>Words</b>
pass_threshold: 0.5
criteria:
  - id: short
    description: Is it short?
    weight: {weight}
    method: {{type: check, check: length_words, settings: {{max: 2}}}}
  - id: polite
    description: Is it polite?
    method: {{type: check, check: ends_with, settings: {{any: [please, wait]}}}}
"""
TEXTS = {"a": ["please", "no"], "b": ["please", "please wait"], "c": ["one two three", "no"]}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Lake with runs a and b of one rubric version, and c of the next, which does not meet the threshold."""
    folder = tmp_path_factory.mktemp("site")
    rubric = folder / "rubric.yaml"
    for name, texts in TEXTS.items():
        version, weight = ("1.1.0", 3) if name == "c" else ("1.0.0", 1)
        rubric.write_text(RUBRIC.format(version=version, weight=weight), encoding="utf-8")
        rows = [{"case_id": f"c{n}", "model": "m <i>", "output": text} for n, text in enumerate(texts)]
        publish(write_lines(folder / f"{name}.jsonl", rows), rubric, run_id=name, has_report=name == "a")
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


@pytest.fixture(scope="module")
def site(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return write_site(lake, tmp_path_factory.mktemp("out") / "new" / "folder")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_run_has_its_report_and_every_rubric_its_page(site):
    assert (site.report_count, site.kept_count, site.rubric_count) == (3, 0, 1)
    names = {str(path.relative_to(site.home.parent)) for path in site.home.parent.rglob("*.html")}
    shipped = {f"rubrics/{name}.html" for name in shipped_rubrics()}
    assert names == {"index.html", "rubrics/words.html", "runs/a.html", "runs/b.html", "runs/c.html"} | shipped


def test_every_link_has_its_file(site):
    for page in site.home.parent.rglob("*.html"):
        for link in re.findall(r'href="([^"#]+)', text_of(page)):
            assert (page.parent / unquote(link)).is_file(), (page, link)


def test_the_newest_run_comes_first_with_its_verdict(site):
    rows = re.findall(
        r'<tbody data-rubric="words" data-verdict="([\w ]+)">.*?href="runs/(\w+)\.html"', text_of(site.home), re.DOTALL
    )
    assert rows == [("may not ship", "c"), ("may ship", "b"), ("may ship", "a")]


def test_a_run_has_the_numbers_of_its_tables(site, lake):
    (row,) = summarise(lake, "b").scores
    assert row["mean"] == 1.0  # both are short and polite
    assert f'<td class="number">{row["mean"]:.3f}</td>' in text_of(site.home)
    assert '<td class="number">+0.250</td>' in text_of(site.home)  # a: (1 + 0.5) / 2


def test_every_mean_is_shown_with_its_weakest_criterion(site):
    # c: no output is polite; a: one of two is
    assert re.findall(r"<td>(\w+ 0\.\d+)</td>", text_of(site.home)) == ["polite 0.000", "polite 0.500"]


def test_a_new_rubric_version_starts_a_new_trend(site):
    # c: the weight of short is 3 of 4: one output is long and rude (0), the other short and rude (0.75)
    words = "0.375 in c; 3 scores in total. A new line begins with c: rubric version 1.0.0 → 1.1.0."
    assert words in text_of(site.home)


def test_a_run_of_another_rubric_version_has_no_change_but_names_the_versions(site):
    (row,) = re.findall(r'<tbody[^>]*>(?:(?!</tbody>).)*href="runs/c.html".*?</tbody>', text_of(site.home), re.DOTALL)
    assert '<span class="warn">rubric 1.0.0 → 1.1.0</span>' in row
    assert not re.search(r"[+−-]\d\.\d{3}<", row)


def scored(run_id: str, mean: float | None, **more: Any) -> dict[str, Any]:
    """Row of score_history."""
    row = {
        "rubric_id": "r",
        "model": "m",
        "checkpoint": None,
        "run_id": run_id,
        "mean": mean,
        "stopped_at": None,
        "judge": "j",
        "judge_epoch": None,
        "cases": 1,
    }
    return row | {"ci_low": mean, "ci_high": mean, "rubric_version": "1.0.0"} | more


def test_the_sentence_on_a_trend_starts_at_the_first_comparable_score():
    rows = [scored("a", 0.1, judge="other"), scored("b", 0.5), scored("c", None), scored("d", 0.75)]
    assert (
        trend_of(rows).sentence
        == "0.750 in d, +0.250 since b; 3 scores in total. A new line begins with b: another judge."
    )


def test_a_trend_joins_neither_other_cases_nor_another_epoch_of_the_judge():
    rows = [scored("a", 0.1, cases=2), scored("b", 0.5), scored("c", 0.75)]
    assert trend_of(rows).sentence.endswith("+0.250 since b; 3 scores in total. A new line begins with b: other cases.")
    rows = [scored("a", 0.1, judge_epoch=1), scored("b", 0.5, judge_epoch=2)]
    assert trend_of(rows).sentence == "0.500 in b; 2 scores in total. A new line begins with b: another judge."


def test_a_change_on_the_site_is_of_the_same_cases_and_checkpoints_are_apart_from_nights(tmp_path):
    lake = make_lake(tmp_path)
    rubric = parse_rubric(RUBRIC.format(version="1.0.0", weight=1), "rubric.yaml")
    runs: dict[str, tuple[tuple[str, ...], str | None]] = {"a": (("c0", "c1"), None), "b": (("c0", "c1"), None)}
    runs |= {"more": (("c0", "c1", "c2"), None), "step": (("c0", "c1"), "100"), "night": (("c0", "c1", "c2"), None)}
    runs["asked"] = (("c0", "c1", "c2"), None)  # the same ids with another prompt
    for run_id, (cases, checkpoint) in runs.items():
        row = {"checkpoint": checkpoint, "scores": {"short": 1.0, "polite": 0.0}}
        write_scores(lake, run_id, rubric, [row | {"case_id": case} for case in cases])
    asked = "update outputs set prompt = 'Be brief.' where output_id like 'asked/%'"
    commit(lake, "prompts", lambda connection, _version: connection.execute(asked))
    with connect_up_to_date(lake) as connection:
        home = read_home(connection, lake)
        last = read_rows(connection, query("reporting/scores_by_run"), rubric_id=rubric.id, most_runs=2)
    of_last = [(row["run_id"], row["changed"]) for row in last]
    assert of_last == [("night", None), ("asked", "other cases"), ("step", "a checkpoint")]
    changed = {line.run_id: line.models[0].changed for line in home.runs}
    assert changed == {"a": None, "b": None, "more": "other cases", "step": "a checkpoint", "night": None} | {
        "asked": "other cases"
    }
    assert sorted((trend.model, trend.sentence.split(";")[0]) for trend in home.trends) == [
        ("m", "0.500 in asked"),
        ("m, checkpoints", "0.500 in step"),
    ]


def test_a_run_without_a_score_has_no_change():
    found = trend_of([scored("a", 0.5), scored("b", 0.75), scored("c", None)])
    assert found.sentence == "– in c; 2 scores in total."


def test_a_rubric_page_shows_levels_with_their_signs_and_the_reasons_for_weights(site):
    page = text_of(site.home.parent / "rubrics" / "meta_rubric.html")
    assert "A shipped rubric; no run of this lake used it." in page
    for text in ("a level that only says the opposite of the next", "More than half of these criteria have levels"):
        assert text in page
    assert "lint sees the words, and only a reader sees what can be pointed at." in page


def test_a_rubric_page_lists_the_changes_of_each_version(site):
    page = text_of(site.home.parent / "rubrics" / "words.html")
    assert page.index('id="v1.1.0"') < page.index(">Changes<") < page.index('id="v1.0.0"')
    assert page.count(">Changes<") == 1


def test_text_from_inputs_is_shown_as_text(site):
    assert "m &lt;i&gt;" in text_of(site.home) and "m <i>" not in text_of(site.home)
    assert "&lt;b&gt;Words&lt;/b&gt;" in text_of(site.home)


@pytest.mark.nightly
def test_an_existing_report_is_unchanged_unless_anew_rewrites_it(lake, tmp_path):
    site = write_site(lake, tmp_path)
    report = tmp_path / "runs" / "a.html"
    report.write_text("kept", encoding="utf-8")
    again = write_site(lake, tmp_path)
    assert (again.report_count, again.kept_count, text_of(report)) == (0, 3, "kept")
    anew = write_site(lake, tmp_path, is_anew=True)
    assert anew.report_count == 3 and "support" not in text_of(report) and "words 1.0.0" in text_of(report)
    assert site.home == anew.home


@pytest.mark.nightly
def test_a_report_missing_in_the_lake_is_written_again(lake, tmp_path):
    made = lake.root / "runs" / "a" / "report.html"
    made.rename(made.with_name("away"))
    try:
        write_site(lake, tmp_path)
    finally:
        made.with_name("away").rename(made)
    assert "words 1.0.0" in text_of(tmp_path / "runs" / "a.html")


def test_a_run_whose_report_can_not_be_drawn_does_not_stop_the_others(lake, tmp_path, monkeypatch):
    from gradebook.tasks.reporting import site

    def refuse(lake: Lake, summary: Any, path: Path, **_: Any) -> None:
        raise ValueError(f"no {summary.run_id}")

    monkeypatch.setattr(site, "write_report", refuse)
    found = write_site(lake, tmp_path, is_anew=True)
    assert found.faults == {name: f"ValueError: no {name}" for name in "abc"}
    assert 'href="runs/' not in text_of(found.home) and ">a<" in text_of(found.home)


def test_a_page_that_can_not_be_drawn_is_reported_and_does_not_fail_the_run(lake, tmp_path, monkeypatch):
    from gradebook.tasks.reporting import page

    def refuse(*_: Any) -> None:
        raise ValueError("no page")

    monkeypatch.setattr(page, "run_page", refuse)
    with connect_up_to_date(lake, is_pinned=True) as connection:
        found = page.write_own_report(connection, lake, summarise(lake, "a"), tmp_path / "a.html")
    assert (found.report_fault, found.is_met, list(tmp_path.iterdir())) == ("ValueError: no page", True, [])


@pytest.mark.nightly
def test_a_folder_that_is_a_file_is_refused(lake, tmp_path):
    (tmp_path / "file").write_text("here", encoding="utf-8")
    with pytest.raises(InputError, match="site: can't write .*file"):
        write_site(lake, tmp_path / "file")
    assert text_of(tmp_path / "file") == "here"
