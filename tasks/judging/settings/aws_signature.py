"""Requests signed by AWS credentials (SigV4), for endpoints of Amazon Bedrock; needs the extra `bedrock`.

The credentials are those of botocore's own chain: variables, profiles, single sign-on, roles.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from gradebook.rubrics.model.errors import EndpointUnavailable, MissingKey

AWS = "aws"  # as a judge's `key`
_HOSTS = (".amazonaws.com", ".api.aws")
_MANTLE, _BEDROCK = "bedrock-mantle", "bedrock"  # services of a signature: of the OpenAI form, of all other endpoints
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_found: list[Any] = []  # credentials of this process, once they are found: they renew themselves
_LOCK = threading.Lock()


def is_of_aws(base_url: str) -> bool:
    """Whether an address is one of AWS, which may get its signatures."""
    url = urlsplit(base_url)
    return url.scheme == "https" and (url.hostname or "").endswith(_HOSTS)


def refuse_missing_botocore() -> None:
    """Raise `MissingKey` without the package that signs."""
    try:
        import botocore.auth  # noqa: F401
    except ImportError:
        raise MissingKey(
            "key: aws: found no package botocore, which signs requests; expected it: pip install '.[bedrock]' in "
            "gradebook's clone"
        ) from None


def aws_secret() -> str:
    """The secret that a signed request contains, to be masked in replies: the session token, else the key's id.

    May wait for the service that renews them. Raises `EndpointUnavailable`.
    """
    credentials = _credentials()
    return str(credentials.token or credentials.access_key)


def signed_headers(method: str, url: str, content: bytes, content_type: str = "application/json") -> Mapping[str, str]:
    """Headers that sign one request, and its Content-Type. Raises `EndpointUnavailable`."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    host = urlsplit(url).hostname or ""
    first, *rest = host.split(".")
    service = _BEDROCK if first.startswith("bedrock-runtime") else _MANTLE
    region = rest[0] if host.endswith(_HOSTS) else next(filter(None, map(os.environ.get, _REGIONS)), None)
    if region is None:
        raise EndpointUnavailable(f"key: aws: found no region for {host}, expected one in {' or '.join(_REGIONS)}")
    request = AWSRequest(method, url, headers={"Content-Type": content_type}, data=content)
    SigV4Auth(_credentials(), service, region).add_auth(request)
    return dict(request.headers.items())


def _credentials() -> Any:
    """Credentials as they are now, renewed where they have to be. Raises `EndpointUnavailable`."""
    refuse_missing_botocore()
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import get_session

    with _LOCK:
        try:
            credentials = _found[0] if _found else get_session().get_credentials()
            frozen = None if credentials is None else credentials.get_frozen_credentials()  # renews them
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "no code")
            raise _unusable(f"{error.operation_name} was refused: {code}") from None
        except OSError as error:
            raise _unusable(f"{error.filename}: {error.strerror}") from None
        except BotoCoreError as error:
            raise _unusable(str(error)) from None
        if credentials is None:
            raise MissingKey(
                "key: aws: found no AWS credentials, expected those of botocore's chain, such as AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or a role"
            )
        _found[:] = [credentials]
        return frozen


def _unusable(cause: str) -> EndpointUnavailable:
    return EndpointUnavailable(
        f"key: aws: the credentials can't be read or renewed ({cause}); expected those with which "
        "`aws sts get-caller-identity` succeeds"
    )
