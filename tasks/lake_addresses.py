"""Connection strings of a PostgreSQL catalog: a password in one is refused."""

import re
from urllib.parse import unquote

from gradebook.rubrics.errors import LakeError

# libpq's keywords, as KEY=VALUE or in a URL's query, and the user's part of a URL; a `dbname` may be a URL too.
_SETTING = re.compile(r"(?:^|[\s?&'])(?:ssl)?password\s*=", re.IGNORECASE)
_USER_PART = re.compile(r"//[^@?]*?:[^@?]+@")


def connection_string(address: str) -> str:
    """What libpq is given for the address of a lake: it knows postgresql://USER@HOST/DATABASE, and dbname=... host=...

    Raises `LakeError` where it holds a password: Prefect keeps the parameters of a flow run, a shell its history, and
    the system shows the words of a command to everybody.
    """
    if _SETTING.search(unquote(address)) or _USER_PART.search(address):
        raise LakeError(
            "--lake: found a password in the connection string, expected none, for Prefect keeps it with the flow run; "
            "PostgreSQL takes it from PGPASSWORD or ~/.pgpass"
        )
    return f"postgresql:{address}" if address.startswith("//") else address
