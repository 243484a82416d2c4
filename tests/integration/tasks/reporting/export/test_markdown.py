"""Run in Markdown: text from inputs stays text, and numbers are those of the run."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gradebook.rubrics.text.tables import table_of
from gradebook.rubrics.text.wording import price_words
from gradebook.tasks.published.requirements import Unmet
from gradebook.tasks.published.run_tables import comparison_table
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.comment import MOST_CHARACTERS, artifact_texts, run_comment
from gradebook.tasks.reporting.rendering import command, escaped, table_text
from tests.support.law_over import law_over
from tests.support.reported_runs import publish_run, source_of

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MENTION = re.compile(r"[@#]\w|GH-\d|://|www\.|:[\w+-]+:", re.IGNORECASE)
HOSTILE = (
    "a | b | c",
    "a \\| b \\\\| c\\",
    "one\ntwo\r\n| x | y |\u2028three",
    "`code` ``more`` `",
    "@everyone and @octocat/team",
    "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "<!-- <details> --> &lt;b&gt; &#124;",
    "**bold** __bold__ _em_ ~~gone~~ $x^2$",
    "https://evil.example and www.evil.example, fixes #12 or GH-12 :tada:",
    "# heading",
    "1. one",
    "- item",
    "--- or ===",
    "===",
    "\u202edesrever\u202c \x1b[31m \x00",
    "{{ 7 * 7 }} {% raw %}",
)


def shown(text: str) -> str:
    """Text as a reader sees it: stripped, with spaces for control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text).strip()


def texts_in(markdown: str) -> list[str]:
    """Text of each cell and sentence; fails on emphasis, links, HTML or pictures."""
    found = []
    for token in PARSER.parse(markdown):
        assert token.type not in {"heading_open", "html_block", "code_block", "fence", "hr", "ordered_list_open"}, token
        for part in token.children or ():
            assert part.type == "text", part
        if token.type == "inline":
            found.append("".join(part.content for part in token.children or ()))
    return found


@law_over("text", HOSTILE)
def test_a_hostile_text_is_shown_unchanged_in_one_cell(text):
    cells = texts_in(table_text(table_of("x", ("Name",), ("Mean",), [(text, "1"), ("after", "2")])))
    assert [cell.replace("\u2060", "") for cell in cells] == ["Name", "Mean", shown(text), "1", "after", "2"]
    assert not [cell for cell in cells if MENTION.search(cell)]


@law_over("text", HOSTILE)
def test_a_hostile_text_is_one_entry_of_a_list(text):
    (entry,) = texts_in(f"- {escaped(text)}\n")
    assert entry.replace("\u2060", "") == shown(text)


@given(st.text(alphabet="\\`*_[]()<>&|!#@~$:+-=.1aZ é\n\r\t\u202e\x00/w", max_size=30))
def test_any_text_is_shown_unchanged_in_a_cell_and_in_a_list(text):
    cells = texts_in(table_text(table_of("x", ("Name",), ("Mean",), [(text, "1")])))
    entries = texts_in(f"- {escaped(text)}\n") if shown(text) else [""]
    assert [cells[2].replace("\u2060", ""), entries[0].replace("\u2060", "")] == [shown(text)] * 2


def test_plain_names_and_numbers_are_not_escaped():
    plain = (
        "gpt-4o-mini @ step-400",
        "cites_source",
        "-0.417",
        "+0.083",
        "$0.0123",
        "0.5 (95.2%)",
        "keywords:existence",
    )
    assert tuple(map(str, map(escaped, plain))) == plain


def test_a_long_text_is_cut():
    assert len(escaped("x" * 100_000)) == 400


def test_a_command_is_code_with_any_words():
    (line,) = [
        token for token in PARSER.parse(f"| a |\n| --- |\n| {command('x', 'a`|b', '@c')} |\n") if token.type == "inline"
    ][1:]
    assert [part.type for part in line.children] == ["code_inline"]


# -------- a run
CRITERIA = ({"id": "brief", "weight": 3, "category": "form"}, {"id": "kind", "weight": 1}, {"id": "safe", "gate": True})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs a and b: large gets worse, from 12 of 12 to 3; small stays at 6."""
    found = tmp_path_factory.mktemp("runs")
    publish_run(found, {"large": 12, "small": 6}, CRITERIA)
    publish_run(found, {"large": 3, "small": 6}, CRITERIA, run_id="b", baseline="a")
    return found


def opened(folder, run_id, against=None):
    from gradebook.tasks.lake.address import find_lake

    return source_of(folder, summarise(find_lake(f"sqlite:{folder}/lake/catalog.sqlite"), run_id), against)


@pytest.fixture(scope="module")
def comment(folder):
    with opened(folder, "b") as source:
        return run_comment(source)


def line_of(text, begin):
    (line,) = [line for line in text.splitlines() if line.startswith(begin)]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_comment_begins_with_the_verdict_and_its_reasons(comment):
    assert comment.startswith("**small and large may not ship.**\n\nsmall: 6 of 12 outputs fail")
    assert "large: 9 of 12 outputs fail" in comment.splitlines()[2]
    assert "#### Requirements not met\n\n- large: 9 of 12 outputs fail" in comment


def test_what_is_not_counted_has_a_heading_of_its_own(folder):
    with opened(folder, "b") as source:
        run, faults = source.summary.run | {"settings": '{"gate": "baseline"}'}, source.summary.unmet
        texts = [
            run_comment(replace(source, summary=replace(source.summary, run=run, unmet=unmet, waived=faults)))
            for unmet in ((), faults[:1])
        ]
    heading = "\n\n#### Not counted under `--gate baseline`\n\n- large: 9 of 12 outputs fail"
    assert heading in texts[0] and "not met" not in texts[0].partition(heading)[0]
    begin, _, rest = texts[1].partition("#### Rule against the baseline not met\n\n- ")
    assert begin and heading in rest


def test_a_comment_has_the_scores_by_model(comment):
    # 3 of 12 and 6 of 12 say yes
    assert line_of(comment, "| small | may not ship")[3] == "0.500"
    assert line_of(comment, "| large | may not ship")[3] == "0.250"


def test_a_comment_has_regressions_first_and_marks_them(comment):
    rows = [line for line in comment.splitlines() if line.startswith(("| large |", "| small |"))]
    compared = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    assert compared[0][:6] == ["large", "overall", "worse", "1.000", "0.250", "-0.750"]
    assert [row[:3] for row in compared[1:3]] == [["small", "overall", "no"], ["large", "category form", "worse"]]


def test_a_comment_has_the_criteria_by_model_with_their_weights(comment):
    assert line_of(comment, "| brief |") == ["brief", "Says yes (brief).", "0.750", "0.500", "0.250"]
    assert line_of(comment, "| safe |") == ["safe", "Says yes (safe).", "gate", "0.500", "0.250"]


def test_a_comment_has_the_cost_and_the_command_for_the_page(comment):
    assert f"- Billed {price_words(0)} for 0 requests" in comment
    assert "data-quality expectations met, 0 rows refused, every output scored on every criterion." in comment
    assert "Full report: `` gradebook report b --lake sqlite:" in comment


@pytest.mark.nightly
def test_a_comment_names_the_run_of_against(folder):
    with opened(folder, "a", "b") as source:
        text = run_comment(source, "b")
    assert "A is run b, B this one, a." in text
    assert "`` gradebook report a --against b --lake sqlite:" in text
    assert line_of(text, "| large | overall")[2:6] == ["better", "0.250", "1.000", "+0.750"]


@pytest.mark.nightly
def test_a_comment_shows_twenty_compared_rows_and_counts_the_others(folder):
    with opened(folder, "b") as source:
        many = replace(source.comparison, models=source.comparison.models * 5)
        text = run_comment(replace(source, comparison=many))
    section = text.partition("What changed")[2].partition("####")[0]
    # overall, form, brief, kind and safe of 2 models x 5; plus the table's head, its rule and its last line
    assert len([line for line in section.splitlines() if line.startswith("|")]) == 2 + 20 + 1
    assert line_of(section, "| and")[0].startswith("and 30 others")


@pytest.mark.nightly
def test_regressions_without_room_are_counted(folder):
    with opened(folder, "b") as source:
        table = comparison_table(source.comparison, 3)
    # large: overall, form, brief, kind and safe each fall by 0.75; small is unchanged
    assert table.rows[-1][0] == "and 7 others, 3 of them worse beyond chance"


def test_a_comment_fits_githubs_limit_with_any_names(folder):
    with opened(folder, "b") as source:
        summary = replace(source.summary, unmet=(Unmet(None, "|" * 1_000, "|" * 1_000),) * 500)
        text = run_comment(replace(source, summary=summary))
    assert len(text) <= MOST_CHARACTERS
    assert "and 492 others" in text
    assert "Full report" in text


def test_the_artifacts_are_the_scores_the_comparison_and_the_costs(folder):
    with opened(folder, "b") as source:
        found = {key: text for key, _, text in artifact_texts(source.summary)}
    assert list(found) == ["scores", "comparison", "costs"]
    assert line_of(found["scores"], "| small | may not ship")[3] == "0.500"
    assert line_of(found["comparison"], "| large | overall")[2] == "worse"
    assert line_of(found["costs"], "| publish |")[0] == "publish"


def test_a_run_without_a_baseline_has_no_artifact_of_a_comparison(folder):
    with opened(folder, "a") as source:
        assert [key for key, _, _ in artifact_texts(source.summary)] == ["scores", "costs"]
