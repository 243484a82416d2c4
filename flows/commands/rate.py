"""The command `gradebook people rate`: a server on which people rate the outputs of a run."""

import getpass
import os
from collections.abc import Callable
from datetime import UTC, datetime
from socket import socket
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    DataOption,
    LakeOption,
    complete_criterion,
    complete_run,
    option_of,
)
from gradebook.flows.display.terminal import stderr, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.published.runs import latest_run
from gradebook.tasks.ratings.rating_queue import Queue
from gradebook.tasks.ratings.rating_session import RatingSession, opened_session
from gradebook.tasks.ratings.run_ratings import prefers_people
from gradebook.tasks.runs.request import read_request
from gradebook.tasks.serving.rating_page import rating_app
from gradebook.tasks.serving.serve import bind, serve_app
from gradebook.tasks.system.listeners import LOOPBACK, Tokens, hosts_of
from gradebook.tasks.system.processes import call_in_new_process

MOST_RATERS = 200
LONGEST_NAME = 80

RunArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN|OUTPUTS]",
        help="a run's id, or with --rubric a file of outputs; default: the latest published run",
        autocompletion=complete_run,
    ),
]
RatersOption = Annotated[
    str | None, typer.Option("--raters", help="names, separated by commas; default: your account's name")
]
OverlapOption = Annotated[
    int | None, typer.Option("--overlap", min=1, help="raters for each output; default: 2, or 1 for one rater")
]
QueueOption = Annotated[
    Queue, typer.Option("--queue", help="outputs to rate; only random and calibration support corrected means")
]
BaselineOption = Annotated[
    str | None,
    typer.Option(
        "--baseline", help="with --pairs: a run's id, whose outputs are one side", autocompletion=complete_run
    ),
]
GoldOption = Annotated[
    str | None,
    typer.Option("--gold", help="mix in settled outputs: a ratings file, or a run that people rated"),
]
TrainOption = Annotated[
    bool, typer.Option("--train", help="with --gold: show what is settled once the output is rated")
]
NamesOption = Annotated[
    bool, typer.Option("--show-names", help="with --queue adjudicate: show who gave each rating, and when")
]
JudgeOption = Annotated[
    bool,
    typer.Option("--show-judge", help="show the judge's levels; these ratings say so and measure no judge"),
]
PairsOption = Annotated[
    bool, typer.Option("--pairs", help="compare two outputs of a case: which is better, by criterion")
]
TrustHostOption = Annotated[
    list[str] | None,
    typer.Option("--trust-host", help="name under which browsers reach another address than loopback"),
]
CriteriaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--criterion",
        help="rate this criterion; may be repeated; default: all that no code decides",
        autocompletion=complete_criterion,
    ),
]


def rate(  # noqa: PLR0913 - each is an option
    run: RunArgument = None,
    rubric: Annotated[str | None, option_of("rubric")] = None,
    column_map: Annotated[list[str] | None, option_of("column_map")] = None,
    raters: RatersOption = None,
    overlap: OverlapOption = None,
    queue: QueueOption = Queue.random,
    count: Annotated[int, typer.Option("--n", min=1, help="number of outputs to rate, at most")] = 200,
    criterion: CriteriaOption = None,
    pairs: PairsOption = False,
    baseline: BaselineOption = None,
    gold: GoldOption = None,
    train: TrainOption = False,
    show_names: NamesOption = False,
    show_judge: JudgeOption = False,
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="port to listen on; 0: a free one")] = 0,
    trust_host: TrustHostOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Serve pages on which people rate outputs of a run or of a file.

    Prints a link for each rater. Raters see neither models nor judges, except with --show-judge. A sheet is on disk
    before it is acknowledged; ratings move to the lake every 30 seconds and at the end. Ctrl-C ends the server; the
    same command goes on where it stopped. A file of outputs becomes a run first, without a judge: its ratings count in
    a later `evaluate` of it.

    \b
    gradebook people rate
    gradebook people rate outputs.jsonl --rubric rubric.yaml
    gradebook people rate 20261101-020000-a1b2c3 --raters anna,ben --overlap 2
    gradebook people rate --queue disputed --n 20
    gradebook people rate --queue adjudicate --raters lea --show-names
    gradebook people rate --pairs --criterion tone
    gradebook people rate --host 0.0.0.0 --port 8080 \\
        --trust-host ratings.example.org
    """
    names = _names(raters)
    refuse_open(host, trust_host)
    _refuse_conflicts(queue, pairs=pairs, baseline=baseline, gold=gold, train=train)
    _refuse_hints(queue, pairs=pairs, gold=gold, show_names=show_names, show_judge=show_judge)
    found_lake = find_lake(lake, data)
    run_or_latest = _run_to_rate(run, rubric, column_map, lake, data)
    next_ids: list[str] = []
    if queue is Queue.calibration:
        run_or_latest = (
            run_or_latest if isinstance(run_or_latest, str) else call_in_new_process(run_or_latest, found_lake)
        )
        next_ids = _next_ids(found_lake, run_or_latest, count)
    with (
        bind(host, port) as listener,
        opened_session(
            found_lake,
            run_or_latest,
            queue=queue,
            count=count,
            overlap=overlap or min(2, len(names)),
            criterion_ids=criterion or (),
            has_pairs=pairs,
            baseline_run_id=baseline,
            gold=gold,
            is_training=train,
            next_ids=next_ids,
            has_names=show_names,
            has_judge=show_judge,
            call=call_in_new_process,
        ) as session,
    ):
        _serve(session, names, listener, host, trust_host or [])
    stderr.print(_next_step(session))


def _next_ids(lake: Lake, run_id: str, count: int) -> list[str]:
    """Ids of the outputs that `gradebook people calibrate --rate-next` suggests."""
    from gradebook.tasks.agreement.calibration import MOST_NEXT, calibrate_run

    rows = call_in_new_process(calibrate_run, lake, run_id, next_count=min(count, MOST_NEXT)).next_outputs
    return [str(row["output_id"]) for row in rows]


def _serve(session: RatingSession, names: list[str], listener: socket, host: str, trust_host: list[str]) -> None:
    """Print a link for each rater, and serve the session's pages until Ctrl-C."""
    port, tokens = listener.getsockname()[1], Tokens()
    address = trust_host[0] if trust_host else f"{f'[{host}]' if ':' in host else host}:{port}"
    tasks = counted(session.task_count, "pair" if session.has_pairs else "output")
    criteria = counted(len(session.criteria), "criterion", "criteria")
    if session.own_count:
        of_rows = f"{counted(session.own_count, 'criterion', 'criteria')} of single rows"
        criteria = f"{criteria}, {of_rows}" if session.criteria else of_rows
    stderr.print(f"{tasks} of {session.run_id}, {criteria}. Ctrl-C ends.")
    for name in names:
        stdout.print(f"{name}  http://{address}/t/{tokens.issue(name)}", markup=False, soft_wrap=True)
    hosts = hosts_of(port, host, trust_host)
    serve_app(rating_app(session, tokens, hosts, lambda text: stderr.print(text, markup=False)), listener)


def _next_step(session: RatingSession) -> str:
    if session.has_pairs:
        return "all choices are in the lake, in the table preferences: `gradebook people agreement` sums them up"
    preferred = [
        name
        for name, criterion in session.criteria.items()
        if isinstance(criterion, Criterion) and prefers_people(criterion)
    ]
    again = f"; evaluate again: on {', '.join(preferred)} they count in place of the judge's verdicts"
    uses = "`gradebook people agreement` compares them, `gradebook people calibrate` uses them"
    return f"all ratings are in the lake: {uses}{again if preferred else ''}"


def _run_to_rate(
    run: str | None, rubric: str | None, column_map: list[str] | None, lake: str, data: str | None
) -> str | Callable[[Lake], str]:
    """Id of the run to rate: the given run, or a new run of a file; without both, the function `latest_run`.

    Raises `InputError`.
    """
    if rubric is None:
        if column_map:
            raise InputError("--map", "no --rubric", "a file of outputs and its --rubric")
        if run is not None and os.path.isfile(run):  # noqa: PTH113 - Path raises where a name is too long
            raise InputError(run, "a file", "--rubric, with which its outputs are rated, or a run's id")
        return run or latest_run  # called where the tasks run, which saves a process
    if run is None:
        raise InputError("--rubric", "no file of outputs", "one: `gradebook people rate OUTPUTS --rubric RUBRIC`")
    options = {"outputs": run, "rubric": rubric, "column_map": column_map or (), "lake": lake, "data": data}
    from gradebook.flows.display.progress_bars import shown_progress
    from gradebook.tasks.stages.pipeline import run_to_rate

    with shown_progress():
        return run_to_rate(read_request(options, datetime.now(UTC)))


def refuse_open(host: str, trust_host: list[str] | None) -> None:
    """Raise `InputError` for an address that other machines can reach if no trusted host name is given."""
    if host not in LOOPBACK and not trust_host:
        expected = "--trust-host NAME, the name that browsers show: requests to any other are refused"
        raise InputError("--host", f"{host}, which others can reach", expected)


def _refuse_conflicts(queue: Queue, *, pairs: bool, baseline: str | None, gold: str | None, train: bool) -> None:
    if train and gold is None:
        raise InputError("--train", "no --gold", "--gold, whose outputs are settled")
    if gold is not None and (pairs or queue is Queue.adjudicate):
        raise InputError("--gold", "--pairs" if pairs else "--queue adjudicate", "a queue of single outputs to rate")
    if baseline is not None and not pairs:
        raise InputError("--baseline", "no --pairs", "--pairs, whose first side is the baseline's output")
    if pairs and queue is not Queue.random:
        raise InputError("--queue", f"{queue.value} with --pairs", "random, the one queue of pairs")


def _refuse_hints(queue: Queue, *, pairs: bool, gold: str | None, show_names: bool, show_judge: bool) -> None:
    """Raise `InputError` for options that show raters something that the queue lacks, or that would bias them."""
    if show_names and queue is not Queue.adjudicate:
        raise InputError("--show-names", f"--queue {queue.value}", "--queue adjudicate: other raters see no ratings")
    if show_judge and (pairs or gold is not None or queue is Queue.adjudicate):
        other = "--pairs" if pairs else "--gold" if gold is not None else f"--queue {queue.value}"
        raise InputError("--show-judge", other, "a queue of single outputs to rate, without gold")


def _names(raters: str | None) -> list[str]:
    """Names of raters, without duplicates. Raises `InputError`."""
    names = [name.strip() for name in raters.split(",")] if raters is not None else [getpass.getuser()]
    if len(set(names)) < len(names) or len(names) > MOST_RATERS:
        raise InputError("--raters", f"{raters!r}", f"at most {MOST_RATERS} names, each once")
    for name in names:
        if not name or len(name) > LONGEST_NAME or not name.isprintable():
            raise InputError(
                "--raters", f"the name {name[:LONGEST_NAME]!r}", f"1 to {LONGEST_NAME} printable characters"
            )
    return names
