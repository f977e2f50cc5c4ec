import itertools

import pytest
import torch
from torch import nn

from selfheal_rl.trainer.train.towers import Towers


class Plain(nn.Module):
    def __init__(self, hidden: list[int]) -> None:
        super().__init__()
        sizes = [12, *hidden]

        def tower() -> nn.Sequential:
            layers: list[nn.Module] = []
            for a, b in itertools.pairwise(sizes):
                layers += [nn.Linear(a, b), nn.Tanh()]
            return nn.Sequential(*layers)

        self.mlp_extractor = nn.Module()
        self.mlp_extractor.policy_net, self.mlp_extractor.value_net = tower(), tower()
        self.action_net, self.value_net = nn.Linear(sizes[-1], 5), nn.Linear(sizes[-1], 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        e = self.mlp_extractor
        return self.action_net(e.policy_net(x)), self.value_net(e.value_net(x))[:, 0]


@pytest.mark.parametrize("hidden", [[8], [8, 6], [8, 6, 7]])
def test_forward_and_gradient_agree_with_autograd(hidden: list[int]) -> None:
    torch.manual_seed(0)
    net = Plain(hidden)
    x = torch.randn(9, 12)
    d_logits, d_values = torch.randn(9, 5), torch.randn(9)
    logits, values = net(x)
    (logits * d_logits).sum().add((values * d_values).sum()).backward()
    wanted = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()

    towers = Towers(net)
    found = towers.forward(x, keep=True)
    torch.testing.assert_close(found[0], logits)
    torch.testing.assert_close(found[1], values)
    towers.backward(d_logits, d_values)
    for parameter, gradient in zip(net.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_backward_needs_a_forward_that_kept_its_activations() -> None:
    with pytest.raises(RuntimeError, match="keep=True"):
        Towers(Plain([4])).backward(torch.zeros(1, 5), torch.zeros(1))
