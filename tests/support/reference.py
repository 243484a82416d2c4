"""Reference generated from the code, and sources of the site: `python -m tests.support.reference` writes build/docs.

The reference is not in git. `make docs` builds the site from it and the written pages.
"""

import json
import re
import shutil
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gradebook.flows.cli import ENTRIES, SECTIONS, load_command
from gradebook.rubrics.checks import registry as checks
from gradebook.rubrics.checks.registry import describe_check
from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.rubrics.lint.linting import rules
from gradebook.rubrics.model.levels import Level, Scale
from gradebook.rubrics.model.methods import METHODS
from gradebook.rubrics.model.rubric import Category, Criterion, Notes, Overall, Rubric
from gradebook.rubrics.model.taxonomy import Taxonomy
from gradebook.rubrics.text.field_descriptions import field_descriptions
from gradebook.tasks.judging.settings.providers import list_providers
from gradebook.tasks.lake.sql import declared_tables, list_questions
from gradebook.tasks.operations.suites import Suite, SuitesFile
from gradebook.tasks.rubric_store.files import needs_of
from gradebook.tasks.runs.request import OPTIONS, Use

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "build" / "docs"
KEYS: dict[str, type[BaseModel]] = {
    "a rubric": Rubric,
    "a criterion": Criterion,
    "a level": Level,
    "a scale": Scale,
    "a category": Category,
    "`overall`": Overall,
    "`notes`": Notes,
    "a taxonomy": Taxonomy,
    "a suites file": SuitesFile,
}


COMMANDS: dict[str, Any] = {name: load_command(name) for name in ENTRIES}


# -------- tables
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
    places = {
        Use.COMMAND: "command",
        Use.OUTPUTS_FLOW: "outputs",
        Use.CHECKPOINT_FLOW: "checkpoint",
        Use.SUITE: "suite",
    }
    rows = []
    for option in OPTIONS.values():
        flag = option.name.upper() if option.is_argument else option.flag if Use.COMMAND in option.use else ""
        default = "required" if option.is_required else json.dumps(option.default) if option.default else ""
        uses = [name for use, name in places.items() if use in option.use]
        where = "all" if len(uses) == len(places) else ", ".join(uses)
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
    """A section a family, a part a check."""
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
        (f"[`{name}`](#{name.replace(':', '')})", checks.find_check(name).summary)
        for _, names in checks.families()
        for name in names
    ]
    return table(("check", "passes when"), *rows)


def rule_table() -> str:
    rows = ((f"`{rule.id}`", rule.severity, rule.summary, rule.mend) for rule in rules())
    return table(("rule", "severity", "what it finds", "remedy"), *rows)


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


# -------- pages
def reference_pages() -> dict[str, str]:
    """Generated pages by file name; their links are those of a page in docs/."""
    pages = {
        "commands": ("Commands", "Help of each command, as `--help` prints it.", command_sections()),
        "options": ("Options of an evaluation", OPTIONS_TEXT, option_table()),
        "keys": (
            "Keys of files",
            "`gradebook rubric schema` prints those of a rubric as a JSON Schema.",
            key_sections(),
        ),
        "lint": ("Rules of lint", "`gradebook rubric lint` names the rule of each problem.", rule_table()),
        "checks": (
            "All checks",
            "`gradebook rubric checks show NAME` prints the same.",
            *(check_table(), check_sections()),
        ),
        "tables": ("Tables and columns", "`gradebook lake tables NAME` prints the same.", column_tables()),
        "questions": ("Worked questions", "The SQL page of `gradebook view` has them too.", question_blocks()),
        "rubrics": ("Shipped rubrics", "`gradebook rubric list` prints them.", library_table()),
        "providers": ("Providers", "`gradebook judge list` prints them.", provider_table()),
    }
    return {f"reference/{name}.md": "\n\n".join([f"# {title}", *parts]) for name, (title, *parts) in pages.items()}


OPTIONS_TEXT = """An option of `gradebook evaluate` has the same name as a parameter of the flows `evaluate-outputs` and
`evaluate-checkpoint`, and as a key of a suite; "in" says which of the four take it. "New run": another value makes
another run. The same command with other values of the other options resumes a run that was not published. Of a file the
content counts, not the name."""


def command_sections() -> str:
    """A section for each command with its help, in the order of `gradebook --help`."""
    parts = []
    for title, tops in SECTIONS.items():
        parts.append(f"## {title.partition(',')[0]}")
        for name, command in COMMANDS.items():
            if name.partition(" ")[0] in tops:
                context = command.make_context(f"gradebook {name}", [], resilient_parsing=True)
                parts.append(f"### gradebook {name}\n```text\n{command.get_help(context)}\n```")
    return "\n\n".join(parts)


def key_sections() -> str:
    parts = [f"## Keys of {what}\n{key_table(model)}" for what, model in KEYS.items()]
    parts += [
        f"## Keys of a suite\nOthers are [options of an evaluation](reference/options.md).\n\n{suite_table()}",
        f"## Methods of a criterion\n{method_table()}",
        f"## Keys of a method\n{method_key_table()}",
    ]
    return "\n\n".join(parts)


# -------- sources of the site
def write_sources(folder: Path) -> None:
    """Write the pages of the site: docs/, the changelog, the page for contributors and the reference."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    for path in folder.rglob("*.md"):
        path.write_text(for_site(path.read_text(encoding="utf-8")), encoding="utf-8")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        (folder / name).write_text(for_site(text), encoding="utf-8")
    (folder / "reference").mkdir()
    for name, text in reference_pages().items():
        links = re.sub(r"\]\((?=[a-z/-]+\.md)", "](../", text)
        (folder / name).write_text(for_site(links, depth=1), encoding="utf-8")


def for_site(text: str, depth: int = 0) -> str:
    """Markdown as MkDocs reads it: a blank line before lists and tables, no `\\|` in code, no link out of the site."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= line.startswith("```")
        if not is_code and lines and begins_block(lines[-1], line):
            lines.append("")
        in_table = line.startswith("|") and not is_code
        lines.append(re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), line) if in_table else line)
    text = re.sub(r"\]\(\.\./(CHANGELOG|CONTRIBUTING)", r"](\1", "\n".join(lines) + "\n")
    return re.sub(r"\[([^]]*)\]\(\.\./(?:examples|bench|prefect|README)[^)]*\)", r"\1", text)


def begins_block(before: str, line: str) -> bool:
    """Whether a list or a table begins on this line."""
    starts = [mark for mark in (r"\|", r"- ", r"\d+\. ") if re.match(mark, line)]
    return any(before.strip() and not re.match(rf"{mark}|  ", before) for mark in starts)


if __name__ == "__main__":
    write_sources(SOURCES)
