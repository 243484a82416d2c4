"""A server that speaks S3, on loopback: moto's, in a process of its own, with one bucket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyarrow.fs import FileSelector, FileType, LocalFileSystem, S3FileSystem, copy_files

CANARY = "secret-canary-0123456789"
BUCKET = "evaluations"


@dataclass(frozen=True)
class Storage:
    """A running server: its process and its port."""

    process: subprocess.Popen[bytes]
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to reach it."""
        address = f"http://127.0.0.1:{self.port}"
        return {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": CANARY, "AWS_ENDPOINT_URL": address}

    @property
    def files(self) -> S3FileSystem:
        """Its buckets, by pyarrow."""
        return S3FileSystem(
            access_key="key",
            secret_key=CANARY,
            region="us-east-1",
            endpoint_override=f"127.0.0.1:{self.port}",
            scheme="http",
            allow_bucket_creation=True,
        )

    def names(self, prefix: str) -> list[str]:
        """The files below a prefix of the bucket."""
        selector = FileSelector(f"{BUCKET}/{prefix}", recursive=True, allow_not_found=True)
        found = self.files.get_file_info(selector)
        return sorted(file.path.removeprefix(f"{BUCKET}/{prefix}/") for file in found if file.type == FileType.File)

    def copy(self, prefix: str, folder: Path) -> None:
        """Copy all files below a prefix into a local folder, as a backup does."""
        folder.mkdir(parents=True, exist_ok=True)
        here = LocalFileSystem()
        copy_files(f"{BUCKET}/{prefix}", str(folder), source_filesystem=self.files, destination_filesystem=here)

    def put(self, folder: Path, prefix: str) -> None:
        """Copy a local folder below a prefix, as a restore does."""
        here = LocalFileSystem()
        copy_files(str(folder), f"{BUCKET}/{prefix}", source_filesystem=here, destination_filesystem=self.files)


@contextmanager
def running_storage(**more: str) -> Iterator[Storage]:
    """Start a server and make the bucket; stop it at the end. more: of its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | more, **quiet) as process:
        try:
            _wait_until_open(port)
            storage = Storage(process, port)
            storage.files.create_dir(BUCKET)
            yield storage
        finally:
            process.kill()


def _wait_until_open(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(f"no S3 server on port {port}")
