"""Images of a prompt or an answer, embedded in the page: it loads nothing from elsewhere."""

from dataclasses import dataclass
from pathlib import Path

from gradebook.rubrics.model.errors import OutputsError
from gradebook.rubrics.prompts.media_kinds import UnreadableMedia
from gradebook.rubrics.prompts.media_parts import Medium, Place
from gradebook.rubrics.prompts.prompt import Case
from gradebook.tasks.datasets.discovery import dataset_files, dataset_folders

MOST_PICTURE_CHARACTERS = 700_000  # of an image as base64 text: 500 kB
MOST_PAGE_CHARACTERS = 4_000_000  # of all images of a page
MOST_PICTURES = 8  # of a prompt or an answer


@dataclass(frozen=True, slots=True)
class Picture:
    """Image with its placeholder in the text. address: a `data:` address; None: `reason` says why it is not shown."""

    placeholder: str
    address: str | None
    reason: str = ""


class PicturesLeft:
    """Room for images on a page."""

    def __init__(self) -> None:
        self._left = MOST_PAGE_CHARACTERS

    def pictures(self, case: Case, place: Place) -> tuple[Picture, ...]:
        """Images in the prompt or the output of a case, or the reason why there is none to show."""
        if case.media_fault is not None:
            return (Picture("", None, case.media_fault),) if place == "prompt" else ()
        images = [medium for medium in case.media if medium.kind == "image" and medium.place == place]
        return tuple(map(self._picture, images[:MOST_PICTURES]))

    def _picture(self, medium: Medium) -> Picture:
        if medium.address is not None:
            return Picture(medium.placeholder, None, f"{medium.address} (not loaded)")
        try:
            address: str = medium.parts[1]["image_url"]["url"]
        except UnreadableMedia as fault:
            return Picture(medium.placeholder, None, str(fault))
        if len(address) > min(MOST_PICTURE_CHARACTERS, self._left):
            return Picture(medium.placeholder, None, f"{medium.name} (too large for this page)")
        self._left -= len(address)
        return Picture(medium.placeholder, address)


def folders_of(dataset: str | None) -> tuple[Path, ...]:
    """Folders of a dataset's files, where its images lie; none if the files no longer exist."""
    try:
        return dataset_folders(dataset_files(dataset or ""))
    except OutputsError:
        return ()
