"""Pictures and sounds that cases name: read from the dataset's folders, and from nowhere else."""

from dataclasses import replace
from pathlib import Path

from gradebook.rubrics.judging.media import read_media, too_large
from gradebook.rubrics.judging.media_kinds import UnreadableMedia
from gradebook.rubrics.judging.prompt import Case
from gradebook.tasks.scoring.audio import Unfetched, find_file


class MediaFiles:
    """The folders of a dataset, in which the pictures and sounds of its cases lie."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._roots = [folder.resolve() for folder in folders]

    def show(self, case: Case) -> Case:
        """The case as a judge is shown it: placeholders in its texts, and its pictures and sounds beside them.

        case: with the texts that are stored. All are read, checked and let go. Where one can't be shown, none is, and
        `media_fault` says why.
        """
        shown = read_media(case.prompt, case.output, self.read)
        if not (shown.media or shown.fault):
            return case
        return replace(case, prompt=shown.prompt, output=shown.output, media=shown.media, media_fault=shown.fault)

    def read(self, name: str, most_bytes: int) -> bytes:
        """The bytes of a file by its name. Raises `UnreadableMedia` where there is none, or more than so many."""
        try:
            with find_file(name, self._roots).open("rb") as file:
                content = file.read(most_bytes + 1)
        except Unfetched as fault:
            raise UnreadableMedia(str(fault)) from None
        except OSError as error:
            raise UnreadableMedia(f"can't be read: {error.strerror or type(error).__name__}") from None
        if len(content) > most_bytes:
            raise UnreadableMedia(too_large(most_bytes))
        return content
