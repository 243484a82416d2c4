"""The documentation, written and generated, held to the code."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import duckdb
import pytest
import yaml
from pydantic import BaseModel

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.importers.registry import FORMAT_NAMES
from gradebook.rubrics.model.methods import METHODS
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.rubrics.text.field_descriptions import field_descriptions
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.datasets.row_parser import RowFitter, split_conversation
from gradebook.tasks.judging.replies.recorded_judge import RecordedReply
from gradebook.tasks.judging.settings.embedder import EmbedderSettings
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Prices
from gradebook.tasks.lake.schema import make_tables, make_views
from gradebook.tasks.operations.suites import Suite, SuitesFile
from gradebook.tasks.ratings.evaluation_file import RatingRow
from gradebook.tasks.stages.review import ReviewMap
from tests.support.law_over import law_over
from tests.support.reference import COMMANDS, KEYS, reference_pages

ROOT = Path(__file__).parents[2]
WRITTEN = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/**/*.md"))]
}
PAGES = WRITTEN | {f"docs/{name}": text for name, text in reference_pages().items()}
UNRUN = " at (version"  # time travel needs a lake with that version


def split_command(words: list[str]) -> tuple[str, list[str]]:
    """The command's name, which may be several words, and what follows it."""
    length = next((length for length in (3, 2, 1) if " ".join(words[:length]) in COMMANDS), 1)
    return " ".join(words[:length]), words[length:]


FOREIGN_PAGES = ("docs/importing.md", "docs/coming-from.md")


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a language, each with its page; the files of other systems are held to their importers."""
    for page in PAGES:
        if language in ("sh", "sql") or page not in FOREIGN_PAGES:
            for block in re.findall(rf"^```{language}\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE):
                yield page, block


def rows_after(page: str, mark: str) -> list[list[str]]:
    """The cells of the table that follows a mark, without its head."""
    table = PAGES[page].partition(f"<!-- {mark} -->\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def keys_after(page: str, mark: str) -> list[str]:
    return [cells[0].strip("`") for cells in rows_after(page, mark)]


def shell_lines() -> Iterator[tuple[str, list[str]]]:
    """Every `gradebook` and `python` line of the shell blocks, as words."""
    for page, block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            yield page, shlex.split(line, comments=True)


GRADEBOOK_LINES = [(page, words) for page, words in shell_lines() if words[:1] == ["gradebook"]]
MENTIONS = [
    (page, mention.split()[1:])
    for page in PAGES
    if page != "CHANGELOG.md"  # with the names of earlier versions
    for mention in re.findall(r"`(gradebook [a-z][^`]*)`", re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL))
]
QUERIES = [
    *blocks("sql"),
    *((page, words[2]) for page, words in GRADEBOOK_LINES if words[1] == "sql" and words[2:] and words[2][0] != "-"),
]


# -------- what is typed
def test_the_readme_names_the_two_commands_and_the_makefile_has_them():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert all(re.search(rf"^make {name}\b", PAGES["README.md"], re.MULTILINE) for name in ("demo", "test"))


@law_over(("page", "words"), GRADEBOOK_LINES)
def test_a_command_line_can_be_typed_as_it_stands(page, words):
    # Typer itself reads the words: an unknown command is a KeyError, a wrong option or value a usage error.
    name, rest = split_command(words[1:])
    COMMANDS[name].make_context(name, rest)


@law_over(("page", "words"), MENTIONS)
def test_a_command_named_in_the_text_exists(page, words):
    name, rest = split_command(words)
    options = {option for parameter in COMMANDS[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
    options.add("--help")
    assert [word for word in rest if word.startswith("-")] == [word for word in rest if word in options]


def test_every_script_that_is_named_exists():
    named = {words[2].replace(".", "/") + ".py" for _, words in shell_lines() if words[:2] == ["python", "-m"]}
    named |= set(re.findall(r"`python (\S+\.py)", "".join(PAGES.values())))
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


@law_over("page", PAGES)
def test_every_relative_link_leads_somewhere(page):
    prose = re.sub(r"(`+).+?\1", "", PAGES[page])
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", prose)
    assert [link for link in links if not leads_somewhere(page, link)] == []


def leads_somewhere(page: str, link: str) -> bool:
    """Whether a link leads to a file in git and a heading there, or from the reference to a page of the reference."""
    name, _, place = link.partition("#")
    folder = PurePosixPath("docs") if page not in WRITTEN else PurePosixPath(page).parent
    target = page if not name else (ROOT / folder / name).resolve().relative_to(ROOT.resolve()).as_posix()
    if target not in (WRITTEN if page in WRITTEN else PAGES):
        return not place and (ROOT / target).exists()
    headings = re.findall(r"^#+ (.*)$", PAGES[target], re.MULTILINE)
    return not place or place in {anchor(heading) for heading in headings}


def anchor(heading: str) -> str:
    """The place that a heading gets on the page."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


# -------- what is listed
@law_over("model", [*KEYS.values(), Suite, *METHODS.values()])
def test_every_key_of_a_rubric_file_says_what_it_means(model: type[BaseModel]):
    assert [name for name, words in field_descriptions(model).items() if not words.strip()] == []


def test_the_table_of_formats_has_each_format_of_an_import():
    cells = (row[0] for row in rows_after("docs/importing.md", "formats"))
    assert tuple(re.findall(r"`([a-z-]+)`", cell)[0] for cell in cells) == FORMAT_NAMES


def test_the_judge_settings_and_their_defaults_are_those_of_the_model():
    rows = rows_after("docs/judge-reference.md", "judge settings")
    listed = {cells[0].strip("`"): cells[1].strip("`") for cells in rows}
    known = {name: field.get_default(call_default_factory=True) for name, field in JudgeSettings.model_fields.items()}
    shown = {name: "none" if value is None else str(value) for name, value in known.items()}
    assert listed == shown | {"model": "required"}


def test_the_prices_of_a_judge_file_are_named():
    rows = rows_after("docs/judge-reference.md", "judge settings")
    (meaning,) = [cells[2] for cells in rows if cells[0] == "`prices`"]
    assert [name for name in Prices.model_fields if f"`{name}`" not in meaning] == []


@pytest.mark.parametrize("columns", [OUTPUT_COLUMNS, tuple(RatingRow.model_fields)], ids=["outputs", "ratings"])
def test_every_input_column_is_explained(columns):
    assert [name for name in columns if f"`{name}`" not in PAGES["docs/own-data.md"]] == []


def test_every_field_of_a_recorded_reply_is_explained():
    assert [name for name in RecordedReply.model_fields if f"`{name}`" not in PAGES["docs/judge-reference.md"]] == []


# -------- what is shown
@pytest.fixture
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    """Empty tables and views of a lake."""
    with duckdb.connect() as connection:
        make_tables(connection)
        make_views(connection)
        yield connection


@pytest.mark.slow
@law_over(("page", "query"), QUERIES)
def test_a_query_runs_over_the_tables(tables, page, query):
    assert UNRUN in query or tables.cursor().execute(query).description


@pytest.mark.parametrize(("page", "block"), [*blocks("yaml")])
def test_a_yaml_file_that_is_shown_is_right(page, block):
    shown = yaml.safe_load(block)
    if "work_pool" in shown:  # a part of prefect.yaml
        assert {"name", "job_variables"} <= shown["work_pool"].keys()
    elif shown.keys() & {"trigger", "automations"}:
        pytest.skip("tests/laws/test_watching.py holds automations to Prefect's own models")
    elif "suites" in shown:
        assert SuitesFile.model_validate(shown)
    elif "rubrics" in shown:
        assert ReviewMap.model_validate(shown)
    elif "batch_size" in shown:
        assert EmbedderSettings.model_validate(shown)
    else:
        assert parse_rubric(block, page) if "id" in shown else JudgeSettings.model_validate(shown)


# An expectation suite is several lines: tests/integration/flows/test_quality.py runs it.
JSON_LINES = [
    (page, line) for page, block in blocks("json") if not block.startswith("{\n") for line in block.splitlines()
]


@law_over(("page", "line"), JSON_LINES)
def test_a_json_line_that_is_shown_fits(page, line):
    row = json.loads(line)
    content = split_conversation(RawRow("outputs.jsonl", 1, "jsonl", row, None), {}).content
    fitted = RecordedReply.model_validate(row) if "level" in row else RowFitter({}).fit(content, "jsonl")
    assert not isinstance(fitted, str)
