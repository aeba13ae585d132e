"""Parts of eigengap that need a package which not everybody installs."""

from __future__ import annotations

import sys

MODULES = {"pillow": "PIL", "vl-convert-python": "vl_convert"}  # imported by another name


class MissingExtraError(ImportError):
    """A package is not installed, or does not import; the message says which command mends it.

    Raised while an ImportError is handled, it tells one case from the other: a package that is
    installed beside versions that it does not work with must not be called missing.
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


def _is_absent(package: str, error: ImportError) -> bool:
    """Whether it is the package itself that was not found, not something that it imports."""
    name = error.name or ""
    return isinstance(error, ModuleNotFoundError) and (
        name.partition(".")[0] == MODULES.get(package, package)
    )
