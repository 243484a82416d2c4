"""The command `gradebook view`: a lake's pages on a local server."""

import webbrowser
from typing import Annotated

import typer

from gradebook.flows.commands.options import DEFAULT_LAKE, DataOption, LakeOption
from gradebook.flows.commands.rate import TrustHostOption, refuse_open
from gradebook.flows.commands.read_lake import read_lake
from gradebook.flows.display.terminal import stderr, stdout
from gradebook.tasks.serving.serve import bind, serve_app
from gradebook.tasks.system.listeners import Tokens, hosts_of
from gradebook.tasks.viewing.server import view_app

GRACE_S = 1.0  # for open pages at the end


def view(
    host: Annotated[str, typer.Option("--host", help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="port to listen on; 0: a free one")] = 0,
    trust_host: TrustHostOption = None,
    is_opened: Annotated[bool, typer.Option("--open", help="open the page in the browser")] = False,
    lake: LakeOption = DEFAULT_LAKE,
    data: DataOption = None,
) -> None:
    """Serve a lake's pages: runs, verdicts, comparisons, progress.

    The pages only read. Prints a link whose token lets its reader in; Ctrl-C ends the server. `gradebook lake site`
    writes pages that need no server.

    \b
    gradebook view
    gradebook view --open
    gradebook view --host 0.0.0.0 --port 8080 --trust-host evals.example.org
    """
    refuse_open(host, trust_host)
    found_lake = read_lake(lake, data)
    with bind(host, port) as listener:
        tokens = Tokens()
        app = view_app(found_lake, tokens, hosts_of(listener.getsockname()[1], host, trust_host or ()))
        address = trust_host[0] if trust_host else f"{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        link = f"http://{address}/t/{tokens.issue('reader')}"
        stderr.print("Ctrl-C ends.")
        stdout.print(link, markup=False, soft_wrap=True)
        if is_opened:
            webbrowser.open(link)
        serve_app(app, listener, GRACE_S)
