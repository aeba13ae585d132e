"""Model files and checkpoints that eigengap 0.1 wrote, of every kind: they load, answer, go on."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from tests.model_files import CASES

import eigengap as eg
from eigengap.persistence.model_file import load
from eigengap.runtime.warnings import captured

# models/*.egap, and for each the rows and answers of 0.1 in answers/*.npz; checkpoints/*.egck.
STORED = ZipFile(Path(__file__).parent / "files_0.1.zip")
FITS = {
    "PCA": lambda **how: eg.PCA(2, **how),
    "PPCA": lambda **how: eg.PPCA(2, **how),
    "PPCA-student": lambda **how: eg.PPCA(2, distribution="student", **how),
    "FactorAnalysis": lambda **how: eg.FactorAnalysis(2, **how),
    "BayesianPCA": lambda **how: eg.BayesianPCA(3, **how),
    "MixturePPCA": lambda **how: eg.MixturePPCA(2, 1, random_state=0, **how),
}


@cache
def arrays(member: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(STORED.read(member))) as held:
        return dict(held)


def stored(member: str, folder: Path) -> Path:
    return Path(STORED.extract(member, folder))


MODELS = sorted(Path(name).stem for name in STORED.namelist() if name.startswith("models/"))
COMPILED = "Isomap-approximate"  # pynndescent, which compiles itself for a minute


def test_every_kind_of_0_1_is_there():
    """Cases of later estimators have no file of 0.1."""
    assert len(MODELS) == 71
    assert set(MODELS) <= set(CASES)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == COMPILED else []) for name in MODELS],
)
def test_a_model_loads_and_answers_as_it_did(name, tmp_path):
    model = load(stored(f"models/{name}.egap", tmp_path))
    answers = dict(arrays(f"answers/{name}.npz"))
    rows = answers.pop("X").astype("float32" if name.endswith("float32") else "float64")
    if hasattr(model, "feature_names_in_"):
        rows = pd.DataFrame(rows, columns=model.feature_names_in_)
    for method, before in answers.items():
        now = np.asarray(getattr(model, method)(rows))
        if before.dtype.kind not in "fc":
            assert np.array_equal(now.astype(before.dtype), before), method
            continue
        # Iterative answers (latents of new rows, pre-images) end within their own tolerance.
        eps = 1e-4 if name.startswith("GPLVM") else 1e3 * np.finfo(before.dtype).eps ** 0.75
        assert now.shape == before.shape, method
        np.testing.assert_allclose(now, before, rtol=eps, atol=eps * np.abs(before).max())


@pytest.mark.parametrize("name", FITS)
def test_a_fit_goes_on_from_its_checkpoint(name, tmp_path):
    X = arrays("checkpoints/table.npz")["X"]
    path = stored(f"checkpoints/{name}.egck", tmp_path)
    with captured() as warned:
        resumed = FITS[name](checkpoint=path).fit(X)
        whole = FITS[name]().fit(X)
    assert not warned
    assert resumed.converged_
    assert resumed.n_iter_ > 3
    # The end of a fit is known to `tol` nats per observed value.
    slack = 1e-5 * np.sum(~np.isnan(X))
    assert abs(np.sum(resumed.score_samples(X)) - np.sum(whole.score_samples(X))) < slack
