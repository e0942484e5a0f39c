"""Training in fp16: torch's own loop with a GradScaler is the oracle; what an overflow, and what NaN, leads to."""

import math

import pytest
import torch
from torch.amp import GradScaler

from dragoman.shared.batches.loader import Loader
from dragoman.shared.errors import DataError
from dragoman.shared.objectives import CrossEntropy, EncoderDecoderObjective
from dragoman.shared.objectives.objective import Loss, Term
from dragoman.shared.training.checkpoints import Checkpoints, list_checkpoints
from dragoman.shared.training.fit import Fit
from dragoman.shared.training.history import History, Meter
from dragoman.shared.training.loss_scale import hopeless, loss_scaler
from dragoman.shared.training.optimizer import Adam, set_learning_rate
from dragoman.shared.training.update import Learner
from tests.small import refuses

TOO_LARGE = 2.0**40  # gradients overflow a dozen times before the factor is small enough


def batches(world, number):
    loader = Loader(streams=[world.stream(rows=12)], seed=1)
    found = [batch for epoch in range(number) for batch in loader.epoch(epoch)]
    return found[:number]


def objective(world):
    return EncoderDecoderObjective(system=world.system(), parts=[CrossEntropy(label_smoothing=0.1)])


def as_torch_does(world, number):
    """The loop of torch's documentation; return the parameters and the factor after each update."""
    model = objective(world).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    scaler = GradScaler("cpu", init_scale=TOO_LARGE, growth_interval=8)
    scales = []
    for batch in batches(world, number):
        with torch.autocast("cpu", dtype=torch.float16):
            term = model(batch).parts["cross_entropy"]
            loss = term.sum / term.count
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return model.state_dict(), scales


def test_updates_are_those_of_torchs_own_loop(world, workspace):
    wanted, scales = as_torch_does(world, 40)
    assert min(scales) < TOO_LARGE / 2**8 and scales[-1] > min(scales), "it has not overflowed, or not grown again"
    learner_objective = objective(world)
    optimizer = Adam().build(learner_objective)
    set_learning_rate(optimizer, 0.01)
    scaler = GradScaler("cpu", init_scale=TOO_LARGE, growth_interval=8)
    learner = Learner(learner_objective, learner_objective, optimizer, 0.5, scaler=scaler)
    meter, found = Meter(), []
    for batch in batches(world, 40):
        learner.update([batch], meter, workspace(precision="fp16"))
        found.append(scaler.get_scale())
    assert found == scales
    for name, tensor in learner_objective.state_dict().items():
        torch.testing.assert_close(tensor, wanted[name], atol=1e-6, rtol=1e-4)
    done = sum(after >= before for before, after in zip([TOO_LARGE, *found], found, strict=False))
    assert meter.skipped_rows() == [] and meter.state()["updates"] == done < 40
    assert math.isfinite(meter.state()["norm"])


def test_several_batches_of_an_update_share_a_factor(world, workspace):
    """Gradients of halves, scaled, add up to those of the whole in single precision."""
    parts = batches(world, 2)
    vectors = []
    for precision in ("fp32", "fp16"):
        own = objective(world)
        optimizer = torch.optim.SGD([{"params": list(own.parameters()), "multiplier": 1.0}], lr=1.0, fused=True)
        before = torch.cat([p.detach().flatten() for p in own.parameters()]).clone()
        place = workspace(precision=precision)
        Learner(own, own, optimizer, scaler=loss_scaler(place)).update(parts, Meter(), place)
        vectors.append(before - torch.cat([p.detach().flatten() for p in own.parameters()]))
    assert vectors[0].norm() > 0.1
    apart = float((vectors[0] - vectors[1]).norm() / vectors[0].norm())
    assert 0 < apart < 5e-3


def test_a_run_in_fp16_goes_on_with_the_same_bits(world, workspace):
    def fit(updates):
        return world.fit(objective=objective(world), updates=updates, checkpoints=Checkpoints(keep="last 9", every=4))

    fit(12).run(workspace("whole", precision="fp16"))
    fit(4).run(workspace("cut", precision="fp16"))
    folder = workspace("cut").folder / "checkpoints"
    [stored] = list_checkpoints(folder)
    training = stored.training()
    assert training["scaler"]["scale"] == 65536.0 and training["scaler"]["_growth_tracker"] == 4
    fit(12).run(workspace("cut", precision="fp16"))
    first, second = (list_checkpoints(workspace(name).folder / "checkpoints")[-1] for name in ("whole", "cut"))
    assert first.training()["scaler"]["_growth_tracker"] == second.training()["scaler"]["_growth_tracker"] == 12
    ours, theirs = first.tensors(), second.tensors()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    row = History(workspace("cut").folder).rows()[-1]
    assert row["loss_scale"] == 65536.0 and 0 < row["grad_norm"] < 100


def test_what_was_begun_in_another_precision_goes_on(world, workspace):
    world.fit(updates=4).run(workspace(precision="bf16"))
    world.fit(updates=8).run(workspace(precision="fp16"))
    assert list_checkpoints(workspace().folder / "checkpoints")[-1].training()["scaler"]["_growth_tracker"] == 4


class Spoiled(EncoderDecoderObjective):
    """Multiplies the loss of the third update, or that of all, by a factor."""

    factor, always, asked = 1.0, False, 0

    def forward(self, batch):
        self.asked += 1
        factor = self.factor if self.always or self.asked == 3 else 1.0
        loss = super().forward(batch)
        return Loss({n: Term(t.sum * factor, t.count, t.weight) for n, t in loss.parts.items()})


def spoiled(world, factor, *, always=False):
    made = Spoiled(system=world.system(), parts=[CrossEntropy()])
    made.factor, made.always = factor, always
    return made


def test_a_loss_that_is_not_finite_stops_the_run_and_names_rows(world, workspace):
    with pytest.raises(DataError, match=r"not finite.*r\d+.*in fp16 nothing may be above 65504: bf16 or fp32 may do"):
        world.fit(objective=spoiled(world, float("nan")), updates=25).run(workspace(precision="fp16"))


def test_a_gradient_that_overflows_once_is_passed_over(world, workspace):
    world.fit(objective=spoiled(world, 1e9), updates=8).run(workspace(precision="fp16"))
    checkpoint = list_checkpoints(workspace().folder / "checkpoints")[-1]
    assert checkpoint.training()["scaler"]["scale"] == 65536.0 / 2


def test_gradients_that_always_overflow_stop_the_run(world, workspace):
    fit = world.fit(objective=spoiled(world, 1e12, always=True), updates=200)
    assert isinstance(fit, Fit)
    refuses(DataError, r"not finite.*r\d+", fit.run, workspace(precision="fp16"))


@pytest.mark.parametrize(
    ("precision", "skipped", "loss", "factor", "wanted"),
    [
        ("fp32", 1.0, 3.0, None, 1.0),
        ("bf16", 0.0, 3.0, None, 0.0),
        ("fp16", 1.0, 3.0, 65536.0, 0.0),
        ("fp16", 1.0, float("inf"), 65536.0, 1.0),
        ("fp16", 1.0, 3.0, 2.0**-10, 1.0),
        ("fp16", 1.0, 3.0, 2.0**-9, 0.0),
        ("fp16", 0.0, 3.0, 2.0**-12, 0.0),
    ],
)
def test_only_what_a_smaller_factor_cannot_mend_is_hopeless(workspace, precision, skipped, loss, factor, wanted):
    scaler = loss_scaler(workspace(precision=precision))
    assert scaler.is_enabled() == (precision == "fp16")
    if factor is not None:
        scaler = GradScaler("cpu", init_scale=factor)
    assert float(hopeless(scaler, torch.tensor(skipped), torch.tensor(loss))) == wanted
