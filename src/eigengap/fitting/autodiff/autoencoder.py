"""Fitting an autoencoder (Rumelhart, Hinton and Williams 1986) to the observed values of a table.

    loss = sum over observed values of (x - x^)^2 / number of observed values + decay/2 sum of
    squared weights

in standardised units. Mini-batches go through Adam, one pass over the rows a step; the rate is
halved where the monitored rows (held out, if any) get no better, and after some more passes the
best weights are kept. Where the rows lie in memory L-BFGS then goes on from there over all of them
at once, until the monitored rows get worse: Adam comes near a minimum, but not to it.

A denoising autoencoder (Vincent et al. 2008) is not shown a random share of the cells, another at
every step, and has to give them back nevertheless: what imputation asks for.

A linear network has no minimum but the principal subspace (Baldi and Hornik 1989), all other
stationary points being saddles.
"""

from __future__ import annotations

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
from eigengap.fitting.autoencoder.rows import (
    HeldOut,
    Monitor,
    Standard,
    StandardBlock,
    Sums,
    TrainingBlocks,
    monitored_rows,
    padded,
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
from eigengap.sources.base import Block, Source
from eigengap.statistics.moments import Moments

AUTO_BATCH, LARGEST_BATCH = 128, 512
AUTO_POLISH = 10**7  # cells up to which polish="auto" goes over all rows at once
CHUNK = 2048  # rows whose gradient is computed at once
EXPLODED = 1e3  # times the loss at the start, that ends the passes at once
RISEN = 2.0  # times the loss at the start and that of the columns' means, after the last pass
CODES = 2000  # at which the directions of the codes are compared
STAYED = 1e-12  # smallest gradient that a linear network is followed to
LEAST_VARIANCE = 1e-12  # of the largest, that inputs are whitened by
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


def fit_autoencoder(source: Source, q: int, options: AutoencoderOptions) -> AutoencoderFit:
    """The network of q codes that gives the observed values of the table back best."""
    # JAX has threads of its own; those of BLAS only wait for each other in the steps of L-BFGS.
    # In turn: a step of Adam goes on from the block before, and JAX's precision is a thread's own.
    with double_precision(), one_blas_thread(), in_turn():
        return _Fit(source, q, options).run()


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


class _Fit:
    """One fit: what stays the same from step to step."""

    def __init__(self, source: Source, q: int, options: AutoencoderOptions) -> None:
        self.source, self.options = source, options
        self.standard = Standard.of(source, options.scale)
        self.n = source.observed().rows
        self.held_out = HeldOut.of(self.n, options.validation_fraction, options.seed)
        self.blocks = TrainingBlocks.of(source, self.standard, self.held_out)
        self.arch = Architecture(
            source.n_features,
            options.hidden,
            q,
            options.activation,
            options.shortcut and len(options.hidden) > 0,
            sees_missing=options.denoising > 0.0 or self.standard.has_missing,
        )
        n_train = self.n_train = self.n - self.held_out.count
        auto = 2 ** round(np.log2(max(n_train / 100.0, 1.0)))
        batch = options.batch_size or int(np.clip(auto, AUTO_BATCH, LARGEST_BATCH))
        self.batch = min(batch, max(n_train, AUTO_BATCH))
        require_network(self.arch, max(self.batch, CHUNK), polish=bool(options.polish))
        rows = monitored_rows(source, self.held_out)
        self.monitor = Monitor.of(rows, options.denoising, options.seed)
        # Observed values to train on, each counting as often as its row.
        (self.cells,) = self.blocks.reduce(
            lambda block: Sums([float(np.sum(block.weight @ block.observed))])
        )

    def run(self) -> AutoencoderFit:
        options = self.options
        last, trace, done = iterate(
            self._epoch, self._state(self._start()), max_iter=options.max_iter, watch=options.watch
        )
        state: dict[str, Any] = dict(last)
        theta, curve = state["best_theta"], state["curve"]
        # Whether the passes exploded, or ended above where they began and above knowing nothing:
        # the means of the columns have a loss of 1.
        risen = curve[-1] > RISEN * max(float(state["start_loss"]), 1.0)
        diverged = bool(state["diverged"] or risen)
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
            self.objective(network.theta, decay=0.0)[0],
            self.monitor.noise(network),
            self.held_out.count,
            int(state["epoch"]),
            converged,
            stopped,
            diverged,
        )

    # Passes of Adam --------------------------------------------------------------------------

    def _state(self, theta: Array) -> State:
        loss = np.array(self.monitored(theta))
        return {
            "theta": theta,
            "first": np.zeros_like(theta),
            "second": np.zeros_like(theta),
            "count": np.array(0),
            "epoch": np.array(0),
            "rate": np.array(self.options.learning_rate),
            "start_loss": loss,
            "best_loss": loss,
            "best_theta": theta,
            "since_best": np.array(0),
            "diverged": np.array(False),
            "curve": np.empty(0),
        }

    def _epoch(self, state: State) -> Step:
        """One pass over the rows, and the loss of the monitored rows."""
        options = self.options
        known: dict[str, Any] = dict(state)
        rate, best = float(known["rate"]), float(known["best_loss"])
        adam = Adam(known["theta"], known["first"], known["second"], int(known["count"]))
        adam, mean_loss = self._pass(adam, int(known["epoch"]), rate)
        loss = self.monitored(adam.x)
        exploded = not isfinite(loss) or loss > EXPLODED * max(float(known["start_loss"]), 1.0)
        better = not exploded and loss < best
        change = (best - loss) / best if best > 0.0 and isfinite(loss) else 0.0
        since = 0 if better and change > options.tol else int(known["since_best"]) + 1
        if since and since % max(1, options.patience // 3) == 0:
            rate *= 0.5
        new = {
            "theta": adam.x,
            "first": adam.first,
            "second": adam.second,
            "count": adam.count,
            "epoch": known["epoch"] + 1,
            "rate": rate,
            "since_best": since,
            "diverged": exploded,
            "curve": np.append(known["curve"], loss),
        }
        if better:
            new |= {"best_loss": loss, "best_theta": adam.x}
        done = exploded or since >= options.patience or min(best, loss) <= options.tol**2
        arrays = {name: np.asarray(value) for name, value in (known | new).items()}
        return Step(arrays, mean_loss, change, done)

    def _pass(self, adam: Adam, epoch: int, rate: float) -> tuple[Adam, float]:
        """Adam after all batches, and their mean loss, the last counting by its share.

        Stochastic gradients have to be taken one after the other: this function of a block
        has a state, and needs the blocks of a source in order.
        """
        options = self.options
        # A batch stands for its share of all rows, the last one, which is smaller, for less.
        cells = self.cells * self.batch / self.n_train

        def of(block: StandardBlock) -> Sums:
            nonlocal adam
            rng = np.random.default_rng((options.seed, 3, epoch, block.start))
            total = batches = 0.0
            for at, weight in shuffled_batches(block, self.batch, (options.seed, 2, epoch)):
                shown = observed = block.observed[at]
                if options.denoising > 0.0:
                    shown = observed * (rng.random(observed.shape) >= options.denoising)
                value, slope = _value_and_gradient(
                    adam.x, block.x[at], observed, shown, weight, cells, options.weight_decay,
                    arch=self.arch,
                )  # fmt: skip
                adam = adam.step(np.asarray(slope), rate)
                total += float(value)
                batches += float(np.count_nonzero(weight)) / self.batch
            return Sums([total, max(batches, 1e-300)])

        total, batches = self.blocks.reduce(of)
        return adam, total / batches

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
        watched = _Watched(self, theta, best)
        linear = not self.arch.hidden  # one valley, to be followed to its end
        found = minimise(
            watched.objective,
            watched.inward(theta),
            gradient=STAYED if linear else 1e-7,
            change=0.0 if linear else 1e-4 * options.tol,
            max_iter=options.max_iter,
            watch=watched,
        )
        end = watched.best if self.held_out.count else watched.outward(found.x)
        return end, found.trace, np.array(watched.curve), found.converged, watched.stopped

    def objective(self, theta: Array, decay: float | None = None) -> tuple[float, Array]:
        """Loss and gradient over all training rows: one pass."""
        decay = self.options.weight_decay if decay is None else decay
        value, slope = self.blocks.reduce(partial(self._of_block, theta))
        of_decay = np.zeros_like(theta)
        parts, into = self.arch.split(theta), self.arch.split(of_decay)
        for W, G in zip(parts.matrices, into.matrices, strict=True):
            G[:] = decay * W
        return value + float(penalty(parts, decay)), slope + of_decay

    def _of_block(self, theta: Array, block: StandardBlock) -> Sums:
        total, step = Sums([0.0, np.zeros_like(theta)]), self.batch
        while step < min(CHUNK, block.n_rows):  # powers of two times a batch: few to compile for
            step *= 2
        step = min(CHUNK, step)
        for start in range(0, block.n_rows, step):
            x, observed, weight = padded(block, slice(start, start + step), step)
            value, slope = _value_and_gradient(
                theta, x, observed, observed, weight, self.cells, 0.0, arch=self.arch
            )
            total = total.merge(Sums([float(value), np.asarray(slope)]))
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
        parts = network.parts

        def of(block: StandardBlock) -> Moments:
            z = codes(block.x, block.observed, parts, self.arch)
            return Moments.of(Block(z, block.weight, None, block.start))

        moments = self.blocks.reduce(of)
        covariance = moments.scatter / max(moments.sum_w, 1e-300)
        return network.canonical(moments.mean, covariance, Z[:CODES])

    def _finished(self, theta: Array) -> Network:
        network = self.network(theta)
        if not self.standard.varies.all():
            network = network.without_columns(~self.standard.varies)
        return self._canonical(network)


class _Watched:
    """The objective of L-BFGS, and its steps as the monitored rows see them.

    The second moments of the inputs make the valley of a linear network narrow: L-BFGS sees x' =
    x forth, of unit variances and no correlation, and W' = back W, which have the same outputs.
    """

    def __init__(self, fit: _Fit, theta: Array, best: float) -> None:
        self.fit, self.best, self.best_loss = fit, theta, best
        self.curve: list[float] = []
        self.since, self.stopped = 0, False
        self._tried: dict[float, Array] = {}
        self._forth: Array | None = None  # (d, d)
        self._back: Array | None = None  # its inverse
        if not fit.arch.hidden:
            (scatter,) = fit.blocks.reduce(
                lambda block: Sums([block.x.T @ (block.x * block.weight[:, None])])
            )
            lam, V = np.linalg.eigh(scatter)
            lam = lam / max(float(lam[-1]), 1e-300)
            sd = np.sqrt(np.maximum(lam, LEAST_VARIANCE))
            self._forth, self._back = V / sd, sd[:, None] * V.T

    def objective(self, at: Array) -> tuple[float, Array]:
        theta = self.outward(at)
        value, slope = self.fit.objective(theta)
        self._tried[value] = theta
        return value, self._mapped(slope, None if self._forth is None else self._forth.T)

    def outward(self, at: Array) -> Array:
        """Weights, from those for white inputs."""
        return self._mapped(at, self._forth)

    def inward(self, theta: Array) -> Array:
        return self._mapped(theta, self._back)

    def _mapped(self, theta: Array, by: Array | None) -> Array:
        """The same with the weights of the data's inputs multiplied by a matrix."""
        theta = theta.copy()
        if by is not None:
            W = self.fit.arch.split(theta).encoder[0][0][: self.fit.arch.d]
            W[:] = by @ W
        return theta

    def __call__(self, progress: Progress) -> None:
        options, tried = self.fit.options, self._tried
        if options.watch is not None:
            options.watch(progress)
        self._tried = {}
        if not self.fit.held_out.count:
            return
        theta = tried[progress.objective]  # the one of those tried that was accepted
        loss = self.fit.monitored(theta)
        self.curve.append(loss)
        clearly = loss < self.best_loss * (1.0 - options.tol)
        self.since = 0 if clearly else self.since + 1
        if loss < self.best_loss:
            self.best, self.best_loss = theta, loss
        if self.since >= max(1, options.patience // 4):
            self.stopped = True
            raise StopIteration


@dataclass(frozen=True, eq=False)
class Adam:
    """Parameters and what Adam (Kingma and Ba 2015) remembers of their gradients."""

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
