"""The commands `gradebook server start`, `stop` and `status`."""

from datetime import datetime

import typer

from gradebook.flows.commands.options import NOT_MET, JsonOption, print_json
from gradebook.flows.display.terminal import people
from gradebook.rubrics.model.counts import counted

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="""Start, stop or show the Prefect server that commands share.

    A command that evaluates starts a Prefect server for you, unless Prefect's settings name one, and a process that
    checks data quality, and leaves a ready process that runs later commands without their imports. All stay for later
    commands and end 15 minutes after the last one (GRADEBOOK_SERVER_IDLE_S, in seconds; 0: no ready process).
    """,
)


@app.command("start")
def start(as_json: JsonOption = False) -> None:
    """Start the server, or find the running one, and print its address.

    \b
    gradebook server start
    """
    from gradebook.flows.server.shared import shared_server

    server = shared_server()
    if server is not None:
        server.announce()
        server.wait()
    address = server.address if server else None
    if as_json:
        print_json({"address": address})
    elif address:
        people.print(f"Prefect's server answers at {address}", highlight=False, soft_wrap=True)
    else:
        people.print("Prefect's settings name a server (PREFECT_API_URL), so no other is started", highlight=False)


@app.command("stop")
def stop(as_json: JsonOption = False) -> None:
    """Stop the server, the data-quality process and the ready process.

    A running command goes on, and starts the first two again.

    \b
    gradebook server stop
    """
    from gradebook.flows.server.shared import KIND
    from gradebook.tasks.stages.suite_process import KIND as SUITES
    from gradebook.tasks.system.folder_settings import prefect_home
    from gradebook.tasks.system.kept_process import READY, stop_processes

    stop_processes(prefect_home(), READY)
    stop_processes(prefect_home(), SUITES)
    count = stop_processes(prefect_home(), KIND)
    if as_json:
        print_json({"stopped_count": count})
    else:
        people.print(f"{counted(count, 'server')} stopped" if count else "no server runs")


@app.command("status")
def status(as_json: JsonOption = False) -> None:
    """Show the running server. Exit: 0 a server runs, 1 none runs.

    \b
    gradebook server status
    gradebook server status --json
    """
    from gradebook.flows.server.shared import KIND, server_answers
    from gradebook.tasks.system.folder_settings import prefect_home
    from gradebook.tasks.system.kept_process import find_processes

    servers = [
        {
            "address": server.address,  # the password is not shown
            "process_id": server.process_id,
            "started_at": server.started_at,
            "idle_s": server.idle_s,
            "answers": server_answers(server),
        }
        for server in find_processes(prefect_home(), KIND)
    ]
    if as_json:
        print_json({"servers": servers})
    for server in servers if not as_json else []:
        state = "answers" if server["answers"] else "does not answer (yet)"
        since = f"{datetime.fromisoformat(str(server['started_at'])):%Y-%m-%d %H:%M} UTC"
        people.print(
            f"{server['address']} {state}: process {server['process_id']}, since {since}, "
            f"ends after {server['idle_s']:g} s without a command"
        )
    if not servers:
        if not as_json:
            people.print("no server runs; the next evaluation starts one")
        raise typer.Exit(NOT_MET)
