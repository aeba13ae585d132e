"""Time of a fit against the number of rows, drawn from what `benchmarks.out_of_core` measured.

python -m benchmarks.scaling_plot docs/images/scaling.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "results.json"


def draw(path: Path) -> None:
    import altair as alt

    data = alt.Data(values=_points(json.loads(RESULTS.read_text())))
    base = alt.Chart(data).encode(
        x=alt.X("rows:Q", title="rows", scale=alt.Scale(type="log")).axis(
            values=[10**k for k in range(4, 8)], format="~s"
        ),
        y=alt.Y("seconds:Q", title="seconds", scale=alt.Scale(type="log")).axis(
            values=[10.0**k for k in range(-2, 4)], format="~r"
        ),
        color=alt.Color("memory:N", title=None, legend=alt.Legend(orient="top")),
        shape=alt.Shape("memory:N", title=None, legend=None),
    )
    chart = alt.layer(base.mark_line(), base.mark_point(filled=True, size=70))
    title = alt.Title(
        "Time against rows",
        subtitle="PPCA, 20 columns, 10 % missing, 3 components, 10 steps of EM from .npy",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.properties(title=title, width=420, height=280).save(str(path), scale_factor=2)


def _points(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = results["benchmarks"]["out_of_core"]["rows"]
    return [
        {"memory": row["case"].rpartition(", ")[2], "rows": int(n), "seconds": seconds}
        for row in rows
        for n, seconds in row["detail"].get("seconds", {}).items()
    ]


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
