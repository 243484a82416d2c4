"""The keys of endpoints: from the environment or a Prefect Secret block, and in no setting, message or table."""

from collections.abc import Mapping

from gradebook.rubrics.model.errors import EndpointUnavailable
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.system.prefect_blocks import read_secret

NO_KEY = "none"  # what local endpoints get: the client insists on a key
SECRET_BLOCK = "secret"


def read_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The keys of all addresses of a judge, by what their `key` names.

    Raises `EndpointUnavailable` where a key can't be one, or a block can't be read.
    """
    return {address.key: _read_key(address.key, environ) for address in settings.addresses}


def refuse_bad_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> None:
    """Raise `EndpointUnavailable` where a variable holds what can't be a key; Secret blocks are not read."""
    for address in settings.addresses:
        if not address.key.startswith(f"{SECRET_BLOCK}:"):
            _read_key(address.key, environ)


def named_key(name: str) -> str:
    """What a `key` names, in words."""
    kind, _, name = name.partition(":")
    return f"the Prefect Secret block {name}" if kind == SECRET_BLOCK else name


def _read_key(name: str, environ: Mapping[str, str]) -> str:
    kind, _, place = name.partition(":")
    key = (read_secret(place) if kind == SECRET_BLOCK else environ.get(place, "")).strip() or NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise EndpointUnavailable(f"{named_key(name)} holds characters that a key can't have")
    return key
