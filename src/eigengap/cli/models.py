"""Models by the names that the command line has for them, and their parameters from text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from inspect import signature
from typing import Any

from eigengap.cli.errors import WrongUsage
from eigengap.registry import BY_COMMAND

NAMES = tuple(BY_COMMAND)
# Given by options of their own, or of no use to a command.
ELSEWHERE = {
    "n_components": "-k",
    "missing_values": "--na",
    "checkpoint": "--checkpoint",
    "scale": "--scale or --no-scale",
    "random_state": "--seed",
    "verbose": "-v",
    "copy": "",
    "copy_X": "",
}


def estimator(
    name: str,
    *,
    components: str | None = None,
    scale: bool | None = None,
    seed: int = 0,
    checkpoint: str | None = None,
    settings: Sequence[str] = (),
    verbose: bool = False,
    columns: Any = None,
) -> Any:
    """An unfitted estimator with the options' parameters."""
    import eigengap

    made = getattr(eigengap, BY_COMMAND[name].name)()
    chosen = _settings(settings)
    inner = chosen.pop("estimator", None)
    if inner is not None:
        made.set_params(estimator=_inner(name, inner, components, scale, seed))
    elif name == "novelty":
        made.set_params(estimator=estimator("fa", components=components, scale=scale, seed=seed))
    known = made.get_params(deep=True)
    _require_known(name, chosen, known)
    given: dict[str, Any] = {"random_state": seed} if "random_state" in known else {}
    if components is not None and "n_components" in known:
        given["n_components"] = _components(name, components)
    elif components is not None and name != "novelty":
        raise WrongUsage(f"-m {name} has no number of components; leave -k out")
    if scale is not None and "scale" not in known and name != "novelty":
        raise WrongUsage(f"-m {name} does not scale columns; leave --scale and --no-scale out")
    # The model within a novelty detector has its own; low-rank tries both.
    if "scale" in known and not (name == "low-rank" and scale is None):
        given["scale"] = scale is not False
    if checkpoint is not None and "checkpoint" not in known:
        raise WrongUsage(
            f"-m {name} keeps no checkpoint; pca, ppca, fa, bayesian-pca and mixture do"
        )
    given |= {"checkpoint": checkpoint} if checkpoint is not None else {}
    if "columns" in known and "columns" not in chosen:
        given["columns"] = "numeric" if columns is None else columns
    given |= {"verbose": True} if verbose and "verbose" in known else {}
    made.set_params(**given, **chosen)
    for parameter in (*given, *chosen):
        _require_valid(made, parameter)
    return made


def takes_columns(name: str) -> bool:
    """Whether a model takes columns of every kind."""
    import eigengap

    return "columns" in signature(getattr(eigengap, BY_COMMAND[name].name)).parameters


def _require_valid(made: Any, path: str) -> None:
    """Refuse what the estimator itself would refuse in its fit, by the name of the option."""
    *owners, parameter = path.split("__")
    for name in owners:
        made = getattr(made, name)
    value = getattr(made, parameter)
    refused = _refusal(made, parameter, value)
    kind = type(made).__name__
    if refused and parameter != "n_components":
        raise WrongUsage(f"--set {path} of {kind} must be {refused.partition(' must be ')[2]}")
    if refused:
        accepted = [n for n in (0, 1, 2, 0.95, "auto") if not _refusal(made, parameter, n)]
        least = next((n for n in accepted if isinstance(n, int)), 1)
        ways = [f"a whole number from {least} on (3)"]
        ways += ["a share of the variance between 0 and 1 (0.95)"] if 0.95 in accepted else []
        ways += ["auto"] if "auto" in accepted else []
        taken = " or ".join(filter(None, [", ".join(ways[:-1]), ways[-1]]))
        raise WrongUsage(f"-k {value}: the number of components of {kind} is {taken}")


def _refusal(made: Any, parameter: str, value: Any) -> str:
    try:
        type(made)(**{parameter: value})._validate_params()
    except ValueError as error:
        return str(error)
    return ""


def _inner(name: str, inner: Any, components: str | None, scale: bool | None, seed: int) -> Any:
    """The model within another: by its name here; "auto" and "thorough" are words of low-rank."""
    if isinstance(inner, str) and inner in BY_COMMAND and not BY_COMMAND[inner].target:
        return estimator(inner, components=components, scale=scale, seed=seed)
    if name == "low-rank" and inner in ("auto", "thorough"):
        return inner
    raise WrongUsage(f"--set estimator={inner}: it is a model by its name, e.g. --set estimator=fa")


def _components(name: str, text: str) -> int | float | str:
    """N, a share of the variance, or auto."""
    if text == "auto":
        return text
    with suppress(ValueError):
        count = int(text)
        # The library has models without components; here there would be nothing to write.
        if count >= 1 or not BY_COMMAND[name].allows_no_components:
            return count
    with suppress(ValueError):
        if 0.0 < float(text) < 1.0:
            return float(text)
    raise WrongUsage(
        f"-k {text}: it is a whole number of components (3), a share of the variance between "
        "0 and 1 (0.95), or auto"
    )


def _settings(settings: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not name:
            raise WrongUsage(f"--set {setting}: write it as --set name=value")
        if name in found:
            raise WrongUsage(f"--set {name} is given twice")
        found[name] = value_of(text)
    return found


def value_of(text: str) -> Any:
    """What a text on the command line means: JSON, True, False or None, else itself.

    >>> value_of("3"), value_of("1e-8"), value_of("true"), value_of("None"), value_of("rbf")
    (3, 1e-08, True, None, 'rbf')
    >>> value_of("[1, 2]"), value_of('"3"')
    ([1, 2], '3')
    """
    text = text.strip()
    try:
        return json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
    except (ValueError, RecursionError):
        return text


def _require_known(name: str, chosen: dict[str, Any], known: dict[str, Any]) -> None:
    for parameter, value in chosen.items():
        if parameter in ELSEWHERE:
            option = ELSEWHERE[parameter]
            way = f"it is given by {option}" if option else "it means nothing to a command"
            raise WrongUsage(f"--set {parameter}={value}: {way}")
        if parameter not in known:
            names = sorted(one for one in known if one not in ELSEWHERE and "__" not in one)
            close = get_close_matches(parameter, names, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise WrongUsage(
                f"--set {parameter}: {BY_COMMAND[name].name} has no such parameter. {hint}It has "
                f"{', '.join(names)}"
            )
