"""The commands `gradebook checks ...`: list, show and try deterministic checks."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DONE, NOT_MET, JsonOption, print_json
from gradebook.flows.display.check import show_check, show_checks, show_tried
from gradebook.rubrics.checks.describing import describe_check
from gradebook.rubrics.checks.registry import check_names, families, find_check
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.scoring.try_check import known_check, read_metadata, read_setting_words, try_check

app = typer.Typer(help="List, show and try deterministic checks.", no_args_is_help=True, rich_markup_mode=None)


def _complete_name(incomplete: str) -> list[str]:
    return [name for name in check_names() if name.startswith(incomplete)]


NameArgument = Annotated[str, typer.Argument(help="a check's name", autocompletion=_complete_name)]


@app.command("list")
def list_checks(
    words: Annotated[str, typer.Argument(help="only checks with this text in their name or summary")] = "",
    as_json: JsonOption = False,
) -> None:
    """List the checks by family, with a one-line summary each.

    \b
    gradebook checks list
    gradebook checks list json
    """
    listed = [
        {"family": title, **describe_check(find_check(name))}
        for title, names in families()
        for name in names
        if words.casefold() in f"{title} {name} {find_check(name).summary}".casefold()
    ]
    if as_json:
        print_json({"checks": listed})
    else:
        show_checks(listed)


@app.command()
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Show a check's rule, settings and examples.

    \b
    gradebook checks show length_words
    """
    described = describe_check(known_check(name))
    if as_json:
        print_json(described)
    else:
        show_check(described)


@app.command("try")
def try_out(  # noqa: PLR0913 - each is an option
    name: NameArgument,
    text: Annotated[str | None, typer.Option("--text", help="the output to check; - reads stdin")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="a file with the output to check")] = None,
    set_words: Annotated[
        list[str] | None, typer.Option("--set", help="a setting, such as max=20; may be repeated")
    ] = None,
    settings: Annotated[str | None, typer.Option("--settings", help="all settings as one JSON object")] = None,
    mode: Annotated[str, typer.Option("--mode", help="strict or loose")] = "strict",
    prompt: Annotated[str | None, typer.Option("--prompt", help="the row's prompt")] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="the row's reference")] = None,
    context: Annotated[list[str] | None, typer.Option("--context", help="a context passage; may be repeated")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="the row's metadata as a JSON object")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a check on one text and show its verdict.

    \b
    gradebook checks try length_words --set max=3 --text "one two three four"
    gradebook checks try contains --set "any=[refund, money back]" \\
        --file reply.txt
    gradebook checks try matches_reference --text Paris --reference paris \\
        --set case_sensitive=false

    Exit: 0 passed, 1 failed or unscored, 2 unknown check or setting.
    """
    row = {
        "output": _read_output(text, file),
        "prompt": prompt,
        "reference": reference,
        "context": context,
        "metadata": read_metadata(metadata),
    }
    tried = try_check(name, read_setting_words(set_words or [], settings), mode, row)
    if as_json:
        print_json(asdict(tried))
    else:
        show_tried(tried)
    raise typer.Exit(DONE if tried.is_passed else NOT_MET)


def _read_output(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        found = "neither --text nor --file" if text is None else "both --text and --file"
        raise InputError("checks try", found, "one of them")
    if file is None:
        return sys.stdin.read() if text == "-" else str(text)
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"--file {file}", f"a byte that is not UTF-8 at {error.start}", "text") from None
    except (OSError, ValueError) as error:
        raise InputError("--file", f"can't read {file}: {getattr(error, 'strerror', None) or error}") from None
