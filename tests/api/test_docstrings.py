"""Docstrings are complete at run time, also where the source leaves out what all describe alike."""

import inspect
import math
from typing import ClassVar

import pytest

import eigengap
from eigengap.estimators.shared.parameters import CONSTRAINTS, OF_CLASSES, OF_METHODS, complete
from eigengap.registry import ESTIMATORS


def described(doc: str) -> set[str]:
    """Parameters that a section of a docstring describes."""
    section = inspect.cleandoc(doc).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    heads = (line for line in section.split("\n") if line and not line.startswith(" "))
    return {name for head in heads for name in head.partition(" : ")[0].split(", ")}


@pytest.mark.parametrize("entry", ESTIMATORS, ids=lambda entry: entry.name)
def test_every_parameter_is_described(entry):
    cls = getattr(eigengap, entry.name)
    assert described(cls.__doc__) == set(inspect.signature(cls).parameters)
    asked = set(inspect.signature(cls.fit).parameters) - {"self"}
    assert described(cls.fit.__doc__) == asked
    assert "Returns\n-------\nself" in inspect.cleandoc(cls.fit.__doc__)


def test_shared_descriptions_fill_what_is_left_out():
    class Twice:
        """Twice a table.

        Parameters
        ----------
        method : str, default="slow"
            How.

        Examples
        --------
        >>> 1 + 1
        2
        """

        _parameter_constraints: ClassVar = {"method": [str]}

        def __init__(self, method="slow", *, missing_values=math.nan, verbose=False, exact=True):
            pass

        def fit(self, X, y=None, sample_weight=None):
            """Fit it.

            Parameters
            ----------
            y : array
                Of use.
            """

        def transform(self, X):
            """Two of each."""

        def inverse_transform(self, X):
            """One of each."""

    complete(Twice)
    assert Twice._parameter_constraints == {
        "method": [str],
        "missing_values": CONSTRAINTS["missing_values"],
        "verbose": CONSTRAINTS["verbose"],
        "exact": ["boolean"],
    }
    missing = OF_CLASSES["missing_values"].replace("DEFAULT", "nan")
    verbose = OF_CLASSES["verbose"].replace("DEFAULT", "False")
    assert Twice.__doc__ == (
        'Twice a table.\n\nParameters\n----------\nmethod : str, default="slow"\n    How.\n'
        f"{missing}\n{verbose}\n\nExamples\n--------\n>>> 1 + 1\n2"
    )
    weight = OF_METHODS["sample_weight"].replace("DEFAULT", "None")
    assert Twice.fit.__doc__ == (
        f"Fit it.\n\nParameters\n----------\n{OF_METHODS['X']}\ny : array\n    Of use.\n{weight}"
        "\n\nReturns\n-------\nself"
    )
    assert Twice.transform.__doc__.endswith(OF_METHODS["X"])
    assert Twice.inverse_transform.__doc__ == "One of each."
