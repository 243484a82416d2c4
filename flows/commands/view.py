"""The command `gradebook view`: a lake's pages on a local server."""

import os
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, LakeOption
from gradebook.flows.commands.rate import TrustHostOption, refuse_open
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import stderr, stdout
from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.serving.serve import bind, serve_app
from gradebook.tasks.system.listeners import Tokens, hosts_of
from gradebook.tasks.viewing.edited import RubricFolder
from gradebook.tasks.viewing.frame import TRY_BUDGET_USD, Editing
from gradebook.tasks.viewing.server import view_app

MOST_BUDGET_USD = 1_000.0
GRACE_S = 1.0  # for open pages at the end


def view(  # noqa: PLR0913 - each is an option
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="port to listen on; 0: a free one")] = 0,
    trust_host: TrustHostOption = None,
    is_opened: Annotated[bool, typer.Option("--open", help="open the page in the browser")] = False,
    is_editing: Annotated[
        bool, typer.Option("--edit", help="let readers edit rubrics: save files of --rubrics, register drafts")
    ] = False,
    rubrics: Annotated[
        Path | None, typer.Option("--rubrics", help="with --edit: folder of rubric files; default: this folder")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="with --edit: judge of trials; without one, none is asked")
    ] = None,
    try_budget_usd: Annotated[
        float | None, typer.Option("--try-budget-usd", help="with --judge: maximum spend of one trial; default: 0.05")
    ] = None,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Serve a lake's pages: runs, verdicts, comparisons, progress.

    The pages only read, unless --edit is given. Prints a link whose token lets its reader in; Ctrl-C ends the server.
    `gradebook lake site` writes pages that need no server.

    \b
    gradebook view
    gradebook view --open
    gradebook view --edit --rubrics rubrics --judge gpt-4o-mini
    gradebook view --host 0.0.0.0 --port 8080 --trust-host evals.example.org
    """
    refuse_open(host, trust_host)
    editing = _read_editing(rubrics, judge, try_budget_usd, is_editing=is_editing)
    found_lake = read_lake(lake, data)
    with bind(host, port) as listener:
        tokens = Tokens()
        app = view_app(found_lake, tokens, hosts_of(listener.getsockname()[1], host, trust_host or ()), editing)
        address = trust_host[0] if trust_host else f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        link = f"http://{address}/t/{tokens.issue('reader')}"
        stderr.print("Ctrl-C ends.")
        stdout.print(link, markup=False, soft_wrap=True)
        if is_opened:
            webbrowser.open(link)
        serve_app(app, listener, GRACE_S)


def _read_editing(
    rubrics: Path | None, judge: str | None, try_budget_usd: float | None, *, is_editing: bool
) -> Editing | None:
    """Settings of the editor; None without `--edit`. Raises `InputError`."""
    options = {"--rubrics": rubrics, "--judge": judge, "--try-budget-usd": try_budget_usd}
    alone = next((name for name, value in options.items() if value is not None), None)
    if not is_editing and alone is not None:
        raise InputError(alone, "no --edit", "both: without --edit the pages only read")
    if not is_editing:
        return None
    if try_budget_usd is not None and not 0 < try_budget_usd <= MOST_BUDGET_USD:
        raise InputError("--try-budget-usd", f"{try_budget_usd:g}", f"dollars, above 0, at most {MOST_BUDGET_USD:g}")
    if judge is not None:
        read_judge(judge, os.environ)  # refused now rather than with the first trial
    return Editing(RubricFolder(rubrics or Path()), judge, TRY_BUDGET_USD if try_budget_usd is None else try_budget_usd)
