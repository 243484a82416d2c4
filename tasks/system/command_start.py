"""Start of this process's command, for the costs of its first run; imports nothing."""

_begun: list[float] = []


def begin_command(began_at_s: float) -> None:
    """Note when a command began, by `time.perf_counter`."""
    _begun[:] = [began_at_s]


def take_start() -> float | None:
    """Start of the command, by `time.perf_counter`; None if no command runs or an earlier run has taken it."""
    return _begun.pop() if _begun else None
