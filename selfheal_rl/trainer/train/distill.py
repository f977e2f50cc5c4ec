"""One small network that decides as several seeds together do.

Policy distillation (Rusu et al. 2016, eq. 3): the student minimises the KL divergence from the
teacher's masked action probabilities, here on states that the teacher meets. The mean of the seeds
decides better than any one of them; the student keeps that at the decision time of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from selfheal_rl.trainer.train.network import Layer, Network
from selfheal_rl.trainer.train.onnx_file import MaskedPolicy
from selfheal_rl.trainer.train.states import States


@dataclass(frozen=True)
class DistillOptions:
    """How the student learns.

    Attributes:
        states: that the teacher meets.
        epochs: over them.
        batch: states per gradient step.
        learning_rate: first and last, linear in between.
        value_weight: of the squared error of values beside the divergence.
    """

    states: int = 300_000
    epochs: int = 30
    batch: int = 2048
    learning_rate: tuple[float, float] = (1e-3, 2e-5)
    value_weight: float = 0.5


def distill(
    members: Sequence[Network], states: States, options: DistillOptions, seed: int
) -> Network:
    """The student of the members' mean.

    Args:
        members: teachers, all of one shape; the student starts from the first.
        states: to learn on.
        options: see there.
        seed: of the order of states.

    Returns:
        A network of the members' shape.
    """
    observation, mask = torch.from_numpy(states.observation), torch.from_numpy(states.mask)
    with torch.no_grad():
        logits, values, _ = MaskedPolicy(members)(observation, mask)
    target = torch.log_softmax(logits, dim=1)
    student = MaskedPolicy(members[:1])
    parameters = [p for p in student.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=options.learning_rate[0])
    generator = torch.Generator().manual_seed(seed)
    steps = options.epochs * (len(target) // options.batch)
    first, last = options.learning_rate
    taken = 0
    for _ in range(options.epochs):
        order = torch.randperm(len(target), generator=generator)
        for start in range(0, len(order) - options.batch + 1, options.batch):
            at = order[start : start + options.batch]
            optimizer.param_groups[0]["lr"] = first + (last - first) * taken / steps
            guess, value, _ = student(observation[at], mask[at])
            loss = _divergence(target[at], torch.log_softmax(guess, dim=1))
            loss = loss + options.value_weight * (value - values[at]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            taken += 1
    return Network(*(_layers(tower[0]) for tower in (student.actors, student.critics)))


def _divergence(target: Tensor, guess: Tensor) -> Tensor:
    return (target.exp() * (target - guess)).sum(dim=1).mean()


def _layers(tower: nn.Module) -> tuple[Layer, ...]:
    linears = [m for m in tower.modules() if isinstance(m, nn.Linear)]
    return tuple(
        (x.weight.detach().numpy().copy(), x.bias.detach().numpy().copy()) for x in linears
    )
