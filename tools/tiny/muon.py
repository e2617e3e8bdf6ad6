"""Muon: momentum whose update of a matrix is made orthogonal (K. Jordan and others, 2024).

To learn to copy a name or a place, a model needs about half as many stories with Muon as with
AdamW.
"""

from __future__ import annotations

import torch


def orthogonalized(matrices: torch.Tensor, rounds: int = 5) -> torch.Tensor:
    """Returns the nearest matrices with approximately equal singular values of a stack [count,
    rows, columns].

    A Newton-Schulz iteration with an odd polynomial of degree five. The coefficients bring the
    singular values quickly near 1, not exactly to 1.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.transpose(1, 2)
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(rounds):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide else x.transpose(1, 2)


class Muon(torch.optim.Optimizer):
    """Optimizer for the matrices inside the layers. Matrices of the same shape are updated
    together."""

    def __init__(self, params, lr: float = 0.02, momentum: float = 0.95, weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None) -> None:
        """Updates all parameters once from their gradients."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.nn.Parameter]] = {}
            for p in group["params"]:
                shapes.setdefault(p.shape, []).append(p)
            for shape, params in shapes.items():
                directions = [self._direction(p, group["momentum"]) for p in params]
                updates = orthogonalized(torch.stack(directions))
                scale = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                for p, update in zip(params, updates):
                    p.mul_(1.0 - group["lr"] * group["weight_decay"])
                    p.add_(update, alpha=-scale)

    def _direction(self, p: torch.nn.Parameter, momentum: float) -> torch.Tensor:
        """Returns the gradient with Nesterov momentum."""
        state = self.state[p]
        if "velocity" not in state:
            state["velocity"] = torch.zeros_like(p)
        state["velocity"].mul_(momentum).add_(p.grad)
        return p.grad + momentum * state["velocity"]
