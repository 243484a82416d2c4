"""A look at the endpoint before anything is spent."""

import os
import time
from collections.abc import Callable

import httpx2
import openai
from openai import OpenAI

from rubrics.errors import EndpointUnavailable, JudgeSettingsError
from tasks.judging.endpoint import read_key, refused_key
from tasks.judging.settings import JudgeSettings

PROBE_TRIES = 3
PROBE_WAIT_S = 0.3
PROBE_TIMEOUT_S = 2.0


def probe(settings: JudgeSettings) -> None:
    """Ask for the list of models, which costs nothing; any answer but a refused key will do.

    Raises `EndpointUnavailable` where nobody answers at the address after three quick tries, or the key is refused,
    `JudgeSettingsError` where the address holds no host name.
    """
    key = read_key(os.environ)
    try:
        with OpenAI(api_key=key, base_url=settings.base_url, max_retries=0, timeout=PROBE_TIMEOUT_S) as client:
            tries = (_is_answered(client.models.with_raw_response.list, settings, turn) for turn in range(PROBE_TRIES))
            if not any(tries):
                raise EndpointUnavailable(f"{settings.base_url}: no endpoint answers at this address")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise JudgeSettingsError(f"{settings.base_url}: found no host name ({error}), expected one") from error


def _is_answered(ask: Callable[[], object], settings: JudgeSettings, turn: int) -> bool:
    if turn:
        time.sleep(PROBE_WAIT_S)
    try:
        ask()
    except openai.APIStatusError as error:
        status = error.status_code
    except openai.APIConnectionError as error:
        # Slow is not absent: someone took the connection.
        return not isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)
    else:
        return True
    if status in (401, 403):
        raise refused_key(settings, status)
    return True
