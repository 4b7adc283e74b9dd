"""Training that goes on while ranks are lost and others join, without a restart.

    from weftcomm_torch import elastic

    members = elastic.join()                      # started by `weftcomm run --elastic 2:8 train.py`
    model = members.ddp(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    members.keep(model=model, optimizer=optimizer)
    for step in members.steps(100):
        optimizer.zero_grad()
        loss_of(model, step, members.rank, members.size).backward()
        members.commit(optimizer)

docs/pytorch.md says more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _members
from ._members import Change as Change
from ._members import Lost as Lost
from ._replicated import Copies, Replicated
from ._sharded import Sharded

__all__ = ["Change", "Elastic", "Lost", "Replicated", "Sharded", "join"]


class Elastic(_members.Members):
    """The members of this job. `rank`, `size`, `members`, `member` and `step` are of now; `log` has every change."""

    _model: Replicated | None = None

    def ddp(self, module: torch.nn.Module, **options: Any) -> Replicated:
        """DistributedDataParallel over the members; `options` are its own. Its gradients are averages after commit().

        Errors: RuntimeError: there is one already; several modules go into one ModuleList.
        """
        if self._model is not None:
            raise RuntimeError("weftcomm_torch.elastic: there is a model already; put several modules into one ModuleList")
        self._model = Replicated(self, module, options)
        return self._model

    def keep(self, **state: Any) -> None:  # type: ignore[override]
        """What a newcomer gets from a member: objects with state_dict() and load_state_dict(), by any names.

        Errors: RuntimeError: called twice, or after the first step.
        """
        super().keep(Copies(self._model, state))

    def commit(self, optimizer: torch.optim.Optimizer, before: Callable[[], object] | None = None) -> None:
        """Ends a step: `optimizer.step()`, after all members have all averages.

        before: called in between, for what changes or reads gradients, such as clip_grad_norm_. Errors: DistBackendError.
        """
        if self._model is None:
            raise RuntimeError("weftcomm_torch.elastic: commit() is for the model that ddp() made")
        self._model.commit()
        if before is not None:
            before()
        optimizer.step()
        self.step += 1

    def sharded(
        self, model: Callable[[Any], Any], optimizer: Callable[[Any], torch.optim.Optimizer]
    ) -> Sharded:
        """A model that `fully_shard` cuts: `model(mesh)` makes it, `optimizer(parameters)` its optimizer.

        The next member holds a copy of every shard, and steps it, too. The optimizer changes each element by itself, as SGD,
        Adam and AdamW do.
        """
        state = Sharded(self, model, optimizer)
        super().keep(state)
        return state


def join(*, timeout: float = 30.0, reproducible: bool = True, transport: str = "") -> Elastic:
    """The job that `weftcomm run --elastic` has started; the members meet when the first step begins.

    timeout: seconds that members wait for one that does not answer. reproducible, transport: as Options has them. Errors:
    RuntimeError: nothing has started this process.
    """
    from .. import _compiled

    return Elastic(_members.settings(), _compiled().Options(timeout, reproducible, "", transport), timeout)
