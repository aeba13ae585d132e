"""Errors that a user can mend: one sentence, a way out, an exit code of their own."""

import click


class FileInTheWay(click.ClickException):
    exit_code = 3


class FileTrouble(click.ClickException):
    exit_code = 4


class Unfittable(click.ClickException):
    exit_code = 5
