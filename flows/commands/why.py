"""The command `gradebook why`: where a verdict comes from."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

import typer

from gradebook.flows.commands.completion import complete_criterion, complete_run
from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, JsonOption, LakeOption, print_json
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import for_stdout, people, plain, show_rows
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.provenance import Origin, read_origins
from gradebook.tasks.published.run_list import is_run, latest_run
from gradebook.tasks.system.number_format import price_words, score_words
from gradebook.tasks.system.shell import shell_line

LONGEST = 2_000  # characters of a text on the screen


def why(
    run: Annotated[
        str | None,
        typer.Argument(help="a published run's id; left out: the latest published run", autocompletion=complete_run),
    ] = None,
    case: Annotated[str | None, typer.Argument(help="a case's id, or an output's; needed")] = None,
    criterion: Annotated[
        str | None, typer.Argument(help="a criterion; default: a line for each", autocompletion=complete_criterion)
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Trace a verdict back to the output, prompt, reply, rubric, ratings and price.

    \b
    gradebook why case-17
    gradebook why case-17 tone
    gradebook why 20261101-020000-a1b2c3 case-17 tone

    Exit: 0 done, 2 bad input.
    """
    if run is None:
        raise _no_case()
    found = read_lake(lake, data)
    run, case, criterion = _named(found, tuple(word for word in (run, case, criterion) if word is not None))
    origins = read_origins(found, run, case, criterion)
    if as_json:
        print_json({"verdicts": [origin.as_json() for origin in origins]})
    elif criterion is None:
        for _, of_output in groupby(origins, lambda origin: origin.row["output_id"]):
            _show_output([origin.row for origin in of_output])
        command = shell_line(("gradebook", "why", run, case, "CRITERION", *find_lake(lake, data).words()))
        people.print(f"all about one of them:\n  {plain(command)}", markup=False, soft_wrap=True)
    else:
        for origin in origins:
            _show(origin)


def _named(lake: Lake, words: tuple[str, ...]) -> tuple[str, str, str | None]:
    """Run, case and criterion; of the latest run if the first of one or two words is no run's id."""
    if len(words) < 3 and not is_run(lake, words[0]):
        words = (latest_run(lake), *words)
    run, case, criterion = (*words, None, None)[:3]
    if case is None:
        raise _no_case()
    return str(run), case, criterion


def _no_case() -> InputError:
    return InputError("CASE", "none", "a case's id, or an output's", "`gradebook why --help` lists what it takes")


def _show_output(rows: Sequence[Row]) -> None:
    """Print an output and a table of its verdicts."""
    first = rows[0]
    _part("output", f"{first['output_id']} of {model_name(first)}, score {_output_score(first)}")
    _part("text", first["output"])
    show_rows(("criterion", "level", "score", "why", "people", "method", "judge", "billed"), map(_cells, rows))
    people.print()


def _output_score(row: Row) -> str:
    """Score of the output, or why it has none."""
    why = row["output_unscored_reason"] if row["output_score"] is None else None
    return score_words(row["output_score"]) + (f" ({why})" if why else "")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["criterion_id"],
        row["level_id"] or ("unscored" if row["score"] is None else ""),
        score_words(row["score"]),
        row["reason"] or row["rationale"] or row["evidence"] or "",
        score_words(row["people_score"]),
        row["method"],
        row["asked_judge"] or "",
        "" if row["judgment_id"] is None else price_words(row["cost_usd"]),
    )


def _show(origin: Origin) -> None:
    row = origin.row
    level = f"{row['level_id']}, " if row["level_id"] else ""
    verdict = f"unscored, {row['reason']}" if row["score"] is None else f"{level}{score_words(row['score'])}"
    _part("verdict", f"{row['criterion_id']} of {model_name(row)}, case {row['case_id']}: {verdict}")
    weight = "no weight (a gate)" if not row["weight"] else f"weight {row['weight']}"
    threshold = "" if row["threshold"] is None else f", threshold {row['threshold']}"
    _part("counts", f"{weight}{threshold}; output's score {_output_score(row)}")
    _part("rationale", row["rationale"])
    _part("evidence", row["evidence"])
    _part("output", row["output"])
    _part("criterion", row["description"])
    for each in origin.levels:
        _part("level", f"{each['id']} ({score_words(each['score'])}): {each['description']}")
    _part("method", json.dumps(origin.settings, ensure_ascii=False, default=str))
    if row["request_key"] is not None:
        _show_judgment(origin)
    for rating in origin.ratings:
        said = rating["level_id"] or score_words(rating["score"])
        _part("rating", ", ".join(filter(None, (f"{rating['rater']}: {said}", rating["notes"]))))
    rubric = f"{row['rubric_id']} {row['rubric_version']}, digest {row['rubric_digest']}"
    _part("rubric", rubric)
    epoch = "" if row["judge_epoch"] is None else f", judge epoch {row['judge_epoch']}"
    _part("versions", f"gradebook {row['code_version']}, table version {row['version']}{epoch}")
    _part("dataset", f"{row['dataset']}, digest {row['dataset_digest']}")


def _show_judgment(origin: Origin) -> None:
    row = origin.row
    if row["judgment_id"] is None:
        _part("judge", f"no reply in the ledger under {row['request_key']}")
        return
    paid = "by this run" if row["paid_by"] == row["run_id"] else f"by {row['paid_by']}"
    tokens = f"{row['prompt_tokens']} tokens in, {row['completion_tokens']} out"
    by = f", answered by {row['model_returned']}" if row["model_returned"] else ""
    _part("judge", f"{row['asked_judge']}{by} on {row['asked_at']:%Y-%m-%d %H:%M} UTC")
    _part("price", f"{price_words(row['cost_usd'])}, {tokens}, paid {paid}")
    _part("request", f"key {row['request_key']}, prompt file {row['prompt_digest']}")
    for message in origin.messages or ():
        content = message["content"]
        _part("sent", content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    if origin.why_no_messages:
        _part("sent", f"not shown: {origin.why_no_messages}")
    _part("reply", row["reply"])


def _part(name: str, text: str | None) -> None:
    if text:
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters; --json has all)"
        people.print(for_stdout(f"{name}: {cut}".replace("\n", "\n  ")), markup=False)
