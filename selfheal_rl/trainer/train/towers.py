"""Actor and critic as two tanh towers: forward pass and gradient in closed form.

Autograd spends half its time on bookkeeping for networks this small. The formulas are those of a
multilayer perceptron; a test holds them to autograd.
"""

from typing import Any

import torch
from torch import Tensor, nn


def _linears(module: nn.Module) -> list[nn.Linear]:
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear)]


class Towers:
    """The parameters of an SB3 actor-critic, shared, not copied.

    Both towers must have the same number of hidden layers; the first layers of both read the same
    input and run as one product.

    Args:
        policy: with ``mlp_extractor``, ``action_net`` and ``value_net``.
    """

    def __init__(self, policy: nn.Module) -> None:
        module: Any = policy
        extractor = module.mlp_extractor
        self.actor = [*_linears(extractor.policy_net), *_linears(module.action_net)]
        self.critic = [*_linears(extractor.value_net), *_linears(module.value_net)]
        self._kept: tuple[Tensor, list[Tensor], list[Tensor]] | None = None

    @torch.no_grad()
    def forward(self, observation: Tensor, *, keep: bool = False) -> tuple[Tensor, Tensor]:
        """Unmasked logits (N, 17) and values (N,).

        Args:
            observation: (N, width).
            keep: hold on to activations for :meth:`backward`.
        """
        first_a, first_c = self.actor[0], self.critic[0]
        weight = torch.cat([first_a.weight, first_c.weight])
        bias = torch.cat([first_a.bias, first_c.bias])
        hidden = torch.addmm(bias, observation, weight.t()).tanh_()
        width = first_a.out_features
        a, c = [hidden[:, :width]], [hidden[:, width:]]
        for layers, kept in ((self.actor, a), (self.critic, c)):
            for layer in layers[1:-1]:
                kept.append(torch.addmm(layer.bias, kept[-1], layer.weight.t()).tanh_())
        if keep:
            self._kept = (observation, a, c)
        logits = torch.addmm(self.actor[-1].bias, a[-1], self.actor[-1].weight.t())
        values = torch.addmm(self.critic[-1].bias, c[-1], self.critic[-1].weight.t())
        return logits, values.squeeze(1)

    @torch.no_grad()
    def backward(self, d_logits: Tensor, d_values: Tensor) -> None:
        """Set ``grad`` of every parameter after ``forward(..., keep=True)``.

        Args:
            d_logits: derivative of the loss by the unmasked logits, (N, 17).
            d_values: by the values, (N,).
        """
        if self._kept is None:
            raise RuntimeError("backward() without forward(keep=True); call that first")
        observation, a, c = self._kept
        self._kept = None
        first = torch.cat(
            [
                self._down(self.actor, a, d_logits),
                self._down(self.critic, c, d_values.unsqueeze(1)),
            ],
            dim=1,
        )
        weight, bias = first.t() @ observation, first.sum(0)
        width = self.actor[0].out_features
        self.actor[0].weight.grad, self.critic[0].weight.grad = weight[:width], weight[width:]
        self.actor[0].bias.grad, self.critic[0].bias.grad = bias[:width], bias[width:]

    @staticmethod
    def _down(layers: list[nn.Linear], kept: list[Tensor], delta: Tensor) -> Tensor:
        """Gradients of all layers but the first; returns the delta at the first's output."""
        for layer, below in zip(layers[:0:-1], kept[::-1], strict=True):
            layer.weight.grad, layer.bias.grad = delta.t() @ below, delta.sum(0)
            # d tanh(x)/dx = 1 - tanh(x)^2
            slope = torch.addcmul(torch.ones(()), below, below, value=-1.0)
            delta = (delta @ layer.weight).mul_(slope)
        return delta
