"""The documentation held to the code. `python tests/laws/test_docs.py` writes the tables that are generated."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from pydantic import BaseModel

from gradebook.flows.cli import ENTRIES, load_command
from gradebook.rubrics.checks import registry as checks
from gradebook.rubrics.checks.registry import describe_check
from gradebook.rubrics.files.load import parse_rubric, read_rubric, shipped_rubrics
from gradebook.rubrics.importers.registry import FORMAT_NAMES, find_format
from gradebook.rubrics.lint.linting import rules
from gradebook.rubrics.model.levels import Level, Scale
from gradebook.rubrics.model.methods import METHODS
from gradebook.rubrics.model.outputs import OUTPUT_COLUMNS
from gradebook.rubrics.model.rubric import Category, Criterion, Notes, Overall, Rubric
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.text.field_descriptions import field_descriptions
from gradebook.tasks.datasets.file_formats import RawRow
from gradebook.tasks.datasets.row_parser import RowFitter, split_conversation
from gradebook.tasks.datasets.traces import TRACE_FORMATS
from gradebook.tasks.judging.replies.recorded_judge import RecordedReply
from gradebook.tasks.judging.settings.embedder import EmbedderSettings
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import Prices
from gradebook.tasks.judging.settings.providers import list_providers
from gradebook.tasks.lake.schema import make_tables, make_views
from gradebook.tasks.lake.sql import declared_tables, list_questions
from gradebook.tasks.operations.suites import Suite, SuitesFile
from gradebook.tasks.ratings.evaluation_file import RatingRow
from gradebook.tasks.rubric_store.files import needs_of
from gradebook.tasks.runs.request import OPTIONS, Use
from gradebook.tasks.stages.review import ReviewMap
from tests.support.law_over import law_over

ROOT = Path(__file__).parents[2]
PAGES = {path.relative_to(ROOT).as_posix(): path for path in [*ROOT.glob("*.md"), *sorted(ROOT.glob("docs/*.md"))]}
UNRUN = " at (version"  # time travel needs a lake with that version


COMMANDS: dict[str, Any] = {name: load_command(name) for name in ENTRIES}


def split_command(words: list[str]) -> tuple[str, list[str]]:
    """The command's name, which may be several words, and what follows it."""
    length = next((length for length in (3, 2, 1) if " ".join(words[:length]) in COMMANDS), 1)
    return " ".join(words[:length]), words[length:]


def text_of(page: str) -> str:
    return PAGES[page].read_text(encoding="utf-8")


FOREIGN_PAGES = ("docs/importing.md", "docs/coming-from.md")


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """The fenced blocks of a language, each with its page; the files of other systems are held to their importers."""
    for page in PAGES:
        if language in ("sh", "sql") or page not in FOREIGN_PAGES:
            for block in re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE):
                yield page, block


def rows_after(page: str, mark: str) -> list[list[str]]:
    """The cells of the table that follows a mark, without its head."""
    table = text_of(page).partition(f"<!-- {mark} -->\n")[2].partition("\n\n")[0]
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
    for mention in re.findall(r"`(gradebook [a-z][^`]*)`", re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL))
]
QUERIES = [
    *blocks("sql"),
    *((page, words[2]) for page, words in GRADEBOOK_LINES if words[1] == "sql" and words[2:] and words[2][0] != "-"),
]


# -------- what is generated
def table(*rows: tuple[str, ...]) -> str:
    """A table in Markdown; the first row is its head."""
    head, *lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join([head, f"|{' --- |' * len(rows[0])}", *lines])


def key_table(model: type[BaseModel]) -> str:
    return table(("key", "meaning"), *((f"`{name}`", meaning) for name, meaning in meanings_of(model).items()))


def meanings_of(model: type[BaseModel]) -> dict[str, str]:
    """Meaning of each key of a file, in the words of the model's field."""
    words = field_descriptions(model)
    return {
        field.alias or name: ("required; " if field.is_required() else "") + " ".join(words[name].split())
        for name, field in model.model_fields.items()
    }


def suite_table() -> str:
    """The keys of a suite that no option of an evaluation has, or with another meaning."""
    known = {option.name: option.help for option in OPTIONS.values()}
    rows = ((f"`{name}`", meaning) for name, meaning in meanings_of(Suite).items() if known.get(name) != meaning)
    return table(("key", "meaning"), *rows)


def option_table() -> str:
    """The options of an evaluation, and what has each of them."""
    uses = (Use.COMMAND, Use.OUTPUTS_FLOW, Use.CHECKPOINT_FLOW, Use.SUITE)
    places = dict(zip(uses, ("command", "outputs", "checkpoint", "suite"), strict=True))
    rows = []
    for option in OPTIONS.values():
        flag = option.name.upper() if option.is_argument else option.flag if Use.COMMAND in option.use else ""
        default = "required" if option.is_required else json.dumps(option.default) if option.default else ""
        found = [name for use, name in places.items() if use in option.use]
        where = "all" if len(found) == len(places) else ", ".join(found)
        new_run = "yes" if Use.FINGERPRINT in option.use else ""
        rows.append((f"`{flag}`" if flag else "", f"`{option.name}`", option.help, default, where, new_run))
    return table(("option", "name", "meaning", "default", "in", "new run"), *rows)


def method_table() -> str:
    rows = ((f"`{name}`", " ".join((model.__doc__ or "").split())) for name, model in METHODS.items())
    return table(("method", "what gives the verdict"), *rows)


def method_key_table() -> str:
    keys = ((name, *each) for name, model in METHODS.items() for each in meanings_of(model).items())
    rows = ((f"`{name}`", f"`{key}`", meaning) for name, key, meaning in keys if key != "type")
    return table(("method", "key", "meaning"), *rows)


def check_sections() -> str:
    """A section a family, a part a check: all of it from the registry."""
    parts = []
    for title, names in checks.families():
        parts.append(f"## {title}")
        parts += [check_part(describe_check(checks.find_check(name))) for name in names]
    return "\n\n".join(parts)


def check_part(check: dict[str, Any]) -> str:
    """Section on a check: its description, settings and examples."""
    parts = [f"### {check['name']}\n{check['summary']}", check["details"]]
    settings = [
        (f"`{each['name']}`", f"`{each['default']}`" if each["default"] else "", each["meaning"])
        for each in check["settings"]
    ]
    parts += [table(("setting", "default", "meaning"), *settings)] if settings else ["It has no settings."]
    parts += [table(("settings", "row", "verdict"), *map(example_row, check["examples"]))] if check["examples"] else []
    parts.append(f"Reads {', '.join(f'`{column}`' for column in check['columns'])}. Cost: {check['cost']}.")
    return "\n\n".join(part for part in parts if part)


def example_row(example: dict[str, Any]) -> tuple[str, ...]:
    row = {key: value for key, value in example.items() if key not in ("settings", "is_passed")}
    verdict = {True: "pass", False: "fail", None: "unscored"}[example["is_passed"]]
    return code(example["settings"]) if example["settings"] else "", code(row), verdict


def code(value: Any) -> str:
    """JSON in a cell of a table; a backtick in it would end the code."""
    text = json.dumps(value, ensure_ascii=False)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def check_table() -> str:
    rows = [
        (f"[`{name}`](#{anchor(name)})", checks.find_check(name).summary)
        for _, names in checks.families()
        for name in names
    ]
    return table(("check", "passes when"), *rows)


def anchor(heading: str) -> str:
    """The place that a heading gets on the page."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def rule_table() -> str:
    rows = ((f"`{rule.id}`", rule.severity, rule.summary, rule.mend) for rule in rules())
    return table(("rule", "severity", "what it finds", "remedy"), *rows)


def format_table() -> str:
    sources = {"rubric": "a rubric", "cases": "rows with criteria", "results": "outputs and ratings, with criteria"}
    outs = {"rubric": "-o rubric.yaml", "cases": "-o FOLDER", "results": "-o FOLDER"}
    written = {True: "yes", False: "no"}
    rows = [
        (
            f"[`{each.name}`](#{each.name})",
            each.summary,
            sources[each.source],
            each.left,
            f"`gradebook rubric import FILE {outs[each.source]}`",
            written[each.write is not None],
        )
        for each in map(find_format, FORMAT_NAMES)
    ]
    traces = ", ".join(f"`{name}`" for name in TRACE_FORMATS)
    what, left = "[traces of agents](traces.md)", "what a model thought without saying it"
    rows.append((traces, what, "outputs with steps", left, "`gradebook evaluate FILE --rubric RUBRIC`", "no"))
    return table(("format", "what is read", "becomes", "what is left", "command", "is written too"), *rows)


def library_table() -> str:
    rows = []
    for name in shipped_rubrics():
        rubric = read_rubric(name)
        needs = ", ".join(needs_of(rubric)) or "nothing"
        rows.append((f"`{name}`", rubric.description, str(len(rubric.criteria)), needs))
    return table(("rubric", "what it asks", "criteria", "needs"), *rows)


def column_tables() -> str:
    parts = []
    for name, declared in declared_tables().items():
        rows = [(f"`{column}`", meaning) for column, meaning in declared.columns.items()]
        parts.append(f"### {name}\n{declared.description}\n\n{table(('column', 'meaning'), *rows)}")
    return "\n\n".join(parts)


def question_blocks() -> str:
    return "\n".join(f"{question.text}\n```sql\n{question.statement}\n```" for question in list_questions())


def provider_table() -> str:
    rows = [
        (
            f"`{each['provider']}`",
            ", ".join(f"`{name}`" for name in each["names"]),
            f"`{each['base_url']}`",
            f"`{each['key'].removeprefix('env:')}`" if each["key"] else "none",
        )
        for each in list_providers({})
    ]
    return table(("provider", "models by name", "address", "key"), *rows)


KEYS: dict[str, type[BaseModel]] = {
    "rubric keys": Rubric,
    "criterion keys": Criterion,
    "level keys": Level,
    "scale keys": Scale,
    "category keys": Category,
    "overall keys": Overall,
    "notes keys": Notes,
    "taxonomy keys": Taxonomy,
}
GENERATED: dict[str, tuple[str, Callable[[], str]]] = {
    **{mark: ("docs/rubric-keys.md", partial(key_table, model)) for mark, model in KEYS.items()},
    "suites file keys": ("docs/nightly-suites.md", partial(key_table, SuitesFile)),
    "suite keys": ("docs/nightly-suites.md", suite_table),
    "evaluation options": ("docs/options.md", option_table),
    "methods": ("docs/rubric-format.md", method_table),
    "method keys": ("docs/rubric-keys.md", method_key_table),
    "checks": ("docs/checks.md", check_table),
    "check sections": ("docs/checks.md", check_sections),
    "lint rules": ("docs/rubric-keys.md", rule_table),
    "formats": ("docs/importing.md", format_table),
    "shipped rubrics": ("docs/library.md", library_table),
    "questions": ("docs/sql.md", question_blocks),
    "columns": ("docs/sql.md", column_tables),
    "providers": ("docs/providers.md", provider_table),
}


def with_generated(page: str, mark: str, generated: str) -> str:
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->"
    head, _, rest = text_of(page).partition(begin)
    return f"{head}{begin}{generated}\n{end}{rest.partition(end)[2]}"


@pytest.mark.parametrize("mark", GENERATED)
def test_a_generated_table_is_up_to_date(mark):
    page, make = GENERATED[mark]
    assert text_of(page) == with_generated(page, mark, make()), "run `python tests/laws/test_docs.py`"


# -------- what is typed
def test_the_readme_names_the_two_commands_and_the_makefile_has_them():
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert all(re.search(rf"^make {name}\b", text_of("README.md"), re.MULTILINE) for name in ("demo", "test"))


@law_over(("page", "words"), GRADEBOOK_LINES)
def test_a_command_line_can_be_typed_as_it_stands(page, words):
    # Typer itself reads the words: an unknown command is a KeyError, a wrong option or value a usage error.
    name, rest = split_command(words[1:])
    COMMANDS[name].make_context(name, rest)


@law_over(("page", "words"), MENTIONS)
def test_a_command_named_in_the_text_exists(page, words):
    name, rest = split_command(words)
    options = {option for parameter in COMMANDS[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in rest if word.startswith("-")] == [word for word in rest if word in options]


def test_every_script_that_is_named_exists():
    named = {words[2].replace(".", "/") + ".py" for _, words in shell_lines() if words[:2] == ["python", "-m"]}
    named |= set(re.findall(r"`python (\S+\.py)", "".join(map(text_of, PAGES))))
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


@law_over("page", PAGES)
def test_every_relative_link_leads_somewhere(page):
    prose = re.sub(r"(`+).+?\1", "", text_of(page))
    links = re.findall(r"\]\((?!https?://)([^)\s]+)\)", prose)
    assert [link for link in links if not leads_somewhere(PAGES[page], link)] == []


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, place = link.partition("#")
    target = page.parent / name if name else page
    if not target.exists() or not place:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return place in {anchor(heading) for heading in headings}


# -------- what is listed
@pytest.mark.parametrize("model", [*KEYS.values(), *METHODS.values()])
def test_every_key_of_a_rubric_file_says_what_it_means(model: type[BaseModel]):
    assert [name for name, words in field_descriptions(model).items() if not words.strip()] == []


def test_every_format_has_a_section():
    assert [name for name in FORMAT_NAMES if f"\n## {name}\n" not in text_of("docs/importing.md")] == []


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
    assert [name for name in columns if f"`{name}`" not in text_of("docs/own-data.md")] == []


def test_every_field_of_a_recorded_reply_is_explained():
    assert [name for name in RecordedReply.model_fields if f"`{name}`" not in text_of("docs/judge-reference.md")] == []


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


if __name__ == "__main__":
    for mark, (page, make) in GENERATED.items():
        PAGES[page].write_text(with_generated(page, mark, make()), encoding="utf-8")
