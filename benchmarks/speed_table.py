"""Tables of speeds, twelve rows in the README and all in the docs, and a picture of them.

python -m benchmarks.speed_table    # writes them; `make bench` ends with it
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "results.json"
PICTURE = ROOT / "docs" / "images" / "speed.svg"
README, PAGE = ROOT / "README.md", ROOT / "docs" / "project" / "speed.md"
BEGIN, END = "<!-- speeds: made by benchmarks.speed_table -->", "<!-- end of speeds -->"


@dataclass(frozen=True)
class Chosen:
    """A row of the results, and how the tables call it."""

    section: str
    case: str
    measure: str
    peer: str
    words: str
    short: str  # in the picture
    lead: str = ""  # in the README


DEFAULT = "(default, nothing compiled)"
COMPILED = "(EIGENGAP_COMPILED=always)"
BEST = "time to the likelihood of its best start"
ICA = "fit to gradient 1e-06"
BIG = "2000000 x 500, 8 GB"
CSV = "100000 x 50 CSV (34 MB), 10 % of the cells missing"

CHOSEN = (
    Chosen(
        "missing_ppca",
        f"10000 x 100, q 10, 20% missing {DEFAULT}",
        "time to 0.001 nats/row",
        "ppca_rs",
        "PPCA, 10 000 × 100, q 10, 20 % missing, to 1e-3 nats/row of the best",
        "PPCA, 20 % missing, 10 000 × 100",
        "PPCA, 10 000 × 100, 20 % missing",
    ),
    Chosen(
        "missing_ppca",
        f"10000 x 100, q 10, 20% missing {COMPILED}",
        "time to 0.001 nats/row",
        "ppca_rs",
        "the same, kernels compiled before",
        "",
    ),
    Chosen(
        "missing_ppca",
        f"2000 x 1000, q 20, 30% missing {DEFAULT}",
        "time to 0.001 nats/row",
        "ppca_rs",
        "PPCA, 2 000 × 1 000, q 20, 30 % missing, likewise",
        "PPCA, 30 % missing, 2 000 × 1 000",
    ),
    Chosen(
        "missing_ppca",
        "digits 1797 x 61, q 10, 30% missing (EIGENGAP_COMPILED=always, n_init=6)",
        "time to 0.001 nats/row",
        "ppca_rs",
        "PPCA, digits 1 797 × 61, q 10, 30 % missing, likewise, `n_init=6`",
        "",
    ),
    Chosen(
        "missing_ppca",
        "2000 x 1000, q 20, 30% missing",
        "whole fit",
        "pcaMethods ppca, threshold 1e-5",
        "PPCA, 2 000 × 1 000, the whole fit; the peer ends 11 nats/row short",
        "",
    ),
    Chosen(
        "missing_ppca",
        "digits 1797 x 61, q 10, 30% missing",
        "whole fit",
        "pyppca",
        "PPCA, digits, the whole fit; the peer ends 0.07 nats/row short",
        "",
    ),
    Chosen(
        "factor",
        "50000 x 50, q 10",
        "to equal likelihood (1e-06 nats/row)",
        "scikit-learn, the fastest below",
        "factor analysis, 50 000 × 50, q 10, equal likelihood",
        "factor analysis, 50 000 × 50",
        "factor analysis, 50 000 × 50",
    ),
    Chosen(
        "factor",
        "10000 x 100, q 10",
        "to equal likelihood (1e-06 nats/row)",
        "scikit-learn, the fastest below",
        "factor analysis, 10 000 × 100, q 10, equal likelihood",
        "factor analysis, 10 000 × 100",
    ),
    Chosen(
        "mixture",
        "2000 x 100, K 5, q 5, 20% missing",
        BEST,
        "ppca_rs PPCAMix",
        "mixture of PPCA, 2 000 × 100, K 5, q 5, 20 % missing, to its peer's best of 3 starts",
        "mixture, 2 000 × 100",
        "mixture of PPCA, 2 000 × 100, 20 % missing",
    ),
    Chosen(
        "mixture",
        "5000 x 30, K 3, q 4, 20% missing",
        BEST,
        "ppca_rs PPCAMix",
        "mixture of PPCA, 5 000 × 30, K 3, q 4, 20 % missing, likewise",
        "",
    ),
    Chosen(
        "mixture",
        "digits 1797 x 61, K 10, q 5, 20% missing",
        BEST,
        "ppca_rs PPCAMix",
        "mixture of PPCA, digits, K 10, q 5, 20 % missing, likewise",
        "mixture, digits",
    ),
    Chosen(
        "bayesian",
        "1000 x 20, q 5, 20% missing",
        "fit and fill",
        "bpca",
        "Bayesian PCA, 1 000 × 20, 20 % missing, no larger error of held-out values",
        "Bayesian PCA, 1 000 × 20",
        "Bayesian PCA, 1 000 × 20, 20 % missing",
    ),
    Chosen(
        "bayesian",
        "WDBC 569 x 30, q 29, 10% missing",
        "fit and fill",
        "bpca",
        "Bayesian PCA, WDBC 569 × 30, 10 % missing, smaller error",
        "Bayesian PCA, WDBC",
    ),
    Chosen(
        "bayesian",
        "50 x 20, q 5, 10% missing",
        "fit and fill",
        "bpca",
        "Bayesian PCA, 50 × 20, 10 % missing, smaller error",
        "",
    ),
    Chosen(
        "ica",
        "super, 100000 x 50",
        ICA,
        "FastICA",
        "ICA, 100 000 × 50, super-Gaussian, to a gradient of 1e-6",
        "ICA, 100 000 × 50",
        "ICA, 100 000 × 50",
    ),
    Chosen("ica", "super, 100000 x 50", ICA, "Picard", "the same", ""),
    Chosen(
        "ica",
        "flower colour patches, 29892 x 108, q 50",
        ICA,
        "FastICA",
        "ICA, colour patches 29 892 × 108, q 50; the peer stops at a gradient of 4e-3",
        "",
    ),
    Chosen(
        "mds",
        "5000 x 5000 euclidean distances",
        "fit",
        "scikit-learn",
        "classical scaling, 5 000 × 5 000 distances, the same coordinates",
        "classical scaling, 5 000",
        "classical scaling, 5 000 points",
    ),
    Chosen(
        "kernel_pca",
        "all pairs, 10000 x 20, q 10, rbf",
        "fit",
        "scikit-learn auto (dense)",
        "kernel PCA, 10 000 × 20, q 10, rbf, equal eigenvalues",
        "",
    ),
    Chosen(
        "kernel_pca",
        "all pairs, 10000 x 20, q 10, rbf",
        "fit, eigenvalues to 1e-08",
        "scikit-learn, its best solver",
        "kernel PCA, 10 000 × 20, q 10, rbf, next to the best solver",
        "kernel PCA, 10 000 × 20",
        "kernel PCA, 10 000 × 20",
    ),
    Chosen(
        "kernel_pca",
        "500 landmarks, 1000000 x 20, q 10, rbf",
        "fit and scores",
        "scikit-learn Nystroem, then PCA",
        "kernel PCA, 1 000 000 × 20, 500 landmarks",
        "kernel PCA, a million rows",
    ),
    Chosen(
        "isomap",
        "swiss roll, 10000 x 3, 10 neighbours",
        "fit, all pairs",
        "scikit-learn",
        "Isomap, 10 000 × 3, equal geodesics",
        "Isomap, 10 000 × 3",
        "Isomap, 10 000 × 3",
    ),
    Chosen(
        "isomap",
        "swiss roll, 10000 x 3, 10 neighbours",
        "fit, 100 landmarks",
        "scikit-learn",
        "Isomap, the same, 100 landmarks, residual variance 0.0003 against 0.0002",
        "",
    ),
    Chosen(
        "laplacian",
        "swiss roll, 50000 rows, 10 neighbours, q 2",
        "embedding of a given graph",
        "scikit-learn arpack",
        "Laplacian eigenmaps, 50 000 nodes of a roll, equal eigenvectors",
        "",
    ),
    Chosen(
        "laplacian",
        "digits, 50000 rows, 10 neighbours, q 2",
        "embedding of a given graph",
        "scikit-learn arpack",
        "Laplacian eigenmaps, 50 000 digits, equal eigenvectors",
        "Laplacian eigenmaps, digits",
        "Laplacian eigenmaps, 50 000 digits",
    ),
    Chosen(
        "laplacian",
        "digits, 50000 rows, 10 neighbours, q 2",
        "embedding of a given graph",
        "scikit-learn lobpcg",
        "the same; the peer's eigenvectors are 8 to 18° off",
        "",
    ),
    Chosen(
        "unfolding",
        "unfolding the roll, equal, ours n = 1000, theirs n = 200",
        "fit",
        "cvxpy + SCS",
        "maximum variance unfolding, n = 1 000; the peer at n = 200",
        "unfolding",
    ),
    Chosen(
        "gplvm",
        "oil flow 1000 x 12, seed 0, q 5, 30 inducing points",
        "to the same bound",
        "GPy",
        "Bayesian GPLVM, 1 000 × 12, q 5, to GPy's bound, compiling included",
        "Bayesian GPLVM",
    ),
    Chosen(
        "embedding_quality",
        "trustworthiness, 10000 x 3 to 2, 5 neighbours",
        "time",
        "scikit-learn",
        "trustworthiness, 10 000 × 3, equal values",
        "trustworthiness, 10 000",
    ),
    Chosen(
        "out_of_core",
        BIG,
        "PCA from npy",
        "IncrementalPCA",
        "PCA, 2 000 000 × 500 from a file, under 1 GB of memory; the peer is not exact",
        "PCA of 8 GB under 1 GB",
        "PCA, 2 000 000 × 500 from a file",
    ),
    Chosen(
        "streaming",
        "tall: 40000 x 200, batches of 1000, q 10",
        "a model at the end",
        "IncrementalPCA",
        "PCA of a stream, 40 000 × 200 in batches of 1 000",
        "PCA of a stream",
    ),
    Chosen(
        "streaming",
        "5000 x 100, rows one by one",
        "seconds a row",
        "IncrementalPCA",
        "PCA of a stream, row by row, a model after each",
        "",
    ),
    Chosen(
        "command_line",
        CSV,
        "filled, end to end",
        "R pcaMethods",
        "`eigengap impute -m ppca` of a CSV file, 100 000 × 50, 10 % missing, "
        "whole process, equal error",
        "a CSV file imputed, 100 000 × 50",
        "`eigengap impute -m ppca`, CSV, 100 000 × 50",
    ),
    Chosen(
        "command_line",
        CSV,
        "filled, end to end",
        "pandas and IterativeImputer",
        "the same; the peer's error is 3 % smaller",
        "",
    ),
    Chosen(
        "pca",
        "500 x 20000 f8, 20 components, decaying spectrum",
        "fit",
        "scikit-learn arpack",
        "PCA, 500 × 20 000, q 20, equal accuracy",
        "PCA, 500 × 20 000",
    ),
    Chosen(
        "pca",
        "3000 x 3000 f8, 20 components, decaying spectrum",
        "fit",
        "scikit-learn arpack",
        "PCA, 3 000 × 3 000, q 20, equal accuracy",
        "PCA, 3 000 × 3 000",
    ),
    Chosen(
        "pca",
        "100000 x 50 f8, 10 components, decaying spectrum",
        "fit",
        "scikit-learn auto",
        "PCA, 100 000 × 50, q 10",
        "PCA, 100 000 × 50",
        "PCA, 100 000 × 50",
    ),
    Chosen(
        "pca",
        "1000 x 10 f8, 10 components, decaying spectrum",
        "fit",
        "scikit-learn auto",
        "PCA, 1 000 × 10, q 10",
        "",
    ),
)


def found(results: dict[str, Any], chosen: Chosen) -> dict[str, Any]:
    """The row of the results; not to be there any more is an error."""
    wanted = (chosen.case, chosen.measure, chosen.peer)
    for row in results["benchmarks"][chosen.section]["rows"]:
        if (row["case"], row["measure"], row["peer"]) == wanted:
            return dict(row)
    raise LookupError(f"{chosen.section} has no row {wanted}")


def table(results: dict[str, Any], leads: bool) -> str:
    """All rows, or those that lead."""
    lines = ["| | eigengap | peer | times as fast |", "|---|---|---|---|"]
    for chosen in CHOSEN:
        if leads and not chosen.lead:
            continue
        row, words = found(results, chosen), chosen.lead if leads else chosen.words
        peer = row["peer"].removesuffix(", the fastest below")
        theirs = ("> " if row["bound"] else "") + seconds(row["theirs"])
        ratio = ("> " if row["bound"] else "") + figure(row["ratio"])
        lines.append(f"| {words} | {seconds(row['ours'])} | {peer} {theirs} | {ratio} |")
    return "\n".join(lines)


def seconds(time: float) -> str:
    """
    >>> seconds(0.0623), seconds(0.1358), seconds(60.31), seconds(0.000477)
    ('62 ms', '0.14 s', '60 s', '0.48 ms')
    """
    return f"{figure(time * 1e3)} ms" if time < 0.0995 else f"{figure(time)} s"


def figure(number: float) -> str:
    """Two digits, or all of those before the point.

    >>> figure(0.956), figure(4.64), figure(17.1), figure(977.3)
    ('0.96', '4.6', '17', '977')
    """
    return (
        f"{number:.0f}" if number >= 9.95 else f"{number:.2g}" if number >= 1 else f"{number:.2f}"
    )


def updated(path: Path, results: dict[str, Any]) -> str:
    """The text of a page with the table of these results."""
    before, rest = path.read_text().split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table(results, leads=path == README)}\n\n{END}{after}"


def draw(results: dict[str, Any], path: Path) -> None:
    import altair as alt

    values = []
    for chosen in CHOSEN:
        if chosen.short:
            row = found(results, chosen)
            peer = row["peer"].split(",")[0].split(" ")[0]
            more = "> " if row["bound"] else ""
            label = f"{more}{figure(row['ratio'])} × {peer}"
            values.append({"what": chosen.short, "ratio": row["ratio"], "label": label})
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "ratio:Q",
            title="times as fast as the peer",
            scale=alt.Scale(type="log", domain=[1, 3000]),
        ).axis(values=[1, 10, 100, 1000], grid=True),
        y=alt.Y("what:N", title=None, sort="-x").axis(labelLimit=260, ticks=False, domain=False),
    )
    bars = base.mark_bar(color="#0072B2", height=13).encode(x2=alt.datum(1))
    names = base.mark_text(align="left", dx=5, fontSize=11).encode(text="label:N")
    title = alt.Title(
        "Speed beside its peers", subtitle="two cores; the same accuracy or better; logarithmic"
    )
    chart = alt.layer(bars, names).properties(title=title, width=430, height=alt.Step(19))
    chart.configure_view(stroke=None).configure(background="white").save(str(path))


def main() -> None:
    results = json.loads(RESULTS.read_text())
    for page in (README, PAGE):
        page.write_text(updated(page, results))
    draw(results, PICTURE)


if __name__ == "__main__":
    main()
