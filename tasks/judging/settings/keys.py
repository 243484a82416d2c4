"""Keys of endpoints, from the environment or a Prefect Secret block; in no setting, message or table.

A key goes only to an address with which the operator paired it: OPENAI_API_KEY to OPENAI_BASE_URL, or to OpenAI where
that is not set; a provider's key to the provider's own address, by the table of providers or the user's settings file.
Any other pair is listed in GRADEBOOK_ALLOW_KEYS or in the user's settings file. A judge file names a
key and an address, but may be of others, so it pairs nothing. The same holds for the variables in its headers. A
program that prints a token is allowed literally, and `command@HOST` allows its token at a host. AWS credentials sign
requests to AWS's own hosts, and `aws@HOST` allows another.
"""

import shlex
import subprocess
import threading
import time
from collections.abc import Mapping

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError
from gradebook.tasks.judging.settings.aws_signature import AWS, aws_secret, is_of_aws, refuse_missing_botocore
from gradebook.tasks.judging.settings.judge import JudgeSettings
from gradebook.tasks.judging.settings.model import (
    ADDRESS_VARIABLE,
    DEFAULT_BASE_URL,
    KEY_VARIABLE,
    VARIABLE_IN_TEXT,
    Address,
)
from gradebook.tasks.judging.settings.providers import paired_provider
from gradebook.tasks.system.operator_settings import (
    PROGRAMS,
    allowing,
    origin_of,
    read_operator_settings,
    where_to_allow,
)
from gradebook.tasks.system.prefect_settings import read_secret

NO_KEY = "none"  # sent where there is no key, as the client requires one
SECRET_BLOCK, COMMAND = "secret", "command"
TOKEN_TIMEOUT_S = 60.0
TOKEN_AGE_S = 240.0  # programs of clouds print a token that is valid for at least five minutes more
MOST_TOKEN_LENGTH = 20_000
_TOKENS: dict[str, tuple[float, str]] = {}  # by command: when its token was printed, and the token
_TOKENS_LOCK = threading.Lock()


def read_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Keys of a judge's addresses, in their order.

    Raises `JudgeSettingsError` if the operator allows a key not at its address, `EndpointUnavailable` if a key has
    invalid characters, or a block cannot be read.
    """
    sources = _sources(settings, environ)
    return tuple(NO_KEY if source is None else _read_key(source, environ) for source in sources)


def fresh_key(address: Address, key: str) -> str:
    """Key of an address now: a token that a program prints, and AWS credentials, are renewed; any other key stays.

    key: as of `read_keys`. May wait for the program. Raises `EndpointUnavailable`.
    """
    source = address.key or ""
    if source == AWS:
        return aws_secret()
    return _printed_token(source.partition(":")[2]) if source.startswith(f"{COMMAND}:") else key


def read_headers(address: Address, environ: Mapping[str, str]) -> dict[str, str]:
    """Headers of an address, with the values of their variables. Raises `EndpointUnavailable` for an empty variable.

    The variables are paired with the address by `read_keys`, which comes first.
    """
    return {
        name: VARIABLE_IN_TEXT.sub(lambda match: _variable(match[1], environ), text)
        for name, text in address.headers.items()
    }


def header_secrets(address: Address, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Values of the variables in an address's headers, which are masked as its key is."""
    return tuple(value for name in address.header_variables if (value := environ.get(name, "").strip()))


def refuse_bad_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> None:
    """Raise what `read_keys` raises; Secret blocks are not read."""
    for source in _sources(settings, environ):
        if source == AWS:
            refuse_missing_botocore()
        elif source is not None and not source.startswith((f"{SECRET_BLOCK}:", f"{COMMAND}:")):
            _read_key(source, environ)
    for address in settings.addresses:
        read_headers(address, environ)


def refuse_unpaired_keys(settings: JudgeSettings, environ: Mapping[str, str]) -> None:
    """Raise `JudgeSettingsError` if the operator does not allow a key at its address, or the judge's program; no key is
    read.
    """
    _sources(settings, environ)
    command = settings.batch_command
    if command is not None and command not in read_operator_settings(environ).programs:
        raise JudgeSettingsError(
            f"batch_command: found {command!r}, a program that nobody allowed, expected the same line in {PROGRAMS}, "
            "or under [programs] allow in ~/.config/gradebook/settings.toml"
        )


def refused_key_sentence(address: Address, environ: Mapping[str, str]) -> str:
    """Second half of a sentence: why an endpoint refuses the key, in the words of its settings."""
    source = _source(address, environ)
    if source is not None:
        return f"it does not accept the key in {_source_name(source)}"
    entry = allowing("VARIABLE", address.base_url)
    return (
        f"no key was sent, for the file has no `key` and {ADDRESS_VARIABLE} names another address; expected "
        f"`key: env:VARIABLE` in the file, and {where_to_allow(entry)}"
    )


def missing_key_sentence(address: Address, environ: Mapping[str, str]) -> str | None:
    """Sentence about a missing key, without which no request to an address can succeed; None where no key is missing.

    A key is needed where the file names one, and by OpenAI; the user's own endpoint may take any.
    """
    source = _source(address, environ)
    if source is None or not (address.key or origin_of(address.base_url) == origin_of(DEFAULT_BASE_URL)):
        return None
    elsewhere = "" if address.key else f", or the address of another endpoint in {ADDRESS_VARIABLE}"
    return (
        None
        if _read_key(source, environ) != NO_KEY
        else f"found no key in {_source_name(source)}, expected one{elsewhere}"
    )


def _sources(settings: JudgeSettings, environ: Mapping[str, str]) -> list[str | None]:
    """Source of each address's key; None for an address without a key."""
    for address in settings.addresses:
        for name in address.header_variables:
            is_allowed = read_operator_settings(environ).allows_key(name, address.base_url)
            if not (is_allowed or paired_provider(f"env:{name}", address.base_url, environ)):
                raise _unpaired("headers", name, address)
    return [_paired(address, environ) for address in settings.addresses]


def _paired(address: Address, environ: Mapping[str, str]) -> str | None:
    source = _source(address, environ)
    if source is None or _is_environments(address, source, environ):
        return source
    if source == AWS and is_of_aws(address.base_url):
        return source
    kind, _, detail = source.partition(":")
    allowed = read_operator_settings(environ)
    provider = paired_provider(source, address.base_url, environ)
    if provider is not None and (kind != COMMAND or provider.is_own):
        return source
    if kind == COMMAND and detail not in allowed.programs:
        raise JudgeSettingsError(
            f"key: found {detail!r}, a program that nobody allowed, expected the same line in {PROGRAMS}, or under "
            "[programs] allow in ~/.config/gradebook/settings.toml"
        )
    name = {AWS: AWS, COMMAND: COMMAND, SECRET_BLOCK: source}.get(kind, detail)
    if provider is None and not allowed.allows_key(name, address.base_url):
        raise _unpaired("key", name, address)
    return source


def _source(address: Address, environ: Mapping[str, str]) -> str | None:
    """Source of an address's key; None without a key."""
    default = f"env:{KEY_VARIABLE}"
    return address.key or (default if _is_environments(address, default, environ) else None)


def _is_environments(address: Address, source: str, environ: Mapping[str, str]) -> bool:
    """Whether the environment itself pairs the key with the address."""
    if source != f"env:{KEY_VARIABLE}":
        return False
    try:
        return origin_of(address.base_url) == origin_of(environ.get(ADDRESS_VARIABLE) or DEFAULT_BASE_URL)
    except ValueError:  # an incomplete address in the environment pairs no key
        return False


def _unpaired(setting: str, name: str, address: Address) -> JudgeSettingsError:
    return JudgeSettingsError(
        f"{setting}: found {_source_name(name)} for {address.base_url}, a pair that nobody allowed, expected "
        f"{where_to_allow(allowing(name, address.base_url))}"
    )


def _source_name(source: str) -> str:
    kind, mark, name = source.partition(":")
    if source == AWS:
        return "the AWS credentials"
    if not mark:
        return kind
    if kind == COMMAND:
        return f"the program {name.partition(' ')[0]}"
    return f"the Prefect Secret block {name}" if kind == SECRET_BLOCK else name


def _read_key(source: str, environ: Mapping[str, str]) -> str:
    kind, _, detail = source.partition(":")
    if kind == AWS:
        return aws_secret()
    if kind == COMMAND:
        return _printed_token(detail)
    key = (read_secret(detail) if kind == SECRET_BLOCK else environ.get(detail, "")).strip() or NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise EndpointUnavailable(f"{_source_name(source)} holds characters that a key can't have")
    return key


def _variable(name: str, environ: Mapping[str, str]) -> str:
    value = environ.get(name, "").strip()
    if not value:
        raise EndpointUnavailable(f"headers: found nothing in {name}, expected the value of a header")
    if not (value.isascii() and value.isprintable()):
        raise EndpointUnavailable(f"{name} holds characters that a header can't have")
    return value


def _printed_token(command: str) -> str:
    """Token that an allowed program prints, at most `TOKEN_AGE_S` old. Raises `EndpointUnavailable`."""
    with _TOKENS_LOCK:
        printed_at, token = _TOKENS.get(command, (float("-inf"), ""))
        if time.monotonic() - printed_at > TOKEN_AGE_S:
            token = _run_token_program(command)
            _TOKENS[command] = (time.monotonic(), token)
        return token


def _run_token_program(command: str) -> str:
    """Token that a program prints as one line; its errors are not shown, as they may hold a secret."""
    name = f"key: {_source_name(f'{COMMAND}:{command}')}"
    try:
        ended = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=TOKEN_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, IndexError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise EndpointUnavailable(f"{name} can't be run ({reason}); expected one that prints a token") from None
    except subprocess.TimeoutExpired:
        raise EndpointUnavailable(f"{name} printed no token within {TOKEN_TIMEOUT_S:.0f} s") from None
    if ended.returncode:
        raise EndpointUnavailable(f"{name} ended with status {ended.returncode}; run it by hand to see why")
    token = ended.stdout[: MOST_TOKEN_LENGTH + 1].decode("ascii", "replace").strip()
    if not token or len(token) > MOST_TOKEN_LENGTH or not token.isascii() or not token.isprintable():
        raise EndpointUnavailable(f"{name} printed no token; expected one line")
    return token
