"""A run's Parquet files, put where the tables' files are: linked or copied on a file system, uploaded to storage."""

import hashlib
import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gradebook.rubrics.errors import GradebookError
from gradebook.tasks.lake import Lake
from gradebook.tasks.object_store import BucketPlace, faults_told, open_store
from gradebook.tasks.workspace import RunFolder, created_at

CHUNK_BYTES = 8 * 2**20  # of an upload: storage takes parts of 5 MB or more


class RunFiles:
    """Files that a publication may add to tables, each put once however often its transaction is run again."""

    def __init__(self, lake: Lake, folder: RunFolder) -> None:
        self._lake = lake
        # Two machines may work at one run id: neither may write over what the other one published.
        begun = created_at(folder).isoformat().encode()
        self._name = f"{folder.run_id}-{hashlib.blake2b(begun, digest_size=4).hexdigest()}"
        self._places: dict[tuple[str, Path], str] = {}

    def put(self, table: str, file: Path, partition: str = "") -> str:
        """Put a file where the table's are and return its place, which no table names yet.

        Raises `LakeError` and `StorageUnavailable` as `faults_told` does.
        """
        if (table, file) not in self._places:
            folder = f"{table}/{partition}" if partition else table
            place = f"{self._lake.data_path}/main/{folder}/{self._name}-{file.name}"
            self._places[table, file] = place  # before it is there: half of it is to be removed, too
            if self._lake.bucket is None:
                _link(file, Path(place))
            else:
                _upload(file, place, self._lake.bucket)
        return self._places[table, file]

    def remove(self, added: Collection[str] = ()) -> None:
        """Take back what was put, except what tables hold now; what can't be removed is an orphan, which harms none."""
        for place in set(self._places.values()) - set(added):
            if self._lake.bucket is None:
                Path(place).unlink(missing_ok=True)
                continue
            with suppress(OSError, GradebookError):
                open_store().delete_file(place.removeprefix("s3://"))


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)  # of a transaction that did not go through
    try:
        os.link(file, place)
    except OSError:  # another file system
        shutil.copyfile(file, place)


def _upload(file: Path, place: str, bucket: BucketPlace) -> None:
    with (
        faults_told(bucket),
        file.open("rb") as source,
        open_store().open_output_stream(place.removeprefix("s3://")) as target,
    ):
        shutil.copyfileobj(source, target, CHUNK_BYTES)
