"""Every figure twice: dark ink for light pages, light ink for dark ones.

The gallery's scripts draw with the ink of `STYLE`; for the dark page whatever has that ink is
given the other one, and the figure is saved again. Data keep their colours, which are those of
Okabe and Ito and can be told apart by colour-blind eyes on both grounds.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.colors import ListedColormap, to_hex
from matplotlib.figure import Figure

INK = {"light": "#24292f", "dark": "#e6e9ed"}
GROUND = {"light": "#ffffff", "dark": "#14181e"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
STYLE = {
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    "figure.figsize": (7.5, 3.6),
    "figure.facecolor": GROUND["light"],
    "savefig.facecolor": "auto",
    "savefig.dpi": 150,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.facecolor": "none",
    "axes.edgecolor": INK["light"],
    "axes.labelcolor": INK["light"],
    "axes.titlecolor": INK["light"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
    "text.color": INK["light"],
    "xtick.color": INK["light"],
    "ytick.color": INK["light"],
    "grid.color": "#8a9099",
    "grid.alpha": 0.35,
    "axes3d.xaxis.panecolor": (0.5, 0.5, 0.5, 0.06),
    "axes3d.yaxis.panecolor": (0.5, 0.5, 0.5, 0.06),
    "axes3d.zaxis.panecolor": (0.5, 0.5, 0.5, 0.06),
    "legend.frameon": False,
    "image.cmap": "viridis, legible",
    "lines.linewidth": 1.6,
    "scatter.edgecolors": "none",
}

# Without its ends, of which one is lost on dark ground and the other on white.
mpl.colormaps.register(
    ListedColormap(mpl.colormaps["viridis"](np.linspace(0.2, 0.92, 256)), name="viridis, legible"),
    force=True,
)


def reset(gallery_conf: dict[str, Any], name: str) -> None:
    """Before every script: our style, no open figures."""
    warnings.filterwarnings("error", category=UserWarning)  # a page does not show code that warns
    plt.close("all")
    mpl.rcdefaults()
    mpl.use("agg")
    mpl.rcParams.update(STYLE)


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save every open figure in both inks; return the reStructuredText that shows them."""
    pages = []
    for number, path in zip(plt.get_fignums(), block_vars["image_path_iterator"], strict=False):
        figure = plt.figure(number)
        light = Path(path)
        dark = light.with_name(f"{light.stem}_dark{light.suffix}")
        figure.savefig(light)
        _recolour(figure)
        figure.savefig(dark)
        pages.append(_shown(light, dark, gallery_conf, _words(figure)))
    plt.close("all")
    return "\n".join(pages)


def _shown(light: Path, dark: Path, gallery_conf: dict[str, Any], words: str) -> str:
    source = Path(gallery_conf["src_dir"])
    return "".join(
        f"\n.. image:: /{path.relative_to(source).as_posix()}\n"
        f"   :alt: {words}\n   :class: {kind}, sphx-glr-single-img\n"
        for path, kind in ((light, "only-light"), (dark, "only-dark"))
    )


def _words(figure: Figure) -> str:
    """The titles of a figure, for those who cannot see it."""
    titles = [figure.get_suptitle(), *(axes.get_title("left") for axes in figure.axes)]
    return re.sub(r"\s+", " ", "; ".join(title for title in titles if title)).replace("$", "")


def _recolour(figure: Figure) -> None:
    swap = {shades["light"]: shades["dark"] for shades in (INK, GROUND)}
    for artist in figure.findobj(Artist):
        for part in ("color", "edgecolor", "facecolor"):
            _swap_one(artist, part, swap)
    for axes in figure.axes:
        axes.tick_params(colors=INK["dark"], which="both")


def _swap_one(artist: Artist, part: str, swap: dict[str, str]) -> None:
    get, put = getattr(artist, f"get_{part}", None), getattr(artist, f"set_{part}", None)
    if get is None or put is None:
        return
    try:
        now = to_hex(get())
    except (TypeError, ValueError):  # a collection with many colours: those are data
        colours = get()
        if getattr(colours, "shape", None) != (1, 4):
            return
        now = to_hex(colours[0])
    if now in swap:
        put(swap[now])
