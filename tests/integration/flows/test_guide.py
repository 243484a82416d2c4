"""Pages whose examples are executed: files are written, commands are run, and their output is compared with the page.

A page is executed from top to bottom in an empty folder. `<!-- file: NAME -->` before a block: the block is that file.
`<!-- copy: A B -->`: B is a copy of A. `<!-- change: NAME -->` before a block "old -> new": the file changes so.
`cd PATH` among commands goes to a copy of that folder of the clone.
Commands are run if a block of text follows, which is the output of the last one; `...` in it matches any
number of lines.
A command ends with `# exits with N` where N is not 0.
"""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.blind_judge import RUBRIC, BlindJudge, outputs, ratings, write_lines
from tests.support.law_over import law_over
from tests.support.nightly import matrix

DOCS = Path(__file__).parents[3] / "docs"
PARTS = re.compile(r"^<!-- (file|copy|change): (.+?) -->$|^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"# exits with (\d)$")


def parts_of(page: str) -> list[tuple[str, str, str]]:
    """Steps of a page, in order: (kind, words of the mark or language of the block, text of the block)."""
    parts: list[tuple[str, str, str]] = []
    for mark, words, language, text in PARTS.findall((DOCS / page).read_text(encoding="utf-8")):
        if mark:
            parts.append((mark, words, ""))
        elif parts and parts[-1][0] in ("file", "change") and not parts[-1][2]:
            parts[-1] = (*parts[-1][:2], text)
        else:
            parts.append(("block", language, text))
    return parts


def differences(page: str, gradebook: Callable[..., object]) -> Iterator[str]:
    """Execute a page, and fail with the differences from its text."""
    parts = parts_of(page)
    for part, following in pairwise([*parts, ("end", "", "")]):
        match part:
            case ("file", name, text):
                write(name, text)
            case ("copy", names, _):
                shutil.copy(*names.split())
            case ("change", name, text):
                change(name, *text.rstrip("\n").split(" -> "))
            case ("block", "sh", commands) if following[:2] == ("block", "text"):
                yield from typed(commands, following[2], gradebook)


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def enter(folder: str) -> None:
    shutil.copytree(DOCS.parent / folder, folder)
    os.chdir(folder)  # the fixture's folder is left again at its end


def change(name: str, old: str, new: str) -> None:
    before = Path(name).read_text(encoding="utf-8")
    assert before.count(old) == 1, f"{name}: {old}"
    write(name, before.replace(old, new))


def typed(commands: str, expected: str, gradebook: Callable[..., object]) -> Iterator[str]:
    found = ("",)
    for line in commands.replace("\\\n", " ").splitlines():
        if line.startswith("cd "):
            enter(line.removeprefix("cd "))
            continue
        finished = gradebook(*shlex.split(line, comments=True)[1:])
        wanted = EXIT.search(line)
        if finished.code != (int(wanted[1]) if wanted else 0):
            yield f"{line}\nexits with {finished.code}: {finished.err}"
        # The page shows the output of the last command: what was asked for, its notes, or both.
        found = (finished.out, finished.err, finished.out + finished.err)
    if not any(re.fullmatch(pattern_of(expected), "\n".join(plain_lines(shown))) for shown in found):
        yield f"{commands}comes out as\n{found[-1]}"


def plain_lines(text: str) -> list[str]:
    """Lines with words, without the spaces and rules of tables."""
    return [line.rstrip() for line in text.splitlines() if line.strip(" ─")]


def pattern_of(expected: str) -> str:
    lines = plain_lines(expected)
    parts = ["(?:.*\n)*" if line == "..." else f"{re.escape(line)}\n" for line in lines]
    return (
        "".join(parts).removesuffix("\n")
        if lines[-1] != "..."
        else "".join(parts[:-1]).removesuffix("\n") + "(?:\n.*)*"
    )


@pytest.mark.nightly
@pytest.mark.slow
def test_the_guide_works_from_five_disliked_outputs_to_a_frozen_rubric(gradebook):
    assert list(differences("rubrics.md", gradebook)) == []


@pytest.mark.nightly
@pytest.mark.slow
def test_two_judges_and_people_are_compared_without_a_key(gradebook):
    assert list(differences("decision-models.md", gradebook)) == []


@pytest.mark.nightly
@pytest.mark.slow
def test_a_judge_learns_from_ratings_as_the_page_shows(gradebook, monkeypatch):
    rows = outputs(60)
    write_lines(Path("outputs.jsonl"), rows)
    write_lines(Path("ratings.jsonl"), ratings(rows))
    write("rubric.yaml", RUBRIC)
    with BlindJudge() as judge:
        monkeypatch.setenv("OPENAI_BASE_URL", judge.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        assert list(differences("learning.md", gradebook)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["../README.md", "library.md", "importing.md", *matrix(["rubric-format.md", "coming-from.md"])]
)
def test_the_examples_of_a_page_give_its_output(page, gradebook):
    assert list(differences(page, gradebook)) == []


@law_over(
    "page",
    [
        "../README.md",
        "rubrics.md",
        "rubric-format.md",
        "library.md",
        "importing.md",
        "coming-from.md",
        "decision-models.md",
    ],
)
def test_every_block_of_text_is_a_file_or_a_command_s_output(page):
    parts = parts_of(page)
    before = [previous[:2] for previous, part in pairwise(parts) if part[:2] == ("block", "text")]
    assert before
    assert set(before) == {("block", "sh")}


@pytest.mark.parametrize("expected", ["a\n...\nd", "...\nd", "a\n...", "a\nb\n\nc\nd"])
def test_dots_match_any_number_of_lines(expected):
    assert re.fullmatch(pattern_of(expected), "a\nb\nc\nd")


@pytest.mark.parametrize("expected", ["a\n...\ne", "b\n...", "a\nb\nc", "a\nc\nd"])
def test_any_other_line_counts(expected):
    assert not re.fullmatch(pattern_of(expected), "a\nb\nc\nd")
