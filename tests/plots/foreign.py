"""Names that are meant to break charts."""

HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "a.b[0]",
    'it\'s "quoted" \\ back',
    "name:Q",
    "line\nbreak\ttab",
    "\u202eright to left",
    "x" * 10_000,
    "",
    "datum['x']",
    "=1+1",
    " x0 ",
    "x0",
]
