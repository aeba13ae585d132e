"""Parts of eigengap that need a package which not everybody installs."""

from __future__ import annotations


class MissingExtraError(ImportError):
    """A package is not installed; the message says which command brings it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed. Install it with: "
            f'pip install "eigengap[{extra}]"',
            name=package,
        )
