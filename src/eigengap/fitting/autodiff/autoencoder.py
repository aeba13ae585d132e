"""Fitting an autoencoder (Rumelhart, Hinton and Williams 1986) to the observed values of a table.

    loss = sum over observed values of (x - x^)^2 / number of observed values + decay/2 sum of
    squared weights

in standardised units. Mini-batches go through Adam, one pass over the rows a step; the rate is
halved where the monitored rows (held out, if any) get no better, and after some more passes the
best weights are kept. Where the rows lie in memory L-BFGS then goes on from there over all of them
at once, until the monitored rows get worse: Adam comes near a minimum, but not to it.

A denoising autoencoder (Vincent et al. 2008) does not see a random share of the cells, another at
every step, and has to give them back nevertheless: what filling missing values asks for.

A linear network has no minimum but the principal subspace (Baldi and Hornik 1989), all other
stationary points being saddles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eigengap.fitting.autodiff import double_precision
from eigengap.fitting.autoencoder.fit import (
    AutoencoderFit,
    AutoencoderOptions,
    polish_fits,
    principal_axes,
    principal_weights,
    random_weights,
    require_network,
)
from eigengap.fitting.autoencoder.monitor import (
    CodeMoments,
    InputMoments,
    Monitor,
    ObservedWeight,
    White,
)
from eigengap.fitting.autoencoder.rows import (
    HeldOut,
    Standard,
    StandardBlock,
    TrainingBlocks,
    filled_up,
    monitored_rows,
    padded_size,
    shown_cells,
    shuffled_batches,
)
from eigengap.fitting.optimise.lbfgs import minimise
from eigengap.fitting.optimise.loop import Progress, State, Step, Trace, iterate
from eigengap.linalg import Array
from eigengap.models.network.autoencoder import (
    Architecture,
    Network,
    codes,
    penalty,
    reconstructions,
)
from eigengap.runtime.threads import in_turn, one_blas_thread
from eigengap.sources.base import Source

AUTO_BATCH, LARGEST_BATCH = 128, 512
AUTO_POLISH = 10**7  # cells up to which polish="auto" goes over all rows at once
CHUNK = 2048  # rows whose gradient is computed at once
EXPLODED = 1e3  # times the loss at the start, that ends the passes at once
RISEN = 2.0  # times the loss at the start and that of the columns' means, after the last pass
CODES = 2000  # at which the directions of the codes are compared
STAYED = 1e-12  # smallest gradient that a linear network is followed to
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


def fit_autoencoder(source: Source, q: int, options: AutoencoderOptions) -> AutoencoderFit:
    """The network of q codes that gives the observed values of the table back best."""
    # JAX has threads of its own; those of BLAS only wait for each other in the steps of L-BFGS.
    # In turn: a step of Adam goes on from the block before, and JAX's precision is a thread's own.
    with double_precision(), one_blas_thread(), in_turn():
        return _Fit(source, q, options).run()


# The loss ------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames=("arch",))
def _value_and_gradient(
    theta: jax.Array,
    x: jax.Array,  # (c, d) standardised, 0 where missing
    observed: jax.Array,  # (c, d) 1 where observed
    shown: jax.Array,  # (c, d) 1 where the network may look
    weight: jax.Array,  # (c,)
    cells: float,  # what the sum is divided by
    decay: float,
    arch: Architecture,
) -> tuple[jax.Array, jax.Array]:
    def loss(theta: jax.Array) -> jax.Array:
        parts = arch.split(theta)
        z = codes(x * shown, shown, parts, arch, jnp)
        apart = (reconstructions(z, parts, arch, jnp) - x) * observed
        data = jnp.sum(weight[:, None] * apart * apart) / cells
        return jnp.asarray(data + penalty(parts, decay, jnp))

    return jax.value_and_grad(loss)(theta)


@dataclass(frozen=True, eq=False)
class _Gradient:
    """Loss and gradient of some rows, to be added up."""

    value: float
    slope: Array

    def merge(self, other: _Gradient) -> _Gradient:
        return _Gradient(self.value + other.value, self.slope + other.slope)


@dataclass(frozen=True)
class _Losses:
    """Losses of the batches of a pass."""

    total: float
    batches: float  # as many as the rows would fill

    def merge(self, other: _Losses) -> _Losses:
        return _Losses(self.total + other.total, self.batches + other.batches)


# The fit -------------------------------------------------------------------------------------


class _Fit:
    """One fit: what stays the same from step to step."""

    def __init__(self, source: Source, q: int, options: AutoencoderOptions) -> None:
        self.options = options
        self.standard = Standard.of(source, options.scale)
        n = source.observed().rows
        self.held_out = HeldOut.of(n, options.validation_fraction, options.seed)
        self.blocks = TrainingBlocks.of(source, self.standard, self.held_out)
        self.arch = Architecture(
            source.n_features,
            options.hidden,
            q,
            options.activation,
            options.shortcut and len(options.hidden) > 0,
            sees_missing=options.denoising > 0.0 or self.standard.has_missing,
        )
        self.source, self.n = source, n
        self.n_train = n - self.held_out.count
        self.batch = min(
            options.batch_size or _auto_batch(self.n_train), max(self.n_train, AUTO_BATCH)
        )
        require_network(self.arch, max(self.batch, CHUNK), polish=bool(options.polish))
        self.monitor = Monitor.of(
            monitored_rows(source, self.held_out), options.denoising, options.seed
        )
        self.cells = self.blocks.reduce(ObservedWeight.of).total

    def run(self) -> AutoencoderFit:
        start = self._start()
        options = self.options
        last, trace, done = iterate(
            self._epoch, self._state(start), max_iter=options.max_iter, watch=options.watch
        )
        state: dict[str, Any] = dict(last)
        curve = state["curve"]
        theta, diverged = state["best_theta"], self._diverged(state)
        converged = done and not diverged
        stopped = converged and self.held_out.count > 0
        if self._polishes:
            theta, steps, more, polished, worse = self._polish(theta, float(state["best_loss"]))
            trace, curve = trace.then(steps), np.concatenate([curve, more])
            converged, stopped = (polished or worse) and not diverged, stopped or worse
        network = self._finished(theta)
        return AutoencoderFit(
            network,
            trace,
            np.asarray(curve if self.held_out.count else np.empty(0)),
            self.objective(network.theta, decay=0.0).value,
            self.monitor.noise(network),
            self.held_out.count,
            int(state["epoch"]),
            converged,
            stopped,
            diverged,
        )

    # Passes of Adam --------------------------------------------------------------------------

    def _state(self, theta: Array) -> State:
        loss = self.monitored(theta)
        return {
            "theta": theta,
            "first": np.zeros_like(theta),
            "second": np.zeros_like(theta),
            "count": np.array(0),
            "epoch": np.array(0),
            "rate": np.array(self.options.learning_rate),
            "start_loss": np.array(loss),
            "best_loss": np.array(loss),
            "best_theta": theta,
            "since_best": np.array(0),
            "diverged": np.array(False),
            "curve": np.empty(0),
        }

    def _epoch(self, state: State) -> Step:
        """One pass over the rows, and what the monitored rows say of it."""
        options = self.options
        known: dict[str, Any] = dict(state)
        epoch, rate = int(known["epoch"]), float(known["rate"])
        adam = Adam(known["theta"], known["first"], known["second"], int(known["count"]))
        taken = _Pass(self, adam, epoch, rate)
        losses = self.blocks.reduce(taken)
        loss = self.monitored(taken.adam.x)
        best, start = float(known["best_loss"]), float(known["start_loss"])
        exploded = not isfinite(loss) or loss > EXPLODED * max(start, 1.0)
        better = not exploded and loss < best
        change = (best - loss) / best if best > 0.0 and isfinite(loss) else 0.0
        since = 0 if better and change > options.tol else int(known["since_best"]) + 1
        if since and since % max(1, options.patience // 3) == 0:
            rate *= 0.5
        new: State = {
            "theta": taken.adam.x,
            "first": taken.adam.first,
            "second": taken.adam.second,
            "count": np.array(taken.adam.count),
            "epoch": np.array(epoch + 1),
            "rate": np.array(rate),
            "start_loss": state["start_loss"],
            "best_loss": np.array(loss if better else best),
            "best_theta": taken.adam.x if better else state["best_theta"],
            "since_best": np.array(since),
            "diverged": np.array(exploded),
            "curve": np.append(known["curve"], loss),
        }
        done = exploded or since >= options.patience or min(best, loss) <= options.tol**2
        return Step(new, losses.total / losses.batches, change, done)

    def _diverged(self, state: dict[str, Any]) -> bool:
        """Whether the passes exploded, or ended above where they began and above knowing nothing.

        The means of the columns have a loss of 1.
        """
        last, start = float(state["curve"][-1]), float(state["start_loss"])
        return bool(state["diverged"]) or last > RISEN * max(start, 1.0)

    def monitored(self, theta: Array) -> float:
        """The loss by the monitored rows, decay included: what the fit is to make small.

        Without decay the weights that fit best would be kept, however large.
        """
        loss, decay = self.monitor.loss(self.network(theta)), self.options.weight_decay
        if decay == 0.0:
            return loss
        with np.errstate(over="ignore"):  # infinite where the passes explode
            return loss + float(penalty(self.arch.split(theta), decay))

    # All rows at once ------------------------------------------------------------------------

    @property
    def _polishes(self) -> bool:
        if self.options.denoising > 0.0 or not self.blocks.are_kept:
            return False
        asked = self.options.polish
        small = self.n * self.arch.d <= AUTO_POLISH and polish_fits(self.arch)
        return small if asked is None else asked

    def _polish(self, theta: Array, best: float) -> tuple[Array, Trace, Array, bool, bool]:
        """L-BFGS from theta: weights, trace, curve, whether it converged, whether it got worse."""
        options = self.options
        if options.weight_decay == 0.0:  # codes of one size make the valley rounder
            theta = self._canonical(self.network(theta)).theta
        if self.arch.hidden:
            inputs, gradient, change = None, 1e-7, 1e-4 * options.tol
        else:  # one valley, to be followed to its end
            inputs, gradient, change = self.blocks.reduce(InputMoments.of).white(), STAYED, 0.0
        watched = _Watched(self, theta, best, inputs)
        found = minimise(
            watched.objective,
            watched.inward(theta),
            gradient=gradient,
            change=change,
            max_iter=options.max_iter,
            watch=watched,
        )
        end = watched.best if self.held_out.count else watched.outward(found.x)
        return end, found.trace, np.array(watched.curve), found.converged, watched.stopped

    def objective(self, theta: Array, decay: float | None = None) -> _Gradient:
        """Loss and gradient over all training rows: one pass."""
        decay = self.options.weight_decay if decay is None else decay
        found = self.blocks.reduce(partial(self._of_block, theta))
        slope = np.zeros_like(theta)
        parts, into = self.arch.split(theta), self.arch.split(slope)
        for W, G in zip(parts.matrices, into.matrices, strict=True):
            G[:] = decay * W
        return found.merge(_Gradient(float(penalty(parts, decay)), slope))

    def _of_block(self, theta: Array, block: StandardBlock) -> _Gradient:
        total = _Gradient(0.0, np.zeros_like(theta))
        step = min(CHUNK, padded_size(max(block.n_rows, self.batch), self.batch))
        for start in range(0, block.n_rows, step):
            rows = slice(start, start + step)
            x, observed, weight = filled_up(block, rows, step)
            value, slope = _value_and_gradient(
                theta, x, observed, observed, weight, self.cells, 0.0, arch=self.arch
            )
            total = total.merge(_Gradient(float(value), np.asarray(slope)))
        return total

    # Start and end ---------------------------------------------------------------------------

    def _start(self) -> Array:
        rng = np.random.default_rng((self.options.seed, 1))
        theta = random_weights(self.arch, rng)
        if self.options.init == "random":
            return theta
        U, sd = principal_axes(self.source, self.standard, self.arch.q, rng)
        return principal_weights(self.arch, theta, U, sd)

    def network(self, theta: Array) -> Network:
        return Network(self.arch, theta, self.standard.mean, self.standard.unit)

    def _canonical(self, network: Network) -> Network:
        Z = network.encode(self.monitor.rows.values)
        moments = self.blocks.reduce(partial(CodeMoments.of, network=network))
        return network.canonical(moments.mean, moments.covariance, Z[:CODES])

    def _finished(self, theta: Array) -> Network:
        network = self.network(theta)
        if not self.standard.varies.all():
            network = network.without_columns(~self.standard.varies)
        return self._canonical(network)


class _Pass:
    """What one pass over the blocks does to the weights.

    Stochastic gradients have to be taken one after the other: this function of a block remembers,
    and asks of a source that it hands its blocks over in order.
    """

    def __init__(self, fit: _Fit, adam: Adam, epoch: int, rate: float) -> None:
        self.fit, self.adam, self.epoch, self.rate = fit, adam, epoch, rate

    def __call__(self, block: StandardBlock) -> _Losses:
        fit, options = self.fit, self.fit.options
        seed = (options.seed, 2, self.epoch)
        rng = np.random.default_rng((options.seed, 3, self.epoch, block.start))
        # A batch stands for its share of all rows, the last one, which is smaller, for less.
        cells = fit.cells * fit.batch / fit.n_train
        total = filled = 0.0
        for at, weight in shuffled_batches(block, fit.batch, seed):
            observed = block.observed[at]
            shown = shown_cells(observed, options.denoising, rng)
            value, slope = _value_and_gradient(
                self.adam.x, block.x[at], observed, shown, weight, cells, options.weight_decay,
                arch=fit.arch,
            )  # fmt: skip
            self.adam = self.adam.step(np.asarray(slope), self.rate)
            total += float(value)
            filled += float(np.count_nonzero(weight)) / fit.batch
        return _Losses(total, max(filled, 1e-300))


class _Watched:
    """The objective of L-BFGS, and its steps as the monitored rows see them."""

    def __init__(self, fit: _Fit, theta: Array, best: float, inputs: White | None) -> None:
        self.fit, self.best, self.best_loss, self.inputs = fit, theta, best, inputs
        self.curve: list[float] = []
        self.since, self.stopped = 0, False
        self._tried: dict[float, Array] = {}

    def objective(self, at: Array) -> tuple[float, Array]:
        theta = self.outward(at)
        found = self.fit.objective(theta)
        self._tried[found.value] = theta
        return found.value, self._mapped(found.slope, lambda white: white.forth.T)

    def outward(self, at: Array) -> Array:
        """Weights, from those for white inputs."""
        return self._mapped(at, lambda white: white.forth)

    def inward(self, theta: Array) -> Array:
        return self._mapped(theta, lambda white: white.back)

    def _mapped(self, theta: Array, which: Callable[[White], Array]) -> Array:
        """The same with the weights of the data's inputs multiplied by a matrix."""
        theta = theta.copy()
        if self.inputs is not None:
            W = self.fit.arch.split(theta).encoder[0][0][: self.fit.arch.d]
            W[:] = which(self.inputs) @ W
        return theta

    def __call__(self, progress: Progress) -> None:
        if self.fit.options.watch is not None:
            self.fit.options.watch(progress)
        if not self.fit.held_out.count:
            self._tried.clear()
            return
        theta = self._tried[progress.objective]  # the one of those tried that was accepted
        self._tried.clear()
        loss = self.fit.monitored(theta)
        self.curve.append(loss)
        if loss < self.best_loss:
            clearly = loss < self.best_loss * (1.0 - self.fit.options.tol)
            self.best, self.best_loss = theta, loss
            self.since = 0 if clearly else self.since + 1
        else:
            self.since += 1
        if self.since >= max(1, self.fit.options.patience // 4):
            self.stopped = True
            raise StopIteration


def _auto_batch(n: int) -> int:
    return int(np.clip(2 ** round(np.log2(max(n / 100.0, 1.0))), AUTO_BATCH, LARGEST_BATCH))


# Adam ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Adam:
    """Parameters and what Adam remembers of their gradients."""

    x: Array
    first: Array  # m, of x's shape
    second: Array  # v
    count: int  # t, steps taken

    @classmethod
    def at(cls, x: Array) -> Adam:
        return cls(x, np.zeros_like(x), np.zeros_like(x), 0)

    def step(self, gradient: Array, rate: float) -> Adam:
        t = self.count + 1
        first = BETA1 * self.first + (1 - BETA1) * gradient
        second = BETA2 * self.second + (1 - BETA2) * (gradient * gradient)
        size = rate / (1 - BETA1**t)
        x = self.x - size * first / (np.sqrt(second / (1 - BETA2**t)) + EPS)
        return Adam(x, first, second, t)
