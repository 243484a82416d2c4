"""Server of one app on one address, until Ctrl-C or SIGTERM."""

import math
import signal
import socket
from contextlib import suppress
from typing import Any

import uvicorn

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.system.listeners import server_settings


def bind(host: str, port: int) -> socket.socket:
    """Listening socket; port 0: a free one. Raises `InputError` if the address can't be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # connections from now on wait until the app answers
    except OSError as error:
        listener.close()
        raise InputError(
            "--port", f"{host}:{port}: {error.strerror or error}", "an address of this machine, free"
        ) from error
    return listener


def serve_app(app: Any, listener: socket.socket, grace_s: float = 10) -> None:
    """Answer requests until a signal ends the process; open requests get `grace_s` to finish."""
    most_s = math.ceil(grace_s)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=most_s, ws="none", **server_settings())
    # uvicorn raises the signal again after closing, but the caller has to finish its work first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
