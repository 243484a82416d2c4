"""Section "Examples": selection of outputs, paired outputs, and hostile texts."""

import base64
import json
import re
from functools import cache, partial
from html import unescape
from types import SimpleNamespace

import pytest

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.media import MediaFiles
from gradebook.tasks.lake.connections import commit, connect
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.published.summary import RunSummary
from gradebook.tasks.reporting.rendering import render
from gradebook.tasks.reporting.report_source import opened_source
from gradebook.tasks.reporting.sections import answers
from gradebook.tasks.reporting.sections.examples import MOST_BYTES, read_examples
from tests.support.media_samples import png
from tests.support.scored_lake import make_lake, write_runs

TEXT = """
id: reply
version: {version}
criteria:
  - id: tone
    name: Tone of voice
    description: Is it kind?
    weight: 1
    method: {{type: judge}}
    levels: [{{id: bad, score: 0}}, {{id: fair, score: 0.5, label: Fair enough}}, {{id: good, score: 1}}]
  - id: safe
    description: Is it safe?
    gate: true
    method: {{type: check, check: length_words, settings: {{max: {most}}}}}
"""
RUBRIC = parse_rubric(TEXT.format(version="1.0.0", most=9) + "overall: {scale: {min: 1, max: 5}}\n", "rubric.yaml")
OTHER = parse_rubric(TEXT.format(version="1.1.0", most=8), "rubric.yaml")
HOSTILE = (
    "<script>alert(1)</script>",
    "</script></div></details><img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) <a href='javascript:alert(3)'>b</a>",
    "x" * 100_000,
    "\u202egnp.exe",
    '=HYPERLINK("https://example.com", "a")',
    "a\x1b[31mred\x1b[0m\x00",
    "{{ 7 * 7 }} {% raw %} ${7}",
    '"><svg onload=alert(1)>',
)
TAGS = {
    *("a", "bdi", "button", "code", "details", "div", "form", "h3", "h4", "input", "label", "mark", "option", "p", "q"),
    *("caption", "li", "ol", "strong", "ul", "select", "span", "summary", "table", "tbody", "td", "th", "thead", "tr"),
}
LEVELS = """
update verdicts set
    method = 'judge',
    level_id = case score when 0 then 'bad' when 0.5 then 'fair' when 1 then 'good' end
where criterion_id = 'tone'
"""
OPINIONS = """
insert into opinions by name
select 'two' as run_id, 'two/m/b/0' as output_id, 'tone' as criterion_id, 'j' as judge, replicate, false as is_swapped,
    'scored' as status, ['good', 'fair'][replicate + 1] as level_id, [1.0, 0.5][replicate + 1] as score
from (values (0), (1)) as opinions (replicate)
"""
RATINGS = """
insert into ratings (output_id, criterion_id, rater, level_id, score, notes, rated_at) values
    ('two/m/c/0', 'tone', 'ann', 'good', 1, 'Early.', '2026-11-01'),
    ('two/m/c/0', 'tone', 'ann', 'bad', 0, 'Too <b>curt</b>.', '2026-11-02'),
    ('two/m/c/0', 'overall', 'ann', null, 0.25, 'Read it & sighed.', '2026-11-02'),
    ('two/m/a/0', 'tone', 'ann', 'fair', 0.5, '', '2026-11-02'),
    ('two/m/a/0', 'tone', 'ben', 'fair', 0.5, 'Cold.', '2026-11-02')
"""


def row(case, tone, model="m", safe=1.0, **columns):
    return {"case_id": case, "model": model, "scores": {"tone": tone, "safe": safe}} | columns


RUNS = {
    "one": [
        *(row(case, tone) for case, tone in zip("abcde", (1.0, 0.0, 0.5, 0.5, 1.0), strict=True)),
        row("f", 1.0, output_id="same"),
    ],
    "two": [
        *(row(case, tone) for case, tone in zip("abde", (0.5, 1.0, None, 0.0), strict=True)),
        row("c", 0.5, safe=0.0),
        row("e", 0.5, output_id="twice"),
        row("f", 0.25, output_id="same"),
    ],
    "many": [row(f"c{k:02}", tone, model) for k in range(20) for model, tone in (("m", 0), ("n", 0.5), ("o", 1))],
    "equal": [row("a", 1.0), row("b", 1.0)],
    "gaps": [row(f"c{k:02}", None) for k in range(30)],
    "hostile": [
        row(text[:40].replace("\x00", ""), k / len(HOSTILE), text[:30].replace("\x00", ""), output_id=f"{k}" * 32)
        for k, text in enumerate(HOSTILE)
    ],
    "other": [row("a", 0.0), row("b", 1.0)],
    "seen": [row(case, 0.0) for case in "abc"],
    "stepped": [row("a", 0.5)],
}


STEPS = """
update outputs set steps = [
    {'kind': 'tool', 'name': $text, 'input': $text, 'output': $text, 'error': $text},
    {'kind': 'model', 'name': 'm', 'input': null, 'output': 'Done.', 'error': null},
]
where output_id = $output_id
"""
MARKS = """
insert into step_ratings by name
select $output_id as output_id, 'tone' as criterion_id, $who as rater, 0 as step_index, $label as label,
    if($label = 'right', 1, 0) as score, if($label = 'right', null, 'tool') as error_type, $why as rationale,
    now() as rated_at
"""


def give_steps(connection, _version):
    """Hostile steps, and two steps of one output. The panel's verdict on the first is wrong; ann says right, ben and
    the lead wrong.
    """
    for number, text in enumerate(HOSTILE):
        nested = text.replace("\x00", "")  # DuckLake can't store a NUL in a list of few rows
        connection.execute(STEPS, {"output_id": f"{number}" * 32, "text": nested})
        connection.execute(MARKS, {"output_id": f"{number}" * 32, "who": text, "why": text, "label": "wrong"})
    place = {"output_id": "stepped/m/a/0"}
    connection.execute(STEPS, {**place, "text": "maps"})
    connection.execute(MARKS, {**place, "who": "ann", "why": "fine", "label": "right"})
    connection.execute(MARKS, {**place, "who": "ben", "why": "trains, not maps", "label": "wrong"})
    known = (
        "'stepped' as run_id, 'stepped/m/a/0' as output_id, 'tone' as criterion_id, 0 as step_index, 'wrong' as label, "
        "0 as score, 'tool' as error_type, 'major' as severity"
    )
    connection.execute(f"insert into step_verdicts by name select {known}, 'first' as rationale")
    for judge, label, score, reason in (("large", "wrong", 0, None), ("small", None, None, "parse_error")):
        connection.execute(
            f"insert into step_opinions by name select * replace (? as label, ? as score) from (select {known}), "
            "(select ? as judge, 0 as replicate, ? as reason)",
            [label, score, judge, reason],
        )
    connection.execute(
        f"insert into step_adjudications by name select {known}, 'lea' as adjudicator, now() as decided_at"
    )


def give_texts(connection, _version):
    connection.execute("update outputs set prompt = 'Hello?', output = 'So sorry, truly'")
    quotes = (
        "update verdicts set evidence = ?, rationale = 'Cold.' where output_id = 'two/m/a/0' and criterion_id = 'tone'"
    )
    connection.execute(quotes, ['["sorry, truly"]'])
    connection.execute(
        "update verdicts set reason = 'parse_error: x' where output_id = 'gaps/m/c29/0' and score is null"
    )
    for number, text in enumerate(HOSTILE):
        texts = [text, json.dumps([{"role": text[:20], "content": text}]), f"{number}" * 32]
        connection.execute("update outputs set output = ?, prompt = ? where output_id = ?", texts)
        reasons = [json.dumps([text[:50]]), text, f"{number}" * 32]
        connection.execute("update verdicts set evidence = ?, rationale = ? where output_id = ?", reasons)
    for change in (LEVELS, OPINIONS, RATINGS):
        connection.execute(change)


IMAGES = ["file:cat.png", "file:../cat.png", "https://example.com/cat.png"]


def give_images(folder, connection, _version):
    (folder / "outputs.jsonl").write_text("{}")
    (folder / "cat.png").write_bytes(png())
    for name, sources in (("a", IMAGES[:1]), ("b", IMAGES[1:2]), ("c", IMAGES[2:])):
        parts = [{"type": "image_url", "image_url": {"url": source}} for source in sources]
        texts = [json.dumps([{"role": "user", "content": parts}]), json.dumps(parts), f"seen/m/{name}/0"]
        connection.execute("update outputs set prompt = ?, output = ? where output_id = ?", texts)
    connection.execute("update runs set dataset = ? where run_id = 'seen'", [str(folder / "outputs.jsonl")])


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    made = make_lake(tmp_path_factory.mktemp("examples"))
    write_runs(made, {run_id: (OTHER if run_id == "other" else RUBRIC, rows) for run_id, rows in RUNS.items()})
    commit(made, "give texts", give_texts)
    commit(made, "give steps", give_steps)
    commit(made, "give images", partial(give_images, tmp_path_factory.mktemp("images")))
    return made


@pytest.fixture(scope="module")
def read(lake):
    """Read the examples of a run, once for all tests."""

    @cache
    def read_once(run_id, against=None):
        with opened_source(lake, summary_of(lake, run_id), against) as source:
            return read_examples(source)

    return read_once


def summary_of(lake, run_id):
    """The part of a run's summary that examples need."""
    with connect(lake, read_only=True) as connection:
        (run,) = read_rows(connection, "from runs where run_id = ?", run_id)
        scores = read_rows(connection, "from run_scores where run_id = ? order by mean desc, model", run_id)
    return RunSummary(run, scores, (), (), (), (), has_requirement=False, unmet=())


def named(contents):
    return {
        example.row["output_id"].partition("/")[2] or example.row["output_id"]: example for example in contents.examples
    }


def kinds_of(example):
    return [key for key, _ in example.kinds]


def page_of(contents):
    source = SimpleNamespace(lake=SimpleNamespace(words=lambda **_: ("--lake", "sqlite:x y")))
    return render("parts/examples.html.j2", contents=contents, run={"run_id": "two"}, source=source)


def test_each_output_is_shown_once_with_all_its_kinds(read):
    found = {name: kinds_of(example) for name, example in named(read("two", "one")).items()}
    # changes: a -0.5, b +1, c 0, the shared output -0.75; the median score is 0.5
    assert found == {
        "same": ["fell", "worst"],
        "m/a/0": ["fell", "worst"],
        "m/c/0": ["gate", "worst", "disputed"],
        "m/e/0": ["worst"],
        "twice": ["worst"],
        "m/b/0": ["disputed", "rose", "best"],
        "m/d/0": ["unscored"],
    }


def test_an_output_is_paired_with_that_of_the_other_run_and_differences_are_marked(read):
    example = named(read("two", "one"))["m/a/0"]
    assert (example.change, example.paired.run_id, example.paired.score) == (-0.5, "one", 1.0)
    tone, safe = example.verdicts
    assert (tone.level, tone.paired.level, tone.is_different) == ("Fair enough", "good", True)
    assert (safe.score, safe.paired.score, safe.is_different) == (1.0, 1.0, False)


def test_evidence_is_marked_in_the_output_and_named_by_its_criterion(read):
    page = page_of(read("two", "one"))
    assert re.search(r'So <mark title="Evidence for Tone of voice">.*?sorry, truly<span', page)
    assert "<q>sorry, truly</q>" in page


def test_scores_and_gates_on_the_page_are_those_of_sql(lake, read):
    with connect(lake, read_only=True) as connection:
        query = "select output_id, score, failed_gates from output_scores where run_id = 'two' order by output_id"
        rows = connection.execute(query).fetchall()
    shown = {example.row["output_id"]: example.row for example in read("two", "one").examples}
    assert rows == [(key, shown[key]["score"], shown[key]["failed_gates"]) for key in sorted(shown)]


@pytest.mark.nightly
def test_reading_examples_leaves_no_temporary_tables_and_no_narrowed_views(lake):
    with opened_source(lake, summary_of(lake, "two"), "one") as source:
        read_examples(source)
        assert source.rows("select count(distinct run_id) as runs from output_scores") == ({"runs": len(RUNS)},)
        assert source.rows("from duckdb_tables() where temporary and table_name like 'example%'") == ()


def test_images_of_prompts_and_outputs_are_embedded_and_no_other_file_or_address_is_loaded(read):
    shown = named(read("seen"))
    (picture,) = shown["m/a/0"].pictures
    assert base64.b64decode(picture.address.partition("data:image/png;base64,")[2]) == png()
    assert shown["m/a/0"].answer.pictures[0].address == picture.address
    assert shown["m/b/0"].pictures[0].address is None
    assert "found the path '../cat.png'" in shown["m/b/0"].pictures[0].reason
    assert shown["m/c/0"].pictures[0].address is None
    assert re.findall('src="([^"]{10})', page_of(read("seen"))) == ["data:image"] * 2


def test_an_image_too_large_for_the_page_is_named(read, monkeypatch):
    monkeypatch.setattr(answers, "MOST_PAGE_CHARACTERS", 10)
    room = answers.PictureBudget()
    with_image = MediaFiles(()).show(Case(None, f"data:image/png;base64,{base64.b64encode(png()).decode()}"))
    assert room.pictures(with_image, "output")[0].reason.endswith("(too large for this page)")


def test_ambiguous_outputs_have_no_change(read):
    examples = named(read("two", "one"))
    assert [(examples[name].change, examples[name].paired) for name in ("m/e/0", "twice")] == [(None, None)] * 2


def test_the_same_output_in_both_runs_is_shown_once(read):
    example = named(read("two", "one"))["same"]
    assert (example.is_same, example.change) == (True, -0.75)
    assert "The same output as in one, where its score was 1.000" in page_of(read("two", "one"))


def test_a_verdict_shows_the_opinions_of_judges_and_people(read):
    examples = named(read("two", "one"))
    assert examples["m/b/0"].verdicts[0].voices == ("j: fair", "j: good")
    assert examples["m/c/0"].verdicts[0].voices == ("ann: bad (Too <b>curt</b>.)",)  # her latest rating


def test_notes_of_raters_stand_beside_their_level_once(read):
    contents = read("two", "one")
    assert "ann: bad (Too &lt;b&gt;curt&lt;/b&gt;.)" in page_of(contents)
    assert page_of(contents).count("Overall ratings: ann: 0.25 (Read it &amp; sighed.)") == 1
    assert named(contents)["m/a/0"].verdicts[0].voices == ("ann: fair", "ben: fair")  # the rationale has the note


@pytest.mark.nightly
def test_two_models_of_one_run_are_paired(read):
    ahead = next(example for example in read("many").examples if "rose" in kinds_of(example))
    assert dict(ahead.kinds)["rose"] == "Ahead of the other model"  # the best, o, paired with the second, n
    assert (ahead.answer.name, ahead.paired.name, ahead.paired.run_id, ahead.change) == ("o", "n", None, 0.5)


def test_models_take_turns_among_the_worst(read):
    worst = [example for example in read("many").examples if "worst" in kinds_of(example)]
    # o has the highest score on every case
    assert sorted(example.group.model for example in worst) == ["m"] * 5 + ["n"] * 5


def test_a_model_that_is_not_compared_is_paired_with_the_best(read):
    others = {example.paired.name for example in read("many").examples if example.group.model == "m"}
    assert others == {"o"}


def test_scores_by_different_rubrics_give_no_change(read):
    contents = read("other", "one")
    assert [key for key, _, _ in contents.kinds] == ["worst", "best"]
    worst = contents.examples[0]
    assert (worst.change, worst.paired.run_id) == (None, "one")
    assert [verdict.paired is None for verdict in worst.verdicts] == [False, True]  # safe has another text


def test_with_equal_scores_a_sample_is_shown(read):
    assert [kinds_of(example) for example in read("equal").examples] == [["sample"], ["sample"]]


def test_reasons_take_turns_among_unscored_outputs(read):
    examples = named(read("gaps"))
    assert len(examples) == 10
    assert examples["m/c29/0"].verdicts[0].why == "parse_error: x"


def test_hostile_texts_are_shown_as_text(read):
    page = page_of(read("hostile"))
    assert set(re.findall(r"<(\w+)", page)) <= TAGS
    assert not re.search(r'<[^>]* on\w+="|href="(?!#o-)', page)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", page)
    plain = unescape(re.sub(r'<span class="heard">.*?</span>|</?mark[^>]*>', "", page))
    shown = (*HOSTILE[:3], HOSTILE[5], *HOSTILE[7:], "[U+202E]gnp.exe", "a␛[31mred␛[0m␀", "100,000 characters in total")
    assert [text for text in shown if text not in plain] == []


def test_marks_of_steps_stand_on_their_cards_with_who_gave_them(read):
    (example,) = read("stepped").examples
    first, second = example.trajectory.cards
    assert [(mark.tone, mark.label, mark.error, mark.who, mark.why) for mark in first.marks] == [
        ("bad", "wrong", "tool, major", "settled by lea", ""),
        ("bad", "wrong", "tool, major", "judge", "first"),
        ("bad", "wrong", "tool, major", "large", ""),
        ("none", "no label", "tool, major", "small", "parse_error"),
        ("good", "right", "", "ann", "fine"),
        ("bad", "wrong", "tool", "ben", "trains, not maps"),
    ]
    assert (first.is_disputed, second.marks, example.trajectory.disputed_count) == (True, (), 1)
    page = page_of(read("stepped"))
    assert "2 steps, <span" in page and "1 in dispute" in page


def test_a_page_has_only_as_many_examples_as_fit(lake, monkeypatch):
    monkeypatch.setattr("gradebook.tasks.reporting.sections.examples.MOST_BYTES", 20_000)
    with opened_source(lake, summary_of(lake, "gaps")) as source:
        contents = read_examples(source)
    assert 0 < len(contents.examples) < 10
    assert contents.sentence.endswith("more would make this page too large.")
    assert MOST_BYTES < 3_000_000
