"""Probe of an endpoint before anything is spent."""

import os
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import orjson

from gradebook.rubrics.model.errors import EndpointUnavailable, JudgeSettingsError, MissingKey
from gradebook.tasks.judging.replies.completion import WRONG_KEY
from gradebook.tasks.judging.settings.judge import Judge, JudgeSettings, PlainJudge
from gradebook.tasks.judging.settings.keys import NO_KEY, missing_key_sentence, read_keys
from gradebook.tasks.judging.settings.model import Address
from gradebook.tasks.judging.settings.providers import address_variables_hint
from gradebook.tasks.judging.transport.connection import refused_certificate, refused_key
from gradebook.tasks.judging.transport.endpoint import endpoint_of
from gradebook.tasks.judging.transport.redaction import KeyMask

API_PATH = "/v1"
PROBE_TRIES = 3
PROBE_WAIT_S = 0.3
PROBE_TIMEOUT_S = 2.0
MOST_NAME_LENGTH = 200  # characters of a served model's name


def probe(settings: JudgeSettings, keys: Sequence[str]) -> None:
    """Request the list of models, which is free; any answer but a refused key or a wrong path will do.

    Raises `EndpointUnavailable` if every address of the judge fails: no answer after three quick attempts, a missing
    (`MissingKey`) or refused key, or a list of models that is only found below `/v1`; `JudgeSettingsError` if an
    address has no host name. keys: as `read_keys` returns them.
    """
    faults: list[EndpointUnavailable] = []
    for address, key in zip(settings.addresses, keys, strict=True):
        try:
            _probe(address, key)
        except EndpointUnavailable as fault:
            faults.append(fault)
        else:
            return
    raise faults[0]


def _probe(address: Address, key: str) -> None:
    import httpx2

    if key == NO_KEY and (missing_key := missing_key_sentence(address, os.environ)):
        raise MissingKey(f"{address.base_url}: {missing_key}")
    try:
        answers = (_status_after_wait(address, key, try_index) for try_index in range(PROBE_TRIES))
        status = next((status for status in answers if status is not None), None)
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise _no_host(address, error) from error
    if status is None:
        more = address_variables_hint(address.base_url, os.environ)
        raise EndpointUnavailable(f"{address.base_url}: no endpoint answers at this address{more}")
    with_version = address.base_url + API_PATH
    is_wrong = status == HTTPStatus.NOT_FOUND and not address.base_url.endswith(API_PATH)
    if is_wrong and _has_list(address.model_copy(update={"base_url": with_version}), key):
        raise EndpointUnavailable(
            f"{address.base_url} answered HTTP 404, and {with_version} has a list of models; expected "
            f"`base_url: {with_version}`"
        )


def _has_list(address: Address, key: str) -> bool:
    try:
        return _status(address, key) == HTTPStatus.OK
    except EndpointUnavailable:  # for another key
        return True


def refuse_no_host(address: Address) -> None:
    """Raise `JudgeSettingsError` where an address holds no host name, as `probe` does; no request is sent."""
    import httpx2

    try:
        httpx2.URL(address.base_url).raw_host.decode("ascii").encode("idna")
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise _no_host(address, error) from error


def _no_host(address: Address, error: Exception) -> JudgeSettingsError:
    return JudgeSettingsError(address.base_url, f"no host name ({error})", "one")


def list_models(address: Address, key: str) -> list[dict[str, Any]]:
    """Models that an endpoint lists, as it describes them. Raises `EndpointUnavailable` if it lists none."""
    import httpx2

    from gradebook.tasks.judging.transport.http_client import BoundedFileClient

    try:
        with BoundedFileClient(address, key, timeout=PROBE_TIMEOUT_S) as client:
            models = orjson.loads(client.get(address.base_url + endpoint_of(address).probe_path).content)["data"]
            return [entry for entry in models if isinstance(entry, dict)]
    except (httpx2.HTTPError, orjson.JSONDecodeError, LookupError, TypeError):
        raise EndpointUnavailable(f"{address.base_url}: no list of models") from None


def with_served_names(judge: Judge) -> Judge:
    """Judge whose models without a name, as of `systemone:URL`, bear the name that their server lists.

    A server that lists none, or several, is asked by its host's name.
    """
    return judge.with_members([*map(_named, judge.members)]) if any(map(_is_unnamed, judge.members)) else judge


def _is_unnamed(member: PlainJudge) -> bool:
    return member.as_model is not None and member.as_model.is_unnamed


def _named(member: PlainJudge) -> PlainJudge:
    settings = member.as_model
    if settings is None or not settings.is_unnamed:
        return member
    try:
        key = read_keys(settings, os.environ)[0]
        names = [entry.get("id") for entry in list_models(settings, key)]
    except (EndpointUnavailable, JudgeSettingsError):  # said where the run asks
        return member
    name = names[0] if len(names) == 1 else None
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MOST_NAME_LENGTH
        or KeyMask.of(settings, key).text(name) != name
    ):
        return member
    return settings.model_copy(update={"model": name})


def _status_after_wait(address: Address, key: str, try_index: int) -> int | None:
    """HTTP status of one attempt, after a wait; None without an answer. Raises `EndpointUnavailable` for a key."""
    if try_index:
        time.sleep(PROBE_WAIT_S)
    return _status(address, key)


def _status(address: Address, key: str) -> int | None:
    """HTTP status of the list of models, 0 for a slow answer; None without an answer."""
    import httpx2

    from gradebook.tasks.judging.transport.http_client import BoundedFileClient

    client = BoundedFileClient(address, key, timeout=PROBE_TIMEOUT_S)
    try:
        # The body of a list is not read: any will do, and it may be endless.
        with client, client.stream("GET", address.base_url + endpoint_of(address).probe_path) as response:
            status = response.status_code
            if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST):
                error = endpoint_of(address).read_error(response.content)
                if status != HTTPStatus.BAD_REQUEST or error.code == WRONG_KEY:
                    raise refused_key(address, KeyMask.of(address, key).status_text(status, error.body))
            return status
    except httpx2.HTTPError as error:
        fault = refused_certificate(address, error)
        if fault is not None:
            raise fault from None
        # Slow is not absent: the connection was accepted.
        return None if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout) else 0
