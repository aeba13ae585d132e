"""Foreign text that is safe to print: names of columns and files may hold what terminals act on."""

from __future__ import annotations


def bare(text: object) -> str:
    r"""A text on one line; what is not printable is escaped, bytes of no encoding included.

    >>> bare("model.egap"), bare("a\x1b[31m"), bare("caf\udce9.csv")
    ('model.egap', 'a\\x1b[31m', 'caf\\udce9.csv')
    """
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in str(text)
    )


def quoted(text: str) -> str:
    """A text in double quotes on one line."""
    return '"' + "".join("\\" + c if c in '"\\' else bare(c) for c in text) + '"'
