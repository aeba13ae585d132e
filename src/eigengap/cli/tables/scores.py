"""Rows scored by a model: figures for each, and the least probable in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from eigengap import NoveltyDetector
from eigengap.cli.errors import WrongUsage
from eigengap.cli.fitting import as_text, is_no_class
from eigengap.cli.narration import Narrator, figure, many, rounded_by, signed, with_sd
from eigengap.cli.tables.outputs import given, names_of, schema_of
from eigengap.cli.tables.pieces import Piece
from eigengap.cli.tables.table import Table
from eigengap.estimators.shared.display import cautions
from eigengap.models.gaussian.linear_gaussian import LinearGaussian
from eigengap.models.gaussian.student import StudentLinearGaussian
from eigengap.plots.numbers.columns import MOST_BESIDE
from eigengap.plots.numbers.outliers import detector_for
from eigengap.registry import entry_of, scores_log_density
from eigengap.sources import ArraySource, arrow_to_float, foreign_kind, quote, with_missing_for

WORST = 5  # rows that are printed
ALPHA = 0.05


class Scores:
    """Figures of every row as they come, and what is to be said of all of them."""

    def __init__(self, model: Any, table: Table, alpha: float | None) -> None:
        self._model, self._table = model, table
        self._target = entry_of(model).target
        self._detector = detector_of(model, alpha)
        own = getattr(self._detector, "alpha", ALPHA)
        self._alpha: float = own if alpha is None else alpha
        if not hasattr(model, "score_samples") and not self._target:
            raise WrongUsage(
                f"{type(model).__name__} is no density, so that rows have no likelihood; "
                "fit one with eigengap fit DATA -m ppca, or -m novelty"
            )
        self.rows, self._empty, self._total, self._outliers = 0, 0, 0.0, 0
        self._worst: list[tuple[float, int, Any, list[Any]]] = []
        self._right: list[float] = []
        self._truth: list[float] = []

    @property
    def names(self) -> list[str]:
        if self._detector is not None:
            return ["log_likelihood", "p_value", "outlier", "T2", "SPE"]
        return ["predicted"] if self._target else [entry_of(self._model).row_score]

    def of(self, piece: Piece) -> Sequence[Any]:
        self.rows += piece.n_rows
        if self._target:
            return [self._predicted(piece)]
        rows = given(self._model, piece, self._table)
        density = getattr(self._model, "estimator_", self._model)
        # The density within a model may have been fitted without names.
        own = rows if hasattr(density, "feature_names_in_") else ArraySource(piece.values)
        score = np.asarray(density.score_samples(own))
        self._total += float(score.sum())
        self._empty += int(np.isnan(piece.values).all(axis=1).sum())
        if self._detector is None:
            return [score]
        found = self._detector.statistics(rows)
        outlier = np.asarray(found.D2.log_p) < self._detector.offset_
        self._outliers += int(outlier.sum())
        self._keep(found.D2.log_p, piece, rows)
        flags = outlier.astype(np.int64)
        return [score, found.D2.p_value, flags, found.T2.value, found.SPE.value]

    def _keep(self, height: NDArray[Any], piece: Piece, rows: Any) -> None:
        """The lowest rows so far, as `explain` of the detector takes several."""
        of = piece.values if isinstance(rows, ArraySource) else rows
        for i in map(int, np.argsort(height)[:WORST]):
            ids = [as_text(piece.columns.column(j)[i].as_py()) for j in self._table.ids]
            row = of.slice(i, 1) if isinstance(of, pa.Table) else of[i]
            self._worst.append((float(height[i]), piece.start + i, row, ids))
        self._worst = sorted(self._worst, key=lambda entry: entry[:2])[:WORST]

    def _predicted(self, piece: Piece) -> Any:
        found = np.asarray(self._model.predict(given(self._model, piece, self._table)))
        if self._table.target is None:
            return found
        column = piece.columns.column(self._table.target)
        if self._target == "class":
            labels = map(as_text, column.to_pylist())
            self._right += [
                float(str(a) == str(b))
                for a, b in zip(found, labels, strict=True)
                if not is_no_class(b, self._table.na)
            ]
        else:
            truth = targets(column, self._table)
            known = ~np.isnan(truth)
            self._right += ((truth - found)[known] ** 2).tolist()
            self._truth += truth[known].tolist()
        return found

    # What is reported ---------------------------------------------------------------------------

    def report(self, narrator: Narrator) -> None:
        if self._target:
            self._print_prediction(narrator)
            return
        rows = many(self.rows, "row")
        if scores_log_density(self._model) or self._detector is not None:
            mean = self._total / max(self.rows, 1)
            message = f"{rows}; log-likelihood per row {signed(mean)}"
            facts = {"log_likelihood_per_row": mean}
        else:  # how well it reconstructs the rows that are not empty
            mean = -self._total / max(self.rows - self._empty, 1)
            message = f"{rows}; mean squared error per row {mean:.3g}, standardised"
            facts = {"mean_squared_error_per_row": mean}
        narrator.say("Scored", message, rows=self.rows, **facts)
        for sentence in cautions(self._model):
            narrator.note(sentence)
        if self._detector is None:
            narrator.note(why_alone(self._model))
            return
        outliers = many(self._outliers, "row")
        if abs(float(np.log(self._alpha)) - self._detector.offset_) > 1e-9:
            message = f"{outliers} beyond the threshold of the fit"
        else:
            expected = f"{self._alpha * self.rows:,.0f}".replace(",", " ")
            message = f"{outliers} with p < {self._alpha:g}; {expected} are expected by chance"
        narrator.say("Found", message, outliers=self._outliers, alpha=self._alpha)
        self._print_worst(narrator)

    def _print_worst(self, narrator: Narrator) -> None:
        worst = self._worst[: self._outliers]
        if not worst:
            return
        rows_of_worst = [entry[2] for entry in worst]
        if isinstance(rows_of_worst[0], pa.Table):
            X: Any = pa.concat_tables(rows_of_worst).unify_dictionaries().combine_chunks()
        elif rows_of_worst[0].dtype == object:
            X = np.stack(rows_of_worst)
        else:
            X = ArraySource(np.array(rows_of_worst), names=names_of(self._model))
        found = self._detector.explain(X, k=1)
        names = [self._table.name(j) for j in self._table.ids]
        beside = names[:MOST_BESIDE]
        rows, facts = [], []
        for (_, i, _, ids), explanation in zip(worst, found, strict=True):
            cell = explanation.cells[0] if explanation.cells else None
            p = explanation.p_value
            rows.append((str(i + 1), *map(_clean, ids[:MOST_BESIDE]), f"{p:.2g}", in_words(cell)))
            fact: dict[str, Any] = {"row": i + 1, "p_value": p, "cell": None}
            if cell is not None:
                expected = {"expected": cell.expected, "sd": cell.std}
                if np.isnan(cell.std):
                    expected = {"expected": cell.expected, "p": cell.p}
                fact["cell"] = {"column": cell.column, "value": cell.value, **expected}
            if ids:
                fact["id"] = dict(zip(names, ids, strict=True))
            facts.append(fact)
        header = ("data row", *map(_clean, beside), "p", "least expected value")
        narrator.show_rows(header, rows)
        narrator.facts["oddest"] = facts

    def _print_prediction(self, narrator: Narrator) -> None:
        known, message = len(self._right), many(self.rows, "row")
        facts: dict[str, Any] = {"rows": self.rows, "rows_with_target": known}
        if 0 < known < self.rows:
            message += f", {known} with a target"
        if not known:
            message += "; none has a target to compare with"
        elif self._target == "number":
            total = float(np.var(self._truth))
            facts["r2"] = 1.0 - float(np.mean(self._right)) / (total or float("nan"))
            message += f"; R2 {signed(facts['r2'], 3)}"
        else:
            facts["accuracy"] = float(np.mean(self._right))
            message += f"; {100 * facts['accuracy']:.1f} % of the classes are right"
        narrator.say("Scored", message, **facts)


def why_alone(model: Any) -> str:
    """Why rows have no p-value."""
    kind, value = type(model).__name__, getattr(model, "model_", None)
    if schema_of(model) is not None:
        return (
            f"{kind} of columns of several kinds gives rows a likelihood alone; p-values and "
            "outliers come with -m novelty"
        )
    if isinstance(value, StudentLinearGaussian):
        return (
            "with Student noise rows have a likelihood alone: p-values, outliers, T2 and SPE need "
            "a Gaussian. To have them fit with -m novelty --set estimator=fa "
            "--set estimator__distribution=student"
        )
    if isinstance(value, LinearGaussian):
        return (
            "this model does not know which cells its rows showed, and p-values need that: rows "
            "have a likelihood alone. Fit it again with eigengap fit"
        )
    if scores_log_density(model):
        why = f"{kind} gives rows a likelihood alone; p-values"
    else:
        why = f"{kind} is no density: rows have a reconstruction error, and no likelihood. p-values"
    return f"{why}, outliers, T2 and SPE come with -m ppca, pca, fa, bayesian-pca and novelty"


def targets(column: Any, table: Table) -> NDArray[Any]:
    """What is to be predicted, read as the fit reads it; NaN where there is none."""
    if pa.types.is_binary(column.type):
        of = table.readers[0].dialect.cells.number
        found = [of(cell.decode("latin-1")) for cell in column.to_pylist()]
        values = np.array([np.nan if value is None else value for value in found])
    elif foreign_kind(column.type) is None:
        values = arrow_to_float(column.combine_chunks()).astype(np.float64)
    else:
        return np.full(len(column), np.nan)
    return with_missing_for(values[:, None], table.codes)[:, 0] if table.codes else values


def in_words(cell: Any) -> str:
    """A surprising cell, for people."""
    if cell is None:
        return "no value is observed"
    if np.isnan(cell.std):  # of columns of several kinds
        value, expected = (
            figure(one) if isinstance(one, float) else _clean(one)
            for one in (cell.value, cell.expected)
        )
        return f"{_clean(cell.column)} = {value}, expected {expected} (p = {cell.p:.2g})"
    side = "above" if cell.deviation > 0 else "below"
    value = rounded_by(cell.value, cell.std)
    if "." in value and "e" not in value:
        value = value.rstrip("0").rstrip(".")
    return (
        f"{_clean(cell.column)} = {value}, expected "
        f"{with_sd(cell.expected, cell.std)} ({abs(cell.deviation):.1f} sd {side})"
    )


def detector_of(model: Any, alpha: float | None) -> Any:
    """A detector of outliers around a fitted linear-Gaussian model; None where it is none."""
    detector = model
    if not isinstance(model, NoveltyDetector):
        value = getattr(model, "model_", None)
        # p-values depend on which patterns of missing values the fit saw.
        knows_patterns = getattr(model, "evidence_", None) is not None
        if type(value) is not LinearGaussian or not knows_patterns or not np.all(value.psi > 0.0):
            return None
        detector = detector_for(model)
    if alpha is not None:
        detector.offset_ = float(np.log(alpha))
    return detector


def _clean(text: Any) -> str:
    return quote("" if text is None else str(text))[1:-1]
