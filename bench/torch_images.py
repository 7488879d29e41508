"""Makes JPEGs of seeded shapes and grain, each another: `torch_images.py FOLDER COUNT`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

SIZE = (500, 375)
"""The most frequent in ImageNet (Russakovsky et al. 2015)."""
QUALITY = 95


def scene(number: int) -> Image.Image:
    """Shapes out of focus, with grain: as large a JPEG as a photograph of its size."""
    rng = random.Random(number)
    image = Image.linear_gradient("L").resize(SIZE).convert("RGB")
    draw = ImageDraw.Draw(image)
    for _ in range(40):
        x, y = rng.randrange(SIZE[0]), rng.randrange(SIZE[1])
        extent = rng.randrange(5, 80)
        colour = tuple(rng.randrange(256) for _ in range(3))
        draw.ellipse((x, y, x + extent, y + rng.randrange(5, 80)), fill=colour)
    grain = Image.frombytes("L", SIZE, rng.randbytes(SIZE[0] * SIZE[1])).convert("RGB")
    return Image.blend(image.filter(ImageFilter.GaussianBlur(1)), grain, 0.12)


def main() -> None:
    """Makes them."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir()
    for number in range(count):
        scene(number).save(folder / f"{number:06}.jpg", quality=QUALITY)


if __name__ == "__main__":
    main()
