"""`eigengap completion`: the script by which a shell completes commands, options and files."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash   eval "$(eigengap completion bash)"       in ~/.bashrc
    zsh    eval "$(eigengap completion zsh)"        in ~/.zshrc
    fish   eigengap completion fish | source        in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from eigengap.cli.app import app

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(app, {}, "eigengap", "_EIGENGAP_COMPLETE").source())
