"""Rows judged by a model: figures for each, and the oddest of them in words."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.cli.errors import WrongUsage
from eigengap.cli.narration import Narrator, many, signed
from eigengap.cli.pieces import Piece
from eigengap.cli.tables import Table
from eigengap.cli.views import given

WORST = 5  # rows that are told
ALPHA = 0.05


class Scores:
    """Figures of every row as they come, and what is to be said of all of them."""

    def __init__(self, model: Any, table: Table, alpha: float | None) -> None:
        self._model, self._table = model, table
        kind = type(model).__name__
        self._predicts = kind in ("PPCAClassifier", "PPCARegressor")
        self._detector = detector_of(model, alpha)
        own = getattr(self._detector, "alpha", ALPHA)
        self._alpha: float = own if alpha is None else alpha
        if not hasattr(model, "score_samples") and not self._predicts:
            raise WrongUsage(
                f"{kind} is no density, and has nothing to say of how likely rows are; fit one "
                "with eigengap fit DATA -m ppca, or -m novelty"
            )
        self.rows, self._total, self._outliers = 0, 0.0, 0
        self._worst: list[tuple[float, int, NDArray[Any]]] = []
        self._right: list[float] = []
        self._truth: list[float] = []

    @property
    def names(self) -> list[str]:
        if self._detector is not None:
            return ["log_likelihood", "p_value", "outlier", "T2", "SPE"]
        if self._predicts:
            return ["predicted"]
        return ["log_likelihood"]

    def of(self, piece: Piece, table: Table) -> Sequence[Any]:
        self.rows += piece.n_rows
        if self._predicts:
            return [self._predicted(piece)]
        rows = given(self._model, piece, table)
        density = getattr(self._model, "estimator_", self._model)
        own = rows if hasattr(density, "feature_names_in_") else piece.table(None)
        log_likelihood = np.asarray(density.score_samples(own))
        self._total += float(log_likelihood.sum())
        if self._detector is None:
            self._keep(log_likelihood, piece)
            return [log_likelihood]
        found = self._detector.statistics(rows)
        outlier = np.asarray(found.D2.log_p) < self._detector.offset_
        self._outliers += int(outlier.sum())
        self._keep(found.D2.log_p, piece)
        return [
            log_likelihood, found.D2.p_value, outlier.astype(np.int64), found.T2.value,
            found.SPE.value,
        ]  # fmt: skip

    def _keep(self, height: NDArray[Any], piece: Piece) -> None:
        """The lowest rows so far."""
        for i in np.argsort(height)[:WORST]:
            entry = (-float(height[i]), -(piece.start + int(i)), piece.values[i])
            if len(self._worst) < WORST:
                heapq.heappush(self._worst, entry)
            elif entry[:2] > self._worst[0][:2]:
                heapq.heapreplace(self._worst, entry)

    def _predicted(self, piece: Piece) -> Any:
        found = np.asarray(self._model.predict(given(self._model, piece, self._table)))
        if self._table.target is None:
            return found
        cells = piece.columns.column(self._table.target).to_pylist()
        if type(self._model).__name__ == "PPCAClassifier":
            texts = [c.decode("utf-8", "replace") if isinstance(c, bytes) else c for c in cells]
            same = [str(a) == str(b) for a, b in zip(found, texts, strict=True) if b is not None]
            self._right += [float(one) for one in same]
        else:
            for value, cell in zip(found, cells, strict=True):
                truth = _number(cell)
                if truth is not None:
                    self._right.append((truth - float(value)) ** 2)
                    self._truth.append(truth)
        return found

    # Telling ------------------------------------------------------------------------------

    def tell(self, narrator: Narrator) -> None:
        if self._predicts:
            self._tell_prediction(narrator)
            return
        mean = self._total / max(self.rows, 1)
        narrator.say(
            "Scored",
            f"{many(self.rows, 'row')}; log-likelihood per row {signed(mean)}",
            rows=self.rows,
            log_likelihood_per_row=mean,
        )
        if self._detector is None:
            return
        expected = self._alpha * self.rows
        told = (
            f"{many(self._outliers, 'row')} with p < {self._alpha:g}, where {expected:.3g} would "
            "be by chance"
        )
        if abs(float(np.log(self._alpha)) - self._detector.offset_) > 1e-9:
            told = f"{many(self._outliers, 'row')} beyond the threshold of the fit"
        narrator.say("Found", told, outliers=self._outliers, alpha=self._alpha)
        self._tell_worst(narrator)

    def _tell_worst(self, narrator: Narrator) -> None:
        from eigengap.sources.array import ArraySource

        worst = sorted(self._worst, key=lambda entry: entry[:2], reverse=True)[: self._outliers]
        if not worst:
            return
        names = self._table.feature_names if hasattr(self._model, "feature_names_in_") else None
        table = ArraySource(np.array([values for _, _, values in worst]), names=names)
        found = self._detector.explain(table, k=1)
        rows, facts = [], []
        for (_, minus, _), explanation in zip(worst, found, strict=True):
            cell = str(explanation.cells[0]) if explanation.cells else "nothing was seen"
            rows.append((str(1 - minus), f"{explanation.p_value:.2g}", _clean(cell)))
            facts.append({"row": 1 - minus, "p_value": explanation.p_value, "cell": cell})
        narrator.show_rows(("data row", "p", "its oddest cell"), rows)
        narrator.facts["oddest"] = facts

    def _tell_prediction(self, narrator: Narrator) -> None:
        if not self._right:
            narrator.say("Scored", f"{many(self.rows, 'row')}; DATA has no target to compare with")
        elif self._truth:
            spread = float(np.var(self._truth)) or float("nan")
            r2 = 1.0 - float(np.mean(self._right)) / spread
            narrator.say(
                "Scored", f"{many(self.rows, 'row')}; R2 {signed(r2, 3)}", rows=self.rows, r2=r2
            )
        else:
            share = float(np.mean(self._right))
            narrator.say(
                "Scored",
                f"{many(self.rows, 'row')}; {100 * share:.1f} % of the classes are right",
                rows=self.rows,
                accuracy=share,
            )


def detector_of(model: Any, alpha: float | None) -> Any:
    """A detector of odd rows around a fitted linear-Gaussian model; None where it is none.

    The laws of its statistics depend on how many rows, and which patterns of gaps, the fit saw, and
    the model remembers those (`evidence_`).
    """
    from eigengap import NoveltyDetector
    from eigengap.models.linear_gaussian import LinearGaussian
    from eigengap.models.novelty import noise_ratios
    from eigengap.models.reference import Reference

    if isinstance(model, NoveltyDetector):
        if alpha is not None:
            model.offset_ = float(np.log(alpha))
        return model
    value, evidence = getattr(model, "model_", None), getattr(model, "evidence_", None)
    if type(value) is not LinearGaussian or evidence is None or not np.all(value.psi > 0.0):
        return None
    patterns = np.where(evidence.seen, value.mu, np.nan)
    weight = np.ones(len(patterns)) if evidence.count is None else np.asarray(evidence.count, float)
    seen_w = np.maximum(weight @ evidence.seen, 1e-300)
    rho = np.maximum(weight @ np.nan_to_num(noise_ratios(value, patterns)) / seen_w, 1.0)
    alpha = alpha or ALPHA
    detector = NoveltyDetector(model, alpha=alpha)
    detector.estimator_, detector.core_ = model, value
    detector.reference_ = Reference.of(value, model.spectrum_.sum_w, evidence.seen_w, rho)
    detector.offset_ = float(np.log(alpha))
    detector.n_features_in_ = model.n_features_in_
    if hasattr(model, "feature_names_in_"):
        detector.feature_names_in_ = model.feature_names_in_
    return detector


def _number(cell: Any) -> float | None:
    from eigengap.sources.files.csv_cells import Cells

    value = Cells().number(cell.decode("latin-1")) if isinstance(cell, bytes) else cell
    return None if value is None or value != value else float(value)


def _clean(text: str) -> str:
    from eigengap.sources.wording import quote

    return "".join(c if c.isprintable() else quote(c)[1:-1] for c in text)[:200]
