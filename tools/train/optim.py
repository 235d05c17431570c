# SPDX-License-Identifier: MIT
# Muon: momentum whose update is orthogonalised by a Newton-Schulz iteration, for the 2-D weights inside the layers.
# Matrices of one shape are stacked and treated in one batched product, which is what makes it cheap on a CPU.
import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # quintic whose iterates send singular values near 1 quickly


def orthogonalise(g, steps, dtype):
    """The nearest semi-orthogonal matrices, roughly, of a stack [n, rows, columns]."""
    a, b, c = COEFFICIENTS
    x = g.to(dtype)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-7).to(dtype)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95, weight_decay=0.0, steps=5, dtype=torch.float32):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, steps=steps))
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(tuple(p.shape), []).append(p)
            for (rows, columns), params in shapes.items():
                updates = []
                for p in params:
                    state = self.state[p]
                    if not state:
                        state["momentum"] = torch.zeros_like(p)
                    m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(m, group["momentum"]))
                stack = orthogonalise(torch.stack(updates), group["steps"], self.dtype)
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for p, u in zip(params, stack):
                    p.mul_(1 - group["lr"] * group["weight_decay"]).add_(u, alpha=-scale)
