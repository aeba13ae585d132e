"""The themes of the gallery and their scripts, in the order in which the subject unfolds."""

from __future__ import annotations

from pathlib import Path

from sphinx.errors import SphinxError

THEMES = {
    "linear": (
        "003_a_unit_vector",
        "003_from_r3_to_r2",
        "003_three_degrees_of_freedom",
        "003_digits_eigen_images",
        "000_compression",
        "000_how_to_pick_r",
        "000_pca_svd_mds",
        "000_fig_1_centring_normalising_whitening",
    ),
    "kernels": (
        "000_fig_2_pca_on_the_spiral",
        "000_fig_3_kernels_side_by_side",
        "003_kernel_width_2_and_10",
    ),
    "probabilistic": (
        "000_table_1_heuristic_and_probabilistic",
        "001_the_generative_model",
        "001_variance_along_and_across",
        "002_fig_1_factor_analysis",
        "002_stationary_points",
        "003_the_em_algorithm",
        "002_closed_form_against_em",
        "004_as_sigma_vanishes",
        "003_learned_k_and_noise",
        "002_comparing_densities",
        "002_mixtures",
        "002_classes",
        "002_novelty",
    ),
    "missing": ("002_fig_4_full_pca_and_missing_ppca", "002_fig_5_imputation_error"),
    "images": ("003_denoising", "003_eighty_per_cent_missing"),
    "manifolds": ("000_swiss_roll_by_every_method",),
    "independent": ("004_unmixing",),
}


def subsection(folder: str) -> int:
    return list(THEMES).index(Path(folder).name)


class Example:
    """Where a script stands within its theme."""

    def __init__(self, folder: str) -> None:
        self._scripts = THEMES.get(Path(folder).name)  # None: sphinx-gallery's own first look

    def __call__(self, filename: str) -> int:
        if self._scripts is None:
            return 0
        name = filename.removeprefix("plot_").removesuffix(".py")
        if name not in self._scripts:
            raise SphinxError(f"{filename} has no place in docs/_extensions/gallery_order.py")
        return self._scripts.index(name)
