"""Keys of endpoints, from the environment or a Prefect Secret block; in no setting, message or table."""

from collections.abc import Mapping

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.system.prefect_blocks import read_secret

NO_KEY = "none"  # sent to local endpoints, as the client requires a key
SECRET_BLOCK = "secret"


def read_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """Keys of all addresses of a judge, by the value of their `key` setting.

    Raises `EndpointUnavailable` if a key has invalid characters, or a block cannot be read.
    """
    return {address.key: _read_key(address.key, environ) for address in settings.addresses}


def refuse_bad_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> None:
    """Raise `EndpointUnavailable` where a variable holds what can't be a key; Secret blocks are not read."""
    for address in settings.addresses:
        if not address.key.startswith(f"{SECRET_BLOCK}:"):
            _read_key(address.key, environ)


def named_key(name: str) -> str:
    """Source named by a `key` setting, in words."""
    kind, _, name = name.partition(":")
    return f"the Prefect Secret block {name}" if kind == SECRET_BLOCK else name


def _read_key(name: str, environ: Mapping[str, str]) -> str:
    kind, _, place = name.partition(":")
    key = (read_secret(place) if kind == SECRET_BLOCK else environ.get(place, "")).strip() or NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise EndpointUnavailable(f"{named_key(name)} holds characters that a key can't have")
    return key
