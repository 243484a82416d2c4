"""The commands `gradebook checks ...`: which checks there are, what one takes, and what it says of a text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DONE, NOT_MET, JsonOption, print_json
from gradebook.rubrics.model.errors import InputError

app = typer.Typer(help="Deterministic checks: list, show, try.", no_args_is_help=True, rich_markup_mode=None)


def _check_names(incomplete: str) -> list[str]:
    """For the shell's completion."""
    from gradebook.rubrics.checks.registry import check_names

    return [name for name in check_names() if name.startswith(incomplete)]


NameArgument = Annotated[str, typer.Argument(help="a check's name", autocompletion=_check_names)]


@app.command("list")
def list_checks(
    words: Annotated[str, typer.Argument(help="only checks whose name or summary holds this")] = "",
    as_json: JsonOption = False,
) -> None:
    """List the checks with a sentence each, family by family.

    \b
    gradebook checks list
    gradebook checks list json
    """
    from gradebook.rubrics.checks.describing import describe_check
    from gradebook.rubrics.checks.registry import families, find_check

    listed = [
        {"family": title, **describe_check(find_check(name))}
        for title, names in families()
        for name in names
        if words.casefold() in f"{title} {name} {find_check(name).summary}".casefold()
    ]
    if as_json:
        print_json({"checks": listed})
        return
    from gradebook.flows.display.check import show_checks

    show_checks(listed)


@app.command()
def show(name: NameArgument, as_json: JsonOption = False) -> None:
    """Print what a check decides, its settings and its examples.

    \b
    gradebook checks show length_words
    """
    from gradebook.rubrics.checks.describing import describe_check
    from gradebook.tasks.scoring.try_check import known_check

    described = describe_check(known_check(name))
    if as_json:
        print_json(described)
        return
    from gradebook.flows.display.check import show_check

    show_check(described)


@app.command("try")
def try_out(  # noqa: PLR0913 - each is an option
    name: NameArgument,
    text: Annotated[str | None, typer.Option("--text", help="the output to check; - reads stdin")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="a file whose text is the output")] = None,
    set_words: Annotated[list[str] | None, typer.Option("--set", help="a setting, as max=20; may be repeated")] = None,
    settings: Annotated[str | None, typer.Option("--settings", help="the settings as a JSON object")] = None,
    mode: Annotated[str, typer.Option("--mode", help="strict or loose")] = "strict",
    prompt: Annotated[str | None, typer.Option("--prompt", help="the row's prompt")] = None,
    reference: Annotated[str | None, typer.Option("--reference", help="the row's reference")] = None,
    context: Annotated[list[str] | None, typer.Option("--context", help="a passage; may be repeated")] = None,
    metadata: Annotated[str | None, typer.Option("--metadata", help="the row's metadata as a JSON object")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a check over one text and say what it finds.

    \b
    gradebook checks try length_words --set max=3 --text "one two three four"
    gradebook checks try contains --set "any=[refund, money back]" --file reply.txt
    gradebook checks try matches_reference --text Paris --reference paris --set case_sensitive=false

    Exit: 0 it passes, 1 it fails or the check can't tell, 2 an unknown check or setting.
    """
    from gradebook.tasks.scoring.try_check import read_metadata, read_setting_words, try_check

    row = {
        "output": _read_output(text, file),
        "prompt": prompt,
        "reference": reference,
        "context": context,
        "metadata": read_metadata(metadata),
    }
    tried = try_check(name, read_setting_words(set_words or [], settings), mode, row)
    if as_json:
        from dataclasses import asdict

        print_json(asdict(tried))
    else:
        from gradebook.flows.display.check import show_tried

        show_tried(tried)
    raise typer.Exit(DONE if tried.is_passed else NOT_MET)


def _read_output(text: str | None, file: Path | None) -> str:
    if (text is None) == (file is None):
        found = "neither --text nor --file" if text is None else "both --text and --file"
        raise InputError(f"found {found}, expected one of them")
    if file is None:
        return sys.stdin.read() if text == "-" else str(text)
    try:
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InputError(f"--file {file}: found bytes that are no UTF-8 at {error.start}, expected text") from None
    except (OSError, ValueError) as error:
        raise InputError(f"--file: can't read {file}: {getattr(error, 'strerror', None) or error}") from None
