"""What `denoise_image` and `inpaint_image` return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Restored(np.lib.mixins.NDArrayOperatorsMixin):
    """A restored image: np.asarray gives it, and arithmetic and indexing are those of `image`.

    Attributes
    ----------
    image : array of the shape and type of the one given
    sd : array of the same shape
        Standard deviation of each entry, in the units of the image; 0 where it is as it was given.
        float32, or float64 where the intensities of the image are beyond what float32 holds.
    noise_sd : float
        Standard deviation of the noise, learned or given, in the units of the image.
    model : str
        What was fitted to the patches, in words.
    n_mixture : int
        Number of components.
    ranks : tuple of int
        Rank of each, by falling weight; the number of entries of a patch where it was left free.
    patch, stride : int
        Side of a patch, and pixels from one to the next.
    n_missing : int
        Entries that were filled.
    sd_scale : float
        By what the model's own standard deviations were multiplied so that 95 % intervals of seen
        entries that were hidden for a trial hold 95 % of them; 1 where nothing was hidden.
    tiles : int
        Pieces in which the patches were worked on: memory does not grow with them.
    """

    image: NDArray[Any]
    sd: NDArray[np.floating]
    noise_sd: float
    model: str
    n_mixture: int
    ranks: tuple[int, ...]
    patch: int
    stride: int
    n_missing: int = 0
    sd_scale: float = 1.0
    tiles: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.image.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.image.dtype

    @property
    def ndim(self) -> int:
        return self.image.ndim

    @property
    def size(self) -> int:
        return self.image.size

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, at: Any) -> Any:
        return self.image[at]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [one.image if isinstance(one, Restored) else one for one in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(f"an array of type {np.dtype(dtype)} cannot be had without a copy")
        array = self.image if dtype is None else self.image.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        entries = "1 entry" if self.n_missing == 1 else f"{self.n_missing} entries"
        filled = f", {entries} filled" if self.n_missing else ""
        return f"Restored({size} {self.dtype}; {self.model}; noise sd {self.noise_sd:.3g}{filled})"


def mixture_of(K: int, what: str) -> str:
    """A mixture of so many, in words; of one, that one.

    >>> mixture_of(1, "Gaussian"), mixture_of(16, "Gaussian")
    ('Gaussian', 'mixture of 16 Gaussians')
    """
    return what if K == 1 else f"mixture of {K} {what}s"
