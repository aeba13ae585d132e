"""Parameters that estimators share: how they are described, and what they may be.

An estimator writes down what is particular to it. When its class is made, `complete` adds what is
known here of the other parameters: to `_parameter_constraints`, for scikit-learn's validation, and
to the docstrings of the class and its methods, so that `help`, the reference pages and
scikit-learn's notebooks show every parameter.
"""

import re
from collections.abc import Mapping
from inspect import cleandoc, isfunction, signature
from numbers import Integral, Real
from os import PathLike
from typing import Any

from eigengap.estimators.shared.sklearn_compat import Interval, RealNotInt, StrOptions
from eigengap.persistence.checkpoint import Checkpoint

COUNT = Interval(Integral, 1, None, closed="left")

# A parameter that is True or False by default is a boolean, if nothing else is known of it.
CONSTRAINTS: dict[str, list[Any]] = {
    "checkpoint": [str, PathLike, Checkpoint, None],
    "columns": [StrOptions({"numeric", "auto"}), Mapping],
    "degrees_of_freedom": [Interval(Real, 0, None, closed="neither"), None],
    "distribution": [StrOptions({"gaussian", "student"})],
    "max_iter": [COUNT],
    "metric_params": [dict, None],
    "missing_values": [Real, "array-like"],
    "n_components": [
        Interval(Integral, 0, None, closed="left"),
        Interval(RealNotInt, 0, 1, closed="neither"),
        StrOptions({"auto"}),
    ],
    "n_init": [COUNT],
    "n_jobs": [Integral, None],
    "noise": [StrOptions({"isotropic", "diagonal"})],
    "p": [Interval(Real, 1, None, closed="left")],
    "random_state": ["random_state"],
    "tol": [Interval(Real, 0, None, closed="left")],
    "verbose": ["verbose"],
}

HEAD = "Parameters\n----------\n"


def _described(section: str) -> dict[str, str]:
    """Entries of a section by parameter; one may describe several: "tol, max_iter : ..."."""
    by_name = {}
    for entry in re.split(r"\n(?=\S)", section.strip()):
        names = entry.partition("\n")[0].partition(" : ")[0]
        by_name.update(dict.fromkeys(names.split(", "), entry.rstrip()))
    return by_name


OF_CLASSES = _described(
    """
checkpoint : str, path-like or Checkpoint, default=DEFAULT
    File to which an iterative fit writes now and then what it has done, and from which a later
    call goes on if this one was interrupted; removed when the fit has converged
    (docs/checkpoints.md).
columns : "numeric", "auto" or mapping of columns to kinds, default=DEFAULT
    What columns hold. "numeric": Gaussian numbers, and text is refused. "auto": numbers, levels and
    truth values of a data frame, each by its own kind of column (continuous, ordinal, binary,
    nominal; `kinds_`); identifiers, free text and dates are ignored. A mapping names kinds,
    "ordinal" for instance, or values of `eigengap.columns`, for some columns; the others are found
    as under "auto" (docs/columns.md).
copy : bool, default=DEFAULT
    Kept for scikit-learn's signature; the data are never modified.
degrees_of_freedom : float, default=DEFAULT
    Of the Student noise; None learns them. Few mean heavy tails, infinitely many the Gaussian.
    With 2 or fewer the density has no variance, which a fit that learns them warns of.
distribution : {"gaussian", "student"}, default=DEFAULT
    "student" gives every row a scale of its own, so that its observed part is multivariate t:
    outliers lose their weight (`row_weights`) instead of moving the axes.
max_iter : int, default=DEFAULT
    Most steps of an iterative fit.
metric_params : dict, default=DEFAULT
    Further arguments of the metric.
missing_values : float or list of float, default=DEFAULT
    Values that mark a missing value, besides NaN.
n_jobs : int, default=DEFAULT
    Threads; None is as many as BLAS may use.
p : float, default=DEFAULT
    Of the Minkowski metric.
random_state : int, RandomState or None, default=DEFAULT
verbose : bool or int, default=DEFAULT
    Whether to show progress.
"""
)
OF_METHODS = _described(
    """
X : table of shape (n_samples, n_features)
    NaN marks a missing value.
y : ignored
sample_weight : array of shape (n_samples,), default=DEFAULT
    Frequency of each row: an integer weight equals repeating the row.
cell_sd : table of X's shape, default=DEFAULT
    Known standard deviation of each value, besides the model's own noise; 0 or NaN where there is
    none.
return_std : bool, default=DEFAULT
    Whether to return the standard deviations too.
m : int
    Number of tables.
n_samples : int, default=DEFAULT
    Number of rows.
random_state : int, RandomState or None, default=DEFAULT
"""
)


def complete(cls: type) -> None:
    """Complete the constraints and docstrings of a class, and those of its public methods."""
    if "__init__" in vars(cls):
        own = vars(cls)["_parameter_constraints"]
        parameters = signature(cls).parameters.values()
        booleans = {p.name: ["boolean"] for p in parameters if isinstance(p.default, bool)}
        known = {**booleans, **CONSTRAINTS, **own}
        cls._parameter_constraints = {p.name: known[p.name] for p in parameters}  # type: ignore[attr-defined]
        _complete(cls, vars(cls)["__init__"], OF_CLASSES)
    for name, method in vars(cls).items():
        # The X of inverse_transform is no table of the user's.
        if isfunction(method) and not name.startswith("_") and name != "inverse_transform":
            _complete(method, method, OF_METHODS)


def _complete(documented: Any, of: Any, known: dict[str, str]) -> None:
    if documented.__doc__ is None:  # python -OO
        return
    about, *rest = re.split(r"\n\n(?=\w[\w ]*\n---)", cleandoc(documented.__doc__))
    sections = {section.partition("\n")[0]: section for section in rest}
    own = _described(sections.pop("Parameters", HEAD).removeprefix(HEAD))
    entries = []
    for name, parameter in signature(of).parameters.items():
        value = parameter.default
        default = f'"{value}"' if isinstance(value, str) else str(value)
        entries.append(own.get(name, known.get(name, "").replace("DEFAULT", default)))
    listed = [entry for entry in dict.fromkeys([*entries, *own.values()]) if entry]
    before = {"Parameters": HEAD + "\n".join(listed)} if listed else {}
    if of.__name__ == "fit":
        before["Returns"] = "Returns\n-------\nself"
    documented.__doc__ = "\n\n".join([about, *{**before, **sections}.values()])
