"""The command `gradebook why`: the origin of a verdict."""

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DataOption,
    JsonOption,
    LakeOption,
    complete_criterion,
    complete_run,
    print_json,
)
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import for_stdout, plain, show_rows, stdout
from gradebook.rubrics.importers.case_rows import prompt_text
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.prompts.chat import read_chat
from gradebook.rubrics.prompts.reply_parser import read_requirements, requirement_line
from gradebook.rubrics.text.wording import counted, price_words, score_words, spread_words
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.lake.rows import Row, model_name
from gradebook.tasks.published.provenance import Origin, ask_reasons, read_origins
from gradebook.tasks.published.runs import is_run, latest_run
from gradebook.tasks.system.shell import shell_line

NO_REASONS = "none: this judge gives a probability for each level and no reasons"
LONGEST = 2_000  # characters of a text on the screen


def why(  # noqa: PLR0913 - each is an option
    run: Annotated[
        str | None,
        typer.Argument(help="a published run's id; left out: the latest published run", autocompletion=complete_run),
    ] = None,
    case: Annotated[str | None, typer.Argument(help="a case's id, or an output's; needed")] = None,
    criterion: Annotated[
        str | None, typer.Argument(help="a criterion; default: a line for each", autocompletion=complete_criterion)
    ] = None,
    ask: Annotated[
        str | None,
        typer.Option("--ask", help="with a criterion: another judge to ask for its reasons; it changes no verdict"),
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option("--budget-usd", help="with --ask: maximum spend in US dollars")
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
    gradebook why case-17 tone --ask gpt-5-mini

    Exit: 0 done, 2 bad input, 3 unfinished.
    """
    if run is None:
        raise _no_case()
    found_lake = read_lake(lake, data)
    run, case, criterion = _resolve_arguments(
        found_lake, tuple(word for word in (run, case, criterion) if word is not None)
    )
    origins = read_origins(found_lake, run, case, criterion)
    if ask is not None and criterion is None:
        raise InputError("--ask", "no criterion", "the criterion whose verdict it explains, after the case")
    if ask is not None:
        origins = ask_reasons(found_lake, origins, ask, budget_usd)
    if as_json:
        print_json({"verdicts": [origin.as_json() for origin in origins]})
    elif criterion is None:
        for _, of_output in groupby(origins, lambda origin: origin.row["output_id"]):
            _show_output([origin.row for origin in of_output])
        command = shell_line(("gradebook", "why", run, case, "CRITERION", *find_lake(lake, data).words()))
        stdout.print(f"all about one of them:\n  {plain(command)}", markup=False, soft_wrap=True)
    else:
        once = _Once()
        for origin in origins:
            _show(origin, once)


def _resolve_arguments(lake: Lake, arguments: tuple[str, ...]) -> tuple[str, str, str | None]:
    """Run, case and criterion; of the latest run if the first of one or two words is no run's id."""
    if len(arguments) < 3 and not is_run(lake, arguments[0]):
        arguments = (latest_run(lake), *arguments)
    run, case, criterion = (*arguments, None, None)[:3]
    if case is None:
        raise _no_case()
    return str(run), case, criterion


def _no_case() -> InputError:
    return InputError("CASE", "none", "a case's id, or an output's", "`gradebook why --help` lists what it takes")


def _show_output(rows: Sequence[Row]) -> None:
    """Print an output and a table of its verdicts."""
    first = rows[0]
    _print_field("output", f"{first['output_id']} of {model_name(first)}, score {_output_score(first)}")
    _print_field("asked", _question(first["prompt"]))
    _print_field("text", first["output"])
    show_rows(("criterion", "level", "score", "why", "people", "method", "judge", "billed"), map(_cells, rows))
    stdout.print()


def _output_score(row: Row) -> str:
    """Score of the output, or why it has none."""
    why = row["output_unscored_reason"] if row["output_score"] is None else None
    return score_words(row["output_score"]) + (f" ({why})" if why else "")


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row["criterion_id"],
        row["level_id"] or ("unscored" if row["score"] is None else ""),
        score_words(row["score"]),
        row["reason"] or row["rationale"] or row["evidence"] or _spread(row) or "",
        score_words(row["people_score"]),
        row["method"],
        row["asked_judge"] or "",
        "" if row["judgment_id"] is None else price_words(row["cost_usd"]),
    )


def _question(prompt: str | None) -> str:
    """Question of the user: of a chat the last message of the user, with the number of messages before it."""
    messages = read_chat(prompt or "")
    of_user = [index for index, message in enumerate(messages or ()) if message["role"] == "user"]
    if not messages or not of_user:
        return prompt or ""
    index = of_user[-1]
    before = f"(after {counted(index, 'message')}) " if index else ""
    return before + prompt_text([{"role": "user", "content": messages[index]["content"]}])


class _Once:
    """Prints each part once, however many outputs repeat it."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str | None]] = set()

    def __call__(self, name: str, text: str | None) -> None:
        if (name, text) not in self._shown:
            self._shown.add((name, text))
            _print_field(name, text)


def _print_evidence(name: str, evidence: str | None) -> None:
    """Print requirements a line each, other evidence as it is stored."""
    requirements = read_requirements(evidence)
    for entry in requirements:
        quote = f' "{entry.quote}"' if entry.quote else ""
        _print_field("requirement", f"{requirement_line(entry)}{quote}")
    if not requirements:
        _print_field(name, evidence)


def _show(origin: Origin, once: _Once) -> None:
    row = origin.row
    level = f"{row['level_id']}, " if row["level_id"] else ""
    verdict = f"unscored, {row['reason']}" if row["score"] is None else f"{level}{score_words(row['score'])}"
    _print_field("verdict", f"{row['criterion_id']} of {model_name(row)}, case {row['case_id']}: {verdict}")
    weight = "no weight (a gate)" if not row["weight"] else f"weight {row['weight']}"
    threshold = "" if row["threshold"] is None else f", threshold {row['threshold']}"
    _print_field("counts", f"{weight}{threshold}; output's score {_output_score(row)}")
    _print_field("rationale", row["rationale"] or (NO_REASONS if row["distribution"] else None))
    _print_field("probabilities", _spread(row))
    _print_evidence("evidence", row["evidence"])
    if origin.asked is not None:
        other_verdict = f"{origin.asked.level_id or 'unscored'}, {score_words(origin.asked.score)}"
        why = origin.asked.rationale or origin.asked.reason or "no reasons"
        _print_field("another judge", f"{other_verdict}, beside the verdict: {why}")
        _print_evidence("its evidence", origin.asked.evidence)
    once("asked", _question(row["prompt"]))
    _print_field("output", row["output"])
    once("criterion", row["description"])
    for level_row in origin.levels:
        once("level", f"{level_row['id']} ({score_words(level_row['score'])}): {level_row['description']}")
    once("method", json.dumps(origin.settings, ensure_ascii=False, default=str))
    if row["request_key"] is not None:
        _show_judgment(origin, once)
    for rating in origin.ratings:
        opinion = rating["level_id"] or score_words(rating["score"])
        _print_field("rating", ", ".join(filter(None, (f"{rating['rater']}: {opinion}", rating["notes"]))))
    rubric = f"{row['rubric_id']} {row['rubric_version']}, digest {row['rubric_digest']}"
    once("rubric", rubric)
    epoch = "" if row["judge_epoch"] is None else f", judge epoch {row['judge_epoch']}"
    once("versions", f"gradebook {row['code_version']}, table version {row['version']}{epoch}")
    once("dataset", f"{row['dataset']}, digest {row['dataset_digest']}")


def _show_judgment(origin: Origin, once: _Once) -> None:
    row = origin.row
    if row["judgment_id"] is None:
        _print_field("judge", f"no reply in the ledger under {row['request_key']}")
        return
    paid = "by this run" if row["paid_by"] == row["run_id"] else f"by {row['paid_by']}"
    tokens = f"{row['prompt_tokens']} tokens in, {row['completion_tokens']} out"
    by = f", answered by {row['model_returned']}" if row["model_returned"] else ""
    _print_field("judge", f"{row['asked_judge']}{by} on {row['asked_at']:%Y-%m-%d %H:%M} UTC")
    _print_field("price", f"{price_words(row['cost_usd'])}, {tokens}, paid {paid}")
    _print_field("request", f"key {row['request_key']}, prompt file {row['prompt_digest']}")
    for message in origin.messages or ():
        content = message["content"]
        once("sent", content if isinstance(content, str) else json.dumps(content, ensure_ascii=False))
    if origin.why_no_messages:
        _print_field("sent", f"not shown: {origin.why_no_messages}")
    _print_field("reply", row["reply"])


def _spread(row: Row) -> str | None:
    """Probabilities of the levels, the largest first; None where the judge gave none."""
    return spread_words(json.loads(row["distribution"])) if row["distribution"] else None


def _print_field(name: str, text: str | None) -> None:
    if text:
        cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters; --json has all)"
        stdout.print(for_stdout(f"{name}: {cut}".replace("\n", "\n  ")), markup=False)
