"""Secrets of the environment, removed from reports of unexpected errors."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

MASK = "[secret]"
SHORTEST_SECRET = 8  # characters: shorter values occur in ordinary words by chance
_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL", re.IGNORECASE)
_OURS = "GRADEBOOK_ALLOW_"  # variables with names of keys, not keys


def without_secret_values(text: str, environ: Mapping[str, str]) -> str:
    """Text without the values of variables that are secret by name, and without the passwords of addresses."""
    for secret in sorted(set(_secrets(environ)), key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def _secrets(environ: Mapping[str, str]) -> Iterator[str]:
    for name, value in environ.items():
        candidates = [value.strip()] if _NAME.search(name) and not name.startswith(_OURS) else []
        if "://" in value:
            try:
                candidates.append(urlsplit(value).password or "")
            except ValueError:  # no address
                continue
        yield from (secret for secret in candidates if len(secret) >= SHORTEST_SECRET)


def without_password(address: str) -> str:
    """Address without user name, password and query."""
    url = urlsplit(address)
    return url._replace(netloc=url.netloc.rpartition("@")[2], query="").geturl()
