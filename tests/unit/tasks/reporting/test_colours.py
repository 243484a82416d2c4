"""Colours for readers who confuse some: levels differ in lightness, verdicts in a mark as well."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gradebook.tasks.reporting.rendering import environment, styles, theme
from tests.support.law_over import law_over

# Machado, Oliveira and Fernandes (2009), table 1, severity 1.0: linear RGB as seen without one kind of cones.
SEEN = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
FILLED = 0.55  # of a cell with the score 1, as view.css has it


def rgb(colour: str) -> NDArray[np.float64]:
    return np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])


def lightness(colour: NDArray[np.float64], deficiency: str) -> float:
    """CIE lightness, 0 to 100, of a colour as seen with a deficiency."""
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    luminance = float(LUMINANCE @ np.clip(np.array(SEEN[deficiency]) @ linear, 0, 1))
    return 116 * float(np.cbrt(luminance)) - 16 if luminance > 0.008856 else 903.3 * luminance


@law_over("scheme", ["light", "dark"])
@law_over("deficiency", SEEN)
def test_cells_of_three_levels_differ_in_lightness(scheme: str, deficiency: str):
    colours = theme()[scheme]
    page, heat = rgb(colours["page"]), rgb(colours["heat"])
    cells = [lightness(page + (heat - page) * FILLED * score, deficiency) for score in (0.0, 0.5, 1.0)]
    steps = [after - before for before, after in pairwise(cells)]
    assert all(abs(step) > 8 and (step < 0) == (scheme == "light") for step in steps), cells


def test_a_verdict_has_a_mark_beside_its_colour():
    badge = environment().get_template("macros.html.j2").module.badge  # type: ignore[attr-defined]
    classes = [
        badge(word).partition("badge ")[2].partition('"')[0] for word in ("may ship", "may not ship", "undecided")
    ]
    marks = [styles().partition(f'.badge.{name}::before {{ content: "')[2][:1] for name in classes]
    assert marks == ["✓", "✕", "?"]
