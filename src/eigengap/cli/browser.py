"""Showing a page in a browser, or saying that there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

PATIENCE = 3.0  # seconds within which a launcher that finds no browser has said so
# They show no script, without which a report has no charts.
IN_TERMINALS = {"www-browser", "links", "links2", "elinks", "lynx", "w3m"}


def show_page(path: str, narrator: Any) -> None:
    """Open a file in a browser; where there is none, say so and leave it to the user."""
    from eigengap.cli.errors import shown

    if not _is_open(Path(os.path.expanduser(path)).resolve().as_uri()):
        narrator.note(f"No browser was found; open {shown(path)} yourself")


def _is_open(uri: str) -> bool:
    if sys.platform in ("darwin", "win32", "cygwin"):
        return click.launch(uri) == 0
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if os.path.basename(getattr(browser, "name", "")) in IN_TERMINALS:
        return False
    if not isinstance(browser, webbrowser.GenericBrowser):
        return browser.open(uri)
    # Launchers such as xdg-open: Python neither waits for their answer nor keeps them silent.
    command = [browser.name, *(part.replace("%s", uri) for part in browser.args)]
    none = subprocess.DEVNULL
    try:
        launched = subprocess.Popen(
            command, stdin=none, stdout=none, stderr=none, start_new_session=True
        )
        return launched.wait(PATIENCE) == 0
    except subprocess.TimeoutExpired:
        return True  # the browser itself, which runs until it is closed
    except OSError:
        return False
