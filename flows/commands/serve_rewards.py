"""The command `gradebook train serve`: a server that scores outputs for training."""

import math
from typing import Annotated

import typer

from gradebook.flows.commands.options import (
    DEFAULT_LAKE,
    AllowFunctionsOption,
    ComparedOption,
    DataOption,
    LakeOption,
    MapOption,
    complete_rubric,
    option_of,
)
from gradebook.flows.display.terminal import stderr, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.lake.address import find_lake
from gradebook.tasks.rewards.scorer import RubricScorer
from gradebook.tasks.rubric_store.versions import find_rubric
from gradebook.tasks.runs.request import read_column_map
from gradebook.tasks.serving.rewards_api import RewardsApp, rewards_app
from gradebook.tasks.serving.serve import bind, serve_app
from gradebook.tasks.system.listeners import LOOPBACK, hosts_of
from gradebook.tasks.system.logs import begin_logging

EVERYWHERE = ("0.0.0.0", "::")
LEAST_TOKEN = 16  # characters of a token

DeadlineOption = Annotated[
    float, typer.Option("--deadline-s", min=0.1, max=3600, help="seconds until a criterion without an answer is null")
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="GRADEBOOK_REWARDS_TOKEN",
        help="token of the callers, as a bearer token or in http://x:TOKEN@HOST; required beyond loopback",
    ),
]
UnscoredOption = Annotated[
    float | None,
    typer.Option(
        "--unscored", help="reward to send to a trainer if an output has none; default: the request fails with 503"
    ),
]
JobOption = Annotated[
    str | None,
    typer.Option(
        "--job",
        help="name under which the lake counts the spend over restarts; default, with a budget: the rubric's id",
    ),
]
TrustHostOption = Annotated[
    list[str] | None, typer.Option("--trust-host", help="name under which callers reach another address than loopback")
]


def serve_rewards(  # noqa: PLR0913 - each is an option
    rubric: Annotated[
        str, typer.Argument(help="a file, a shipped rubric's name, ID or ID@VERSION", autocompletion=complete_rubric)
    ],
    judge: Annotated[str | None, option_of("judge")] = None,
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="port to listen on; 0: a free one")] = 8600,
    token: TokenOption = None,
    trust_host: TrustHostOption = None,
    deadline_s: DeadlineOption = 60.0,
    budget_usd: Annotated[float | None, option_of("budget_usd")] = None,
    job: JobOption = None,
    gates: Annotated[str, typer.Option("--gates", help="effect of a failed gate: veto, penalty=X or ignore")] = "veto",
    unscored: UnscoredOption = None,
    column_map: MapOption = None,
    allow_functions: AllowFunctionsOption = None,
    baseline: ComparedOption = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Serve rewards over HTTP: one judge, ledger and budget for all callers.

    POST /score takes {"outputs": [...]}, texts or rows. /get_reward has OpenRLHF's form, /reward slime's. A missing
    reward is null, never 0. A request that the judge can't answer within the deadline gets 429 with Retry-After.
    Ctrl-C or SIGTERM ends the server after the requests in progress; replies are in the lake's ledger.

    \b
    gradebook train serve r.yaml --judge gpt-4o-mini --budget-usd 20 --job p7
    gradebook train serve rubric.yaml --judge judge.yaml --deadline-s 30
    GRADEBOOK_REWARDS_TOKEN=... gradebook train serve rubric.yaml \\
        --host 0.0.0.0 --trust-host rewards.example.org

    Exit: 0 ended, 2 bad input.
    """
    _refuse_open(host, token, trust_host or [])
    if unscored is not None and not math.isfinite(unscored):
        raise InputError("--unscored", f"{unscored:g}", "a finite number")
    begin_logging()
    loaded = find_rubric(rubric, find_lake(lake, data))
    with (
        bind(host, port) as listener,
        RubricScorer(
            loaded,
            judge,
            deadline_s=deadline_s,
            budget_usd=budget_usd,
            gates=gates,
            lake=None if judge is None and baseline is None else lake,
            data=data,
            job=job or (loaded.id if budget_usd is not None else None),
            column_map=read_column_map(column_map or ()),
            allow_functions=allow_functions or (),
            baseline=baseline,
        ) as scorer,
    ):
        app = RewardsApp(scorer, deadline_s, unscored)
        bound = listener.getsockname()[1]
        judge_words = "no judge: judged criteria are null" if scorer.judge is None else f"judge {scorer.judge}"
        stderr.print(f"{loaded.id} {loaded.version}, {judge_words}. Ctrl-C ends.", markup=False)
        stdout.print(
            f"http://{_address(trust_host[0] if trust_host else host, bound)}/score", markup=False, soft_wrap=True
        )
        serve_app(rewards_app(app, hosts_of(bound, host, trust_host or ()), token), listener, deadline_s)
    stderr.print(
        f"{counted(app.scored_count, 'output')}, {app.unscored_count:,} of them without a reward", markup=False
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refuse_open(host: str, token: str | None, trust_host: list[str]) -> None:
    """Raise `InputError` for an address beyond loopback without a token, or all addresses without a trusted name."""
    if token is not None and len(token) < LEAST_TOKEN:
        raise InputError(
            "--token", f"{len(token)} characters", f"{LEAST_TOKEN} or more, as `openssl rand -hex 32` gives"
        )
    if host not in LOOPBACK and token is None:
        raise InputError("--host", f"{host}, which others can reach", "--token or GRADEBOOK_REWARDS_TOKEN beside it")
    if host in EVERYWHERE and not trust_host:
        raise InputError("--host", f"{host}, all addresses", "--trust-host NAME: requests to other names are refused")
