"""The fixed tree of merges, climbed in whatever order its parts come in.

`merge_tree` joins neighbours pairwise, level by level; a last one without a neighbour goes up
alone. Where parts are found on many workers, each can already join what lies side by side with it:
node (height, i) is the merge of (height - 1, 2 i) and (height - 1, 2 i + 1), by whomever. So the
sums are the same, bit by bit, for any number of workers and any place of the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Node = tuple[int, int]  # height above the leaves, position among those of this height


class Forest:
    """The trees that some of `n` leaves have grown into."""

    def __init__(self, n: int, trees: Mapping[Node, Any]) -> None:
        self.n = n
        self.trees: dict[Node, Any] = {}
        for node, statistic in trees.items():
            self.add(node, statistic)

    @classmethod
    def together(cls, forests: Iterable[Forest]) -> Forest:
        first, *others = forests
        for forest in others:
            for node, statistic in forest.trees.items():
                first.add(node, statistic)
        return first

    def add(self, node: Node, statistic: Any) -> None:
        """Plant a tree, and join it with those beside it as far as that goes."""
        height, at = node
        while (width := -(-self.n >> height)) > 1:  # nodes of this height: n / 2^height, rounded up
            beside = (height, at ^ 1)
            if at ^ 1 < width:
                if beside not in self.trees:
                    break
                other = self.trees.pop(beside)
                left, right = (statistic, other) if at % 2 == 0 else (other, statistic)
                statistic = left.merge(right)
            height, at = height + 1, at // 2
        self.trees[height, at] = statistic

    def root(self) -> Any:
        """The merge of all leaves."""
        (root,) = self.trees.values()
        return root
