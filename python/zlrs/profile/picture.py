"""The heat map as a PNG, drawn with Pillow: an extra (`zlrs[png]`), for nothing else needs it."""

from __future__ import annotations

import importlib.util
import io
from typing import TYPE_CHECKING

from zlrs.errors import ConfigurationError
from zlrs.profile.heatmap import PANELS, grid, shade

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

    from zlrs.profile.heatmap import Grid
    from zlrs.profile.survey import Profile

CELL_WIDTH, CELL_HEIGHT = 26, 14
MARGIN, TITLE, HEADING = 56, 18, 64
LOW, HIGH = (240, 245, 250), (24, 74, 133)
"""Colours of the least and the largest value."""
INK = (28, 28, 28)
MISSING = (255, 255, 255)
SCALE_STEPS = 40
SHORT = {"attention": "att", "layer": "lay", "mlp": "mlp"}


def png(profile: Profile) -> bytes:
    """One picture: a row of panels a domain, layers downwards.

    Raises:
        ConfigurationError: Pillow is not installed.
    """
    require_pillow()
    from PIL import Image, ImageDraw

    rows = [
        [panel for panel in (grid(profile, domain, *kind) for kind in PANELS) if panel.columns]
        for domain in profile.tokens
    ]
    widths = [sum(MARGIN + CELL_WIDTH * len(panel.columns) + MARGIN for panel in row) for row in rows]
    height = TITLE * 2 + HEADING + CELL_HEIGHT * profile.layers + TITLE
    image = Image.new("RGB", (max([*widths, 400]), TITLE * 2 + height * len(rows)), MISSING)
    draw = ImageDraw.Draw(image)
    never = f"{len(profile.never_contribute)} of {len(profile.parts)} parts never contributed"
    tokens = sum(profile.tokens.values())
    draw.text((8, 6), f"{profile.model}: {tokens} tokens, {sum(profile.rows.values())} rows; {never}", INK)
    for index, (domain, row) in enumerate(zip(profile.tokens, rows, strict=True)):
        top, left = TITLE * 2 + height * index, 0
        draw.text((8, top), f"{domain} ({profile.rows[domain]} rows)", INK)
        for panel in row:
            _panel(draw, panel, profile.layers, (left + MARGIN, top + TITLE))
            left += 2 * MARGIN + CELL_WIDTH * len(panel.columns)
    data = io.BytesIO()
    image.save(data, "PNG", optimize=True)
    return data.getvalue()


def require_pillow() -> None:
    """Fail early where there is no Pillow.

    Raises:
        ConfigurationError: It is not installed.
    """
    if importlib.util.find_spec("PIL") is None:
        raise ConfigurationError(
            "a PNG needs Pillow, which is not installed", suggestion='Install it: pip install "zlrs[png]"'
        )


def _panel(draw: ImageDraw, panel: Grid, layers: int, corner: tuple[int, int]) -> None:
    left, top = corner
    values = panel.values()
    draw.text((left, top), panel.title, INK)
    low, high = (f"{value:.2g}" for value in (min(values, default=0), max(values, default=0)))
    draw.text((left, top + TITLE), f"{low}", INK)
    scale = left + 8 * len(low) + 6
    for step in range(SCALE_STEPS):
        draw.rectangle(
            (scale + 2 * step, top + TITLE + 2, scale + 2 * step + 1, top + TITLE + 10),
            fill=_colour(step / (SCALE_STEPS - 1)),
        )
    draw.text((scale + 2 * SCALE_STEPS + 6, top + TITLE), f"{high}", INK)
    body = top + HEADING
    for place, (kind, number) in enumerate(panel.columns):
        name = SHORT.get(kind, f"{kind[:1]}{number}")
        draw.text((left + place * CELL_WIDTH + 3, body - 14), name, INK)
    for layer in range(layers):
        if layer % 2 == 0:
            draw.text((left - 22, body + layer * CELL_HEIGHT), str(layer), INK)
        for place, (kind, number) in enumerate(panel.columns):
            value = panel.cells.get((layer, kind, number))
            x, y = left + place * CELL_WIDTH, body + layer * CELL_HEIGHT
            colour = MISSING if value is None else _colour(shade(value, values))
            draw.rectangle((x, y, x + CELL_WIDTH - 2, y + CELL_HEIGHT - 2), fill=colour)


def _colour(share: float) -> tuple[int, int, int]:
    red, green, blue = (round(low + (high - low) * share) for low, high in zip(LOW, HIGH, strict=True))
    return red, green, blue
