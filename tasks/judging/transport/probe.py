"""Probe of an endpoint before anything is spent."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

import httpx2
import openai
from openai import OpenAI

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError
from gradebook.tasks.judging.settings.judge import Address, JudgeSettings
from gradebook.tasks.judging.transport.endpoint import refused_certificate, refused_key
from gradebook.tasks.judging.transport.http_client import BoundedFileClient

PROBE_TRIES = 3
PROBE_WAIT_S = 0.3
PROBE_TIMEOUT_S = 2.0


def probe(settings: JudgeSettings, keys: Mapping[str, str]) -> None:
    """Request the list of models, which is free; any answer but a refused key will do.

    Raises `EndpointUnavailable` if every address of the judge fails: no answer after three quick attempts, or a refused
    key; `JudgeSettingsError` if an address has no host name. keys: as `read_keys` returns them.
    """
    faults: list[EndpointUnavailable] = []
    for address in settings.addresses:
        try:
            _probe(address, keys[address.key])
        except EndpointUnavailable as fault:
            faults.append(fault)
        else:
            return
    raise faults[0]


def _probe(address: Address, key: str) -> None:
    try:
        http_client = BoundedFileClient(timeout=PROBE_TIMEOUT_S)
        with OpenAI(api_key=key, base_url=address.base_url, max_retries=0, http_client=http_client) as client:
            # The body is not read: any will do, and it may be endless.
            ask = client.models.with_streaming_response.list
            tries = (_is_answered(ask, address, turn) for turn in range(PROBE_TRIES))
            if not any(tries):
                raise EndpointUnavailable(f"{address.base_url}: no endpoint answers at this address")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise _no_host(address, error) from error


def refuse_no_host(address: Address) -> None:
    """Raise `JudgeSettingsError` where an address holds no host name, as `probe` does; nobody is asked."""
    try:
        httpx2.URL(address.base_url).raw_host.decode("ascii").encode("idna")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise _no_host(address, error) from error


def _no_host(address: Address, error: Exception) -> JudgeSettingsError:
    return JudgeSettingsError(address.base_url, f"no host name ({error})", "one")


def _is_answered(ask: Callable[[], AbstractContextManager[object]], address: Address, turn: int) -> bool:
    if turn:
        time.sleep(PROBE_WAIT_S)
    try:
        with ask():
            return True
    except openai.APIStatusError as error:
        status = error.status_code
    except openai.APIConnectionError as error:
        fault = refused_certificate(address, error)
        if fault is not None:
            raise fault from None
        # Slow is not absent: the connection was accepted.
        return not isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout)
    if status in (401, 403):
        raise refused_key(address, status)
    return True
