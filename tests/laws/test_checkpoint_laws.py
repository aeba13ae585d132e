"""A fit that is interrupted and begun again ends with the numbers of one that was not."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import eigengap as eg
from eigengap.estimators import ppca
from eigengap.exceptions import CheckpointMismatchError, CheckpointWarning, CorruptFileError
from eigengap.fitting.optimise.em import Ascent, LineSearch
from eigengap.fitting.optimise.loop import (
    Progress,
    Silent,
    Step,
    Trace,
    checkpointer_of,
    iterate,
    silenced,
)
from eigengap.persistence.checkpoint import Checkpoint, FileCheckpointer
from eigengap.persistence.tensors import read_tensors
from eigengap.sources.blocked import BlockedSource
from eigengap.sources.conversion import as_source


def incomplete(n=200, d=8, seed=0, q=2, share=0.2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, q)) @ rng.normal(size=(q, d)) + 0.5 * rng.normal(size=(n, d))
    X[rng.random(X.shape) < share] = np.nan
    return X


def clusters():
    rng = np.random.default_rng(0)
    return np.vstack([incomplete(40, 5, s) + 6 * rng.normal(size=5) for s in range(4)])


CASES = {
    "PPCA": (partial(eg.PPCA, 2), incomplete()),
    "PPCA, scaled": (partial(eg.PPCA, 2, scale=True), incomplete()),
    "PPCA, three starts": (partial(eg.PPCA, 3, n_init=3, random_state=0), incomplete(60, 10, 1)),
    "PPCA, a share of the variance": (partial(eg.PPCA, 0.8), incomplete()),
    "FactorAnalysis": (partial(eg.FactorAnalysis, 2), incomplete(60)),
    "FactorAnalysis, Student": (
        partial(eg.FactorAnalysis, 1, distribution="student"),
        incomplete(60, 5),
    ),
    "PCA": (partial(eg.PCA, 2), incomplete()),
    "BayesianPCA": (eg.BayesianPCA, incomplete(80, 9, 2, 3)),
    # Two starts, and moves of which three are given up on the way.
    "MixturePPCA": (partial(eg.MixturePPCA, 3, 1, random_state=0, tol=1e-4), clusters()[:120:2]),
    # More components than the rows bear: some die and are born again.
    "MixturePPCA, deaths": (
        partial(eg.MixturePPCA, 5, 1, random_state=0, n_init=1, tol=1e-3),
        incomplete(20, 3, 3),
    ),
}
SLOW = {
    "MixturePPCA, ranks to be found": (
        partial(eg.MixturePPCA, 3, random_state=0),
        clusters(),
    ),
    "MixturePPCA, deaths and moves": (
        partial(eg.MixturePPCA, 6, 2, random_state=1),
        incomplete(40, 4, 3),
    ),
    "BayesianPCA, many": (eg.BayesianPCA, incomplete(300, 30, 2, 12)),
}
slow = [pytest.param(case, marks=pytest.mark.slow) for case in SLOW]


class Interrupt:
    """Ctrl-C at a given pass over the rows; counts them."""

    def __init__(self, monkeypatch):
        self.at, self.passes = None, 0
        reduce = BlockedSource.reduce

        def counted(source, of):
            self.passes += 1
            if self.passes == self.at:
                raise KeyboardInterrupt
            return reduce(source, of)

        monkeypatch.setattr(BlockedSource, "reduce", counted)

    def arm(self, at=None):
        self.at, self.passes = at, 0


def numbers(model):
    """All that a fit has found, to be compared bit by bit."""
    trace = model.trace_
    W = [m.W for m in getattr(model.model_, "models", [model.model_])]
    return [
        *W,
        trace.objective,
        trace.change,
        np.array([model.log_likelihood_, model.n_iter_, model.converged_]),
    ]


def assert_same(a, b):
    for x, y in zip(numbers(a), numbers(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("case", [*CASES, *slow], ids=str)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_interrupted_at_any_pass_it_ends_as_if_it_were_not(case, monkeypatch, tmp_path):
    make, X = (CASES | SLOW)[case]
    path = tmp_path / "fit.egck"
    interrupt = Interrupt(monkeypatch)
    interrupt.arm()
    plain = make().fit(X)
    total = interrupt.passes + 1  # for the checksum of the table
    for at in np.unique(np.linspace(1, total, 9 if case in SLOW else 5).astype(int)):
        interrupt.arm(at)
        with pytest.raises(KeyboardInterrupt):
            make(checkpoint=path).fit(X)
        kept = path.exists()
        interrupt.arm()
        assert_same(make(checkpoint=path).fit(X), plain)
        assert not path.exists()
        # No step is taken twice: what is done again is the start, and what lies between runs.
        assert interrupt.passes <= total
        if at == total:
            assert kept
            assert interrupt.passes < total / 2


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "case", ["PPCA, three starts", "BayesianPCA", "MixturePPCA, deaths"], ids=str
)
def test_interrupted_again_and_again_it_arrives(case, monkeypatch, tmp_path):
    make, X = CASES[case]
    plain = make().fit(X)
    keep = FileCheckpointer.keep
    steps, notes = [], []

    def four_steps(checkpointer, *args, **kwargs):
        keep(checkpointer, *args, **kwargs)
        steps.append(1)
        if len(steps) % 4 == 0:
            raise KeyboardInterrupt

    monkeypatch.setattr(FileCheckpointer, "keep", four_steps)
    for _ in range(1000):
        try:
            model = make(checkpoint=tmp_path / "fit.egck").fit(X)
            break
        except KeyboardInterrupt as error:
            notes.append(error.__notes__[0])
    assert len(notes) >= 3
    assert all("fit again with the same data" in note for note in notes)
    assert_same(model, plain)


def test_more_steps_go_on_from_the_last(tmp_path):
    """What max_iter has ended is not lost: a larger one continues, and ends as it would have."""
    X, path = incomplete(60, 10, 1), tmp_path / "fit.egck"
    make = partial(eg.PPCA, 3, n_init=2, random_state=0, tol=1e-8)
    plain = make().fit(X)
    with pytest.warns(ConvergenceWarning):
        short = make(max_iter=6, checkpoint=path).fit(X)
    assert path.exists()
    assert not short.converged_
    assert_same(make(checkpoint=path).fit(X), plain)
    assert not path.exists()


def test_a_seed_that_was_drawn_is_kept(monkeypatch, tmp_path):
    """random_state=None draws a new one at each fit; one that goes on has that of its beginning."""
    X, path = incomplete(60, 10, 1), tmp_path / "fit.egck"
    seeds = []
    original = ppca.fit_ppca

    def noted(*args, options, **kwargs):
        seeds.append(options.seed)
        return original(*args, options=options, **kwargs)

    monkeypatch.setattr(ppca, "fit_ppca", noted)
    interrupt = Interrupt(monkeypatch)
    interrupt.arm(20)
    with pytest.raises(KeyboardInterrupt):
        eg.PPCA(3, n_init=3, checkpoint=path).fit(X)
    interrupt.arm()
    eg.PPCA(3, n_init=3, checkpoint=path).fit(X)
    eg.PPCA(3, n_init=3, checkpoint=path).fit(X)
    assert seeds[0] == seeds[1] != seeds[2]


@pytest.fixture
def left(monkeypatch, tmp_path):
    """The checkpoint of a fit of PPCA(2) to gappy(), interrupted."""
    path = tmp_path / "fit.egck"
    with monkeypatch.context() as patch:
        Interrupt(patch).arm(6)
        with pytest.raises(KeyboardInterrupt):
            eg.PPCA(2, checkpoint=path).fit(incomplete())
    return path


def changed(row, column):
    X = incomplete()
    X[row, column] += 1.0
    return X


def first_observed(row):
    return int(np.argmax(~np.isnan(incomplete()[row])))


@pytest.mark.parametrize(
    ("make", "X", "told"),
    [
        (partial(eg.PPCA, 3), incomplete(), "n_components='2', now '3'"),
        (partial(eg.PPCA, 2, tol=1e-7), incomplete(), "tol='1e-06', now '1e-07'"),
        (partial(eg.PCA, 2), incomplete(), "estimator PPCA, now PCA"),
        (partial(eg.PPCA, 2), incomplete()[:-1], r"rows \(200, now 199\)"),
        (partial(eg.PPCA, 2), incomplete(share=0.3), "seen cells"),
        (partial(eg.PPCA, 2), 2 * incomplete(), "values"),
        (partial(eg.PPCA, 2), incomplete()[::-1], "values"),
        (partial(eg.PPCA, 2), changed(199, first_observed(199)), "values"),
        (partial(eg.PPCA, 2), changed(101, first_observed(101)), "values"),
    ],
    ids=["rank", "tol", "estimator", "rows", "gaps", "values", "order", "last row", "one value"],
)
def test_another_fit_is_refused_and_told(make, X, told, left):
    before = left.read_bytes()
    with pytest.raises(CheckpointMismatchError, match=told) as refused:
        make(checkpoint=left).fit(X)
    assert "another path" in str(refused.value)
    assert left.read_bytes() == before


def test_what_does_not_matter_may_change(left, capsys):
    plain = eg.PPCA(2).fit(incomplete())
    assert_same(
        eg.PPCA(2, checkpoint=str(left), verbose=True, max_iter=500).fit(incomplete()), plain
    )
    assert capsys.readouterr().err.count("\n") == 1


def test_the_same_table_elsewhere_goes_on(left, tmp_path):
    """A fingerprint does not ask where the data are, nor how they are cut."""
    np.save(tmp_path / "table.npy", incomplete())
    plain = eg.PPCA(2).fit(incomplete())
    model = eg.PPCA(2, checkpoint=left).fit(tmp_path / "table.npy")
    assert not left.exists()
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-12)
    assert model.n_iter_ == plain.n_iter_


def test_a_file_is_read_once_more_for_it(tmp_path):
    """The checksum of all values needs a pass of its own."""
    np.save(tmp_path / "table.npy", incomplete())
    passes = []
    for checkpoint in (None, tmp_path / "fit.egck"):
        source = as_source(tmp_path / "table.npy")
        eg.PPCA(2, checkpoint=checkpoint).fit(source)
        passes.append(source.passes)
    assert passes[0] + 1 == passes[1] > 5


def test_the_same_table_in_blocks_goes_on(left):
    plain = eg.PPCA(2).fit(incomplete())
    model = eg.PPCA(2, checkpoint=left).fit(as_source(incomplete(), block_rows=17))
    assert not left.exists()
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-12)


def test_known_noise_of_cells_is_part_of_the_data(monkeypatch, tmp_path):
    X, path = incomplete(), tmp_path / "fit.egck"
    sd = np.full(X.shape, 0.3)
    interrupt = Interrupt(monkeypatch)
    interrupt.arm(8)
    with pytest.raises(KeyboardInterrupt):
        eg.PPCA(2, checkpoint=path).fit(X, cell_sd=sd)
    interrupt.arm()
    for other in (None, 2 * sd):
        with pytest.raises(CheckpointMismatchError, match="cell_sd"):
            eg.PPCA(2, checkpoint=path).fit(X, cell_sd=other)
    assert_same(eg.PPCA(2, checkpoint=path).fit(X, cell_sd=sd), eg.PPCA(2).fit(X, cell_sd=sd))


def test_a_damaged_checkpoint_is_refused(left):
    data = bytearray(left.read_bytes())
    data[-9] ^= 1
    left.write_bytes(bytes(data))
    with pytest.raises(CorruptFileError, match="Give another path"):
        eg.PPCA(2, checkpoint=left).fit(incomplete())


def test_a_fit_without_steps_leaves_and_removes_nothing(tmp_path):
    """The closed form has nothing to keep; nor is a file that another fit put there ours."""
    X, path = np.nan_to_num(incomplete()), tmp_path / "fit.egck"
    eg.PPCA(2, checkpoint=path).fit(X)
    assert list(tmp_path.iterdir()) == []


def test_another_fits_file_is_left_alone(monkeypatch, tmp_path):
    path = tmp_path / "fit.egck"
    keep, n = FileCheckpointer.keep, []

    def overtaken(checkpointer, *args, **kwargs):
        keep(checkpointer, *args, **kwargs)
        n.append(1)
        if len(n) == 3:
            path.write_bytes(b"of another fit")

    monkeypatch.setattr(FileCheckpointer, "keep", overtaken)
    eg.PPCA(2, checkpoint=path).fit(incomplete())
    assert path.read_bytes() == b"of another fit"


def test_writing_takes_a_twentieth_of_the_time_at_most(monkeypatch, tmp_path):
    """With a clock that stands still but for steps of 1 s and writings of 2 s."""
    import eigengap.persistence.checkpoint as module

    now, written = [0.0], []
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

    def slow(*args, **kwargs):
        now[0] += 2.0
        written.append(now[0])

    monkeypatch.setattr(module.FileCheckpointer, "_write", slow)
    checkpointer = FileCheckpointer(Checkpoint(tmp_path / "fit.egck", every=5.0), {})

    def step(state):
        now[0] += 1.0
        return Step(state, 0.0, 1.0, done=False)

    iterate(step, {"x": np.zeros(1)}, max_iter=400, watch=Silent(checkpointer))
    assert written[0] == pytest.approx(7.0)
    assert np.all(np.diff(written) >= 40.0)
    assert len(written) > 8


def test_every_step_is_written_where_every_is_0(tmp_path):
    path = tmp_path / "fit.egck"
    checkpointer = FileCheckpointer.open(Checkpoint(path, every=0.0), {})
    observed = []

    def step(state):
        if path.exists():
            observed.append(float(read_tensors(path, kind="checkpoint")[0]["0.state.x"]))
        return Step({"x": state["x"] + 1.0}, 0.0, 1.0, done=False)

    iterate(step, {"x": np.array(0.0)}, max_iter=5, watch=Silent(checkpointer))
    assert observed == [1.0, 2.0, 3.0, 4.0]


# The loop by itself ------------------------------------------------------------------------


class Memory:
    """A keeper in memory."""

    def __init__(self, left=None):
        self.left, self.kept = left, []

    def begin(self, start):
        del start
        return self.left

    def keep(self, state, steps, *, done):
        self.kept.append((dict(state), len(steps), done))


def halving(state):
    x = state["x"] / 2
    return Step({"x": x, "memory": x}, float(-x), float(x), done=bool(x < 1e-3))


@pytest.mark.parametrize("searches", [False, True], ids=["EM", "climb"])
def test_the_state_of_em_is_arrays_and_back(searches):
    search = LineSearch(np.ones(2), np.ones(2), 0.5, np.ones(2), 1.0, 0.25) if searches else None
    points = np.arange(6.0).reshape(3, 2)
    vectors = dict(zip(("theta", "best", "image", "top"), np.eye(4, 2), strict=True))
    state = Ascent(
        **vectors,
        points=points,
        images=points + 1,
        cells=8.0,
        until_jump=3,
        jump_wait=10,
        value=-1.5,
        climbs=searches,
        search=search,
    )
    arrays = state.arrays()
    assert all(isinstance(value, np.ndarray) for value in arrays.values())
    assert ("direction" in arrays) == searches
    start = Ascent(*np.zeros((3, 2)), points[:0], points[:0], np.zeros(2), 1.0, 10, 10)
    back = start.restored(arrays)
    assert type(back.climbs) is bool
    assert type(back.until_jump) is int
    for name, value in back.arrays().items():
        np.testing.assert_array_equal(value, arrays[name])


def test_the_loop_tells_its_checkpointer_every_step_and_at_the_end_only_the_outcome():
    checkpointer = Memory()
    state, trace, done = iterate(
        halving, {"x": np.array(1.0)}, max_iter=50, watch=Silent(checkpointer), outcome=["x"]
    )
    assert done
    assert [count for _, count, _ in checkpointer.kept] == list(range(1, len(trace) + 1))
    assert [set(state) for state, _, _ in checkpointer.kept[:-1]] == [{"x", "memory"}] * (
        len(trace) - 1
    )
    assert checkpointer.kept[-1] == ({"x": state["x"]}, len(trace), True)


def test_a_watch_sees_again_what_was_observed_before():
    from eigengap.fitting.optimise.loop import ResumeState

    whole = []
    iterate(halving, {"x": np.array(1.0)}, max_iter=50, watch=whole.append)

    class Line(list):
        checkpointer = Memory(
            ResumeState(
                {"x": np.array(0.25)},
                Trace(np.array([-0.5, -0.25]), np.array([0.5, 0.25]), np.array([7.0, 8.0])),
                False,
            )
        )
        __call__ = list.append
        __hash__ = None

    line = Line()
    _, trace, _ = iterate(halving, {"x": np.array(1.0)}, max_iter=50, watch=line)
    facts = [(p.iteration, p.objective, p.change) for p in line]
    assert facts == [(p.iteration, p.objective, p.change) for p in whole]
    assert trace.seconds[0] == 7.0
    assert np.all(np.diff(trace.seconds) >= 0)


def test_what_only_compares_is_kept_in_silence():
    checkpointer = Memory()
    told = []

    class Loud:
        def __init__(self):
            self.checkpointer = checkpointer

        def __call__(self, progress: Progress):
            told.append(progress)

    quiet = silenced(Loud())
    assert checkpointer_of(quiet) is checkpointer
    iterate(halving, {"x": np.array(1.0)}, max_iter=3, watch=quiet)
    assert told == []
    assert len(checkpointer.kept) == 3
    assert silenced(told.append) is None
    assert silenced(None) is None


def test_a_run_of_another_shape_is_begun_anew(tmp_path):
    path = tmp_path / "fit.egck"
    first = FileCheckpointer.open(Checkpoint(path, every=0.0), {"estimator": "A", "version": "1"})
    first.identity |= {"parameters": {}, "data": {}}
    iterate(halving, {"x": np.array(1.0)}, max_iter=3, watch=Silent(first))
    again = FileCheckpointer.open(Checkpoint(path), first.identity)
    with pytest.warns(CheckpointWarning, match="fitted anew"):
        _, trace, _ = iterate(
            lambda state: Step(state, 0.0, 0.0, done=True),
            {"x": np.zeros(2)},
            max_iter=3,
            watch=Silent(again),
        )
    assert len(trace) == 1


# As a parameter ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["fit.egck", Checkpoint("fit.egck", every=5.0)], ids=["path", "Checkpoint"]
)
def test_clone_and_set_params(given):
    model = clone(eg.PPCA(2, checkpoint=given))
    assert model.checkpoint == given
    assert clone(model.set_params(checkpoint=None)).checkpoint is None


def test_what_is_no_path_is_refused():
    with pytest.raises(ValueError, match="checkpoint"):
        eg.PPCA(2, checkpoint=3).fit(incomplete())
    with pytest.raises(ValueError, match="every"):
        Checkpoint("fit.egck", every=-1.0)
    with pytest.raises(TypeError, match="path"):
        Checkpoint(3)


def test_the_file_holds_no_pickle_and_others_can_read_it(left):
    from safetensors.numpy import load_file

    arrays = load_file(left)
    assert "0.trace" in arrays
    assert b"pickle" not in left.read_bytes()
    _, header = read_tensors(left, kind="checkpoint")
    assert header["identity"]["estimator"] == "PPCA"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eg.PPCA(2, checkpoint=left).fit(incomplete())
