"""Errors and warnings of eigengap, all in one place.

Errors carry what they are about as fields, where a program could use it: the row, the column, the
package to install.
"""

from __future__ import annotations

import copyreg
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigengap.wording import words

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
    """A column holds what looks like something else.

    A number, text among numbers or a mark among words that may be a code for missing values; or
    text that looks like numbers: sums of money, percentages.
    """


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
    """A table cannot be used as it is.

    Attributes
    ----------
    row, line : int or None
        Position in the table from 0, or number of the line of a text file from 1.
    column, name : int and str, or None
        Position and name of the column.
    value : float, str or None
        What the cell holds.
    """

    def __init__(
        self,
        message: str,
        *,
        row: int | None = None,
        line: int | None = None,
        column: int | None = None,
        name: str | None = None,
        value: float | str | None = None,
    ) -> None:
        super().__init__(message)
        self.row, self.line, self.column, self.name, self.value = row, line, column, name, value

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process makes it anew from its fields, not by the arguments of a subclass.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InfiniteCellError(DataError):
    """An infinite `value` at `row` and `column`."""

    row: int


class OverflowingCellError(DataError):
    """A `value` too large to be squared, at `row` and `column`."""

    row: int
    column: int
    value: float

    def __init__(self, value: float, row: int, column: int) -> None:
        super().__init__(
            f"{words().table} holds {value:g} at row {words().number(row)}, column {column}, which "
            "is too large to be squared. If it marks a missing value, pass "
            f"{words().parameter('missing_values')} or set it to NaN",
            row=row,
            column=column,
            value=value,
        )

    def after(self, start: int) -> OverflowingCellError:
        """The same error where the rows that were checked begin at `start`."""
        return OverflowingCellError(self.value, self.row + start, self.column)


class UnknownLevelError(DataError):
    """A category that was not among the levels of the fit."""


class UnreadableError(DataError):
    """A file that cannot be read as a table: which (`where`), what is wrong, and the way out.

    `in_cells` if the file is whole, and its cells are not finite numbers.
    """

    def __init__(self, where: str, what: str, in_cells: bool = False, **fields: Any) -> None:
        super().__init__(f"{words().path(where)}: {what}", **fields)
        self.where, self.in_cells = where, in_cells


# Fits -----------------------------------------------------------------------------------------


class DisconnectedError(ValueError, RuntimeError):
    """The neighbourhood graph is disconnected; scikit-learn raises a RuntimeError there."""


class KernelOverflowError(ValueError):
    """Values of the kernel are not finite, in `row`."""

    def __init__(self, row: int | None = None) -> None:
        where = "" if row is None else f" at row {words().number(row)}"
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
    """Workers or scheduler are lost; the message names what was being computed."""


class CorruptFileError(ValueError):
    """A file is damaged, or is not of the expected kind."""


class DoesNotFitError(MemoryError, ValueError):
    """The method needs more memory than is available."""


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
