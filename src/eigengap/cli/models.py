"""Models by the names that the command line has for them, and their parameters from text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from eigengap.cli.errors import WrongUsage
from eigengap.registry import BY_COMMAND, BY_NAME

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
) -> Any:
    """An unfitted estimator with what the options say."""
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
    given |= _scale(name, scale, known)
    if checkpoint is not None:
        given |= _checkpoint(name, checkpoint, known)
    if verbose and "verbose" in known:
        given["verbose"] = True
    made.set_params(**given, **chosen)
    for parameter in (*given, *chosen):
        _require_valid(made, parameter)
    return made


def _require_valid(made: Any, path: str) -> None:
    """Refuse what the estimator itself would refuse in its fit, by the name of the option."""
    *owners, parameter = path.split("__")
    for name in owners:
        made = getattr(made, name)
    value = getattr(made, parameter)
    refused = _refusal(made, parameter, value)
    if refused is None:
        return
    kind = type(made).__name__
    if parameter != "n_components":
        _, _, allowed = str(refused).partition(" must be ")
        raise WrongUsage(f"--set {path} of {kind} must be {allowed}")
    accepted = [n for n in (0, 1, 2, 0.95, "auto") if _refusal(made, parameter, n) is None]
    least = next((n for n in accepted if isinstance(n, int)), 1)
    ways = [f"a whole number from {least} on (3)"]
    ways += ["a share of the variance between 0 and 1 (0.95)"] if 0.95 in accepted else []
    ways += ["auto"] if "auto" in accepted else []
    *first, last = ways
    taken = f"{', '.join(first)} or {last}" if first else last
    raise WrongUsage(f"-k {value}: the number of components of {kind} is {taken}")


def _refusal(made: Any, parameter: str, value: Any) -> ValueError | None:
    try:
        type(made)(**{parameter: value})._validate_params()
    except ValueError as error:
        return error
    return None


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
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0.0 < share < 1.0:
        raise WrongUsage(
            f"-k {text}: it is a whole number of components (3), a share of the variance between "
            "0 and 1 (0.95), or auto"
        )
    return share


def _scale(name: str, scale: bool | None, known: dict[str, Any]) -> dict[str, Any]:
    if name == "novelty":  # the model within it has its own
        return {}
    if "scale" not in known:
        if scale is not None:
            raise WrongUsage(f"-m {name} does not scale columns; leave --scale and --no-scale out")
        return {}
    if scale is None and name == "low-rank":  # which tries both
        return {}
    return {"scale": True if scale is None else scale}


def _checkpoint(name: str, path: str, known: dict[str, Any]) -> dict[str, Any]:
    if "checkpoint" not in known:
        raise WrongUsage(
            f"-m {name} keeps no checkpoint; pca, ppca, fa, bayesian-pca and mixture do"
        )
    return {"checkpoint": path}


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
    words = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _require_known(name: str, chosen: dict[str, Any], known: dict[str, Any]) -> None:
    for parameter, value in chosen.items():
        if parameter in ELSEWHERE:
            option = ELSEWHERE[parameter]
            way = f"it is given by {option}" if option else "it means nothing to a command"
            raise WrongUsage(f"--set {parameter}={value}: {way}")
        if parameter not in known:
            raise WrongUsage(_unknown(name, parameter, known))


def _unknown(name: str, parameter: str, known: dict[str, Any]) -> str:
    from difflib import get_close_matches

    names = sorted(one for one in known if one not in ELSEWHERE and "__" not in one)
    close = get_close_matches(parameter, names, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    has = f"{BY_COMMAND[name].name} has no such parameter"
    return f"--set {parameter}: {has}. {hint}It has {', '.join(names)}"


def name_of(fitted: Any) -> str:
    """The command line's name of a fitted estimator, its class where it has none."""
    kind = type(fitted).__name__
    return BY_NAME[kind].command if kind in BY_NAME else kind
