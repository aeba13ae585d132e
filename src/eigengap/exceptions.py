"""Errors and warnings of eigengap, all in one place.

Errors carry what they are about as fields, where a program could use it: the row, the column, the
package to install.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.printable import quoted

# Warnings -------------------------------------------------------------------------------------


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or used."""


class ConstantColumnWarning(UserWarning):
    """A constant column counts in a noise variance that all columns share."""


class ContinuedFitWarning(UserWarning):
    """`partial_fit` continues from a model that does not determine the rows it was fitted to."""


class DisconnectedWarning(UserWarning):
    """The neighbourhood graph had several components, and they were joined."""


class DroppedComponentWarning(UserWarning):
    """A mixture has fewer components than requested."""


class FewCellsWarning(UserWarning):
    """A column has too few observed values to estimate its noise variance."""


class ForgottenCellSdWarning(UserWarning):
    """A model that was fitted with `cell_sd` is given rows without it."""


class GaussianComponentsWarning(UserWarning):
    """Several components cannot be distinguished from Gaussians, so their directions are free."""


class HeavyTailsWarning(UserWarning):
    """The learned degrees of freedom are so few that the density has no variance."""


class ImpulseNoiseWarning(UserWarning):
    """Entries of an image that look like impulse noise were left unchanged."""


class KernelWarning(UserWarning):
    """The kernel does not suit the data."""


class LostDigitsWarning(UserWarning):
    """A variance is so small relative to the largest that its moments are inaccurate."""


class NegativeEigenvaluesWarning(UserWarning):
    """The distances are far from Euclidean."""


class NoiseFloorWarning(UserWarning):
    """A noise variance reached the smallest value that the fit allows."""


class HeywoodWarning(NoiseFloorWarning):
    """Heywood case: the factors explain a column entirely, its noise variance is at the floor."""


class UnboundedLikelihoodWarning(NoiseFloorWarning):
    """The components leave no noise in the training rows: the likelihood is unbounded."""


class NotWhiteWarning(UserWarning):
    """`whiten=False` was used on rows that are not white."""


class PartitionColumnWarning(UserWarning):
    """A column that is encoded in folder names is not read."""


class RankDeficientWarning(UserWarning):
    """The rows do not vary in every direction, so not every direction can be whitened."""


class RereadWarning(UserWarning):
    """The chunks of a field are larger than a block, so they are read many times."""


class RoundedWarning(UserWarning):
    """Integers that float64 cannot represent were rounded."""


class SampledWarning(UserWarning):
    """A method that needs all rows in memory was fitted to a sample of them."""


class SentinelWarning(UserWarning):
    """A column holds a number that looks like a code for missing values."""


class StructureWarning(UserWarning):
    """The coordinates do not reproduce the whole graph."""


class UncertainNeighboursWarning(UserWarning):
    """Imputed values are less certain than the distance to the nearest neighbours."""


class UnitsWarning(UserWarning):
    """Columns of very different scale share a noise variance, or a rotation in their units."""


class UnlinkedColumnsWarning(UserWarning):
    """No row has values in two groups of columns: their relation is not identified."""


# Data -----------------------------------------------------------------------------------------


class DataError(ValueError):
    """A table cannot be used as it is. Fields that do not apply are None.

    Attributes
    ----------
    problem : str
        What is wrong, without a way out.
    hint : str
        What may have been meant, in words that name no parameter; empty where nothing is known.
    way_out : str
        What to do, in terms of Python's parameters.
    row, line : int
        Position from 0 in the table, or number of the line of a text file from 1.
    column, name : int, str
        Position and name of the column.
    value : float or str
        What the cell holds.
    count : int
        How many cells, rows or columns have the same problem.
    suggestions : dict
        Parameters that would help, with their values: `missing_values`, `columns`, `skip_rows`,
        `comment`.
    """

    def __init__(
        self,
        problem: str,
        way_out: str = "",
        *,
        hint: str = "",
        row: int | None = None,
        line: int | None = None,
        column: int | None = None,
        name: str | None = None,
        value: float | str | None = None,
        count: int | None = None,
        suggestions: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(". ".join(filter(None, [problem, hint, way_out])))
        self.problem, self.hint, self.way_out = problem, hint, way_out
        self.row, self.line, self.column, self.name = row, line, column, name
        self.value, self.count = value, count
        self.suggestions = dict(suggestions or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (type(self), self.args, self.__dict__)


def _remade(cls: type[DataError], args: tuple[Any, ...], fields: dict[str, Any]) -> DataError:
    """An error that comes from another process."""
    error = cls.__new__(cls, *args)
    error.__dict__.update(fields)
    return error


class ColumnChoiceError(DataError):
    """`columns` chooses a column (`value`) that does not exist, is ambiguous, or chosen twice.

    `close` are names that may have been meant.
    """

    close: tuple[str, ...] = ()


class EmptyColumnError(DataError):
    """Columns without any value: `columns` are their positions, `names` their names or None."""

    columns: tuple[int, ...]
    names: tuple[str, ...] | None


class InfiniteCellError(DataError):
    """An infinite `value` at `row` and `column`, and `count` of them in all, as far as known."""


class OverflowingCellError(DataError):
    """A `value` too large to be squared, at `row` and `column`."""

    row: int
    column: int
    value: float

    def __init__(self, value: float, row: int, column: int) -> None:
        super().__init__(
            f"Input X holds {value:g} at row {row}, column {column}, which is too large to be "
            "squared",
            "If it marks a missing cell, pass missing_values or set it to NaN",
            row=row,
            column=column,
            value=value,
            suggestions={"missing_values": value},
        )

    def after(self, start: int) -> OverflowingCellError:
        """The same error where the rows that were checked begin at `start`."""
        return OverflowingCellError(self.value, self.row + start, self.column)


class RepeatedNameError(DataError):
    """`count` columns have the same `name`, at `positions`."""

    positions: tuple[int, ...]


class TooFewRowsError(DataError):
    """The table has `count` rows and `needed` are required."""

    needed: int = 1


class WeightError(DataError):
    """`sample_weight` cannot be used; `value` is the weight, or the sum of weights, at fault."""


class UnreadableError(DataError):
    """A file that cannot be read as a table: which (`where`), what is wrong, and the way out."""

    def __init__(self, where: str, problem: str, way_out: str = "", **fields: Any) -> None:
        super().__init__(problem, way_out, **fields)
        self.args = (f"{quoted(where)}: {self.args[0]}",)
        self.where = where


class UnusableCellError(UnreadableError):
    """A file that is whole, with cells that are no finite numbers.

    `columns` are (name or position, what it holds) of columns that are not numeric, where the
    problem is one of columns and not of a cell.
    """

    columns: tuple[tuple[str | int, str], ...] = ()


# Fits -----------------------------------------------------------------------------------------


class DisconnectedError(ValueError, RuntimeError):
    """The neighbourhood graph is disconnected; scikit-learn raises a RuntimeError there."""


class KernelOverflowError(ValueError):
    """Values of the kernel are not finite, in `row`."""

    def __init__(self, row: int | None = None) -> None:
        where = "" if row is None else f" at row {row}"
        super().__init__(
            f"the kernel overflows{where}: the table holds values so large that their products "
            "are infinite. Rescale the data, for instance to unit variance"
        )
        self.row = row


class NoSignalError(ValueError):
    """There is no noise to remove, or nothing beyond it."""


class ObjectiveFellError(ArithmeticError):
    """An EM step lowered the objective by more than rounding error.

    It carries the best point before the step, and the objective there.
    """

    top: NDArray[np.float64] | None = None
    top_value: float = -np.inf


class RankError(ValueError):
    """More directions are to be whitened than the rows vary in."""


class SingularModelError(ValueError):
    """The covariance of the observed values is singular, so there is no density."""


# Files, memory, packages ----------------------------------------------------------------------


class CheckpointMismatchError(ValueError):
    """A checkpoint belongs to another model or to other data than the fit that finds it."""


class ClusterError(RuntimeError):
    """Workers or scheduler are gone; the message says what was being computed."""


class CorruptFileError(ValueError):
    """A file is damaged, or is not of the expected kind."""


class DoesNotFitError(MemoryError, ValueError):
    """The method needs more memory than is available.

    `what` needs `needed` bytes where `free` are; `way_out` is what to do instead.
    """

    what: str = ""
    way_out: str = ""
    needed: float | None = None
    free: int | None = None


class ExistingFileError(FileExistsError):
    """A file is not overwritten; `force=True` would, where `is_replaceable`."""

    is_replaceable = True


class MissingExtraError(ImportError):
    """A package is not installed or cannot be imported; the message has the command to fix it.

    Raised while an ImportError is handled, it distinguishes the two: a package that is installed
    but incompatible with others must not be called missing.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        error = sys.exception()
        if isinstance(error, ImportError) and not _is_absent(package, error):
            state, command = f"does not import here ({error})", "pip install --upgrade"
            verb = "Update it"
        else:
            state, command, verb = "is not installed", "pip install", "Install it"
        super().__init__(
            f'{what} needs {package}, which {state}. {verb} with: {command} "eigengap[{extra}]"',
            name=package,
        )
        self.extra = extra


_IMPORTED_AS = {"pillow": "PIL", "vl-convert-python": "vl_convert"}


def _is_absent(package: str, error: ImportError) -> bool:
    """Whether the package itself was not found, rather than something that it imports."""
    name = error.name or ""
    return isinstance(error, ModuleNotFoundError) and (
        name.partition(".")[0] == _IMPORTED_AS.get(package, package)
    )


class NewerFormatError(ValueError):
    """A file was written by a later version of eigengap."""


class UnsavableError(ValueError):
    """The estimator holds something that a model file cannot keep."""
