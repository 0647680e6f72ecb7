"""The state of a training between two epochs: tensors in safetensors, the rest in JSON, no pickle.

Random numbers need no state: every epoch seeds them anew from the run's seed.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from spanloom.errors import InputError

WEIGHTS, OPTIMIZER, PROGRESS = "model.safetensors", "optimizer.safetensors", "progress.json"


@dataclass(slots=True)
class Best:
    """The best epoch of an output so far; where there is no dev, the last one."""

    best_f1: float = -1.0
    best_epoch: int = 0


@dataclass(slots=True)
class Progress(Best):
    """How far a training has come, and its best; beside it that of the partner, where it has one."""

    epoch: int = 0
    step: int = 0
    curve: list[dict[str, Any]] = field(default_factory=list)
    partner: Best = field(default_factory=Best)

    @property
    def bests(self) -> tuple[Best, Best]:
        return self, self.partner

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Progress:
        return cls(**{**found, "partner": Best(**found.get("partner", {}))})


def save_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
    """Writes beside, then puts in place; killed at any moment, one whole state remains."""
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, fresh / WEIGHTS)
    moments = {
        f"{index}.{name}": tensor.contiguous()
        for index, state in optimizer.state_dict()["state"].items()
        for name, tensor in state.items()
    }
    save_file(moments, fresh / OPTIMIZER)
    (fresh / PROGRESS).write_text(json.dumps(asdict(progress)), encoding="utf-8")
    if folder.exists():  # if not, the old one is the only whole state
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def load_state(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Progress | None:
    """Goes back to the last whole state; None where there is none yet."""
    folder = folder if folder.exists() else folder.with_name(folder.name + ".old")
    if not folder.exists():
        return None
    try:
        progress = Progress.from_dict(json.loads((folder / PROGRESS).read_text(encoding="utf-8")))
        model.load_state_dict(load_file(folder / WEIGHTS))
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in load_file(folder / OPTIMIZER).items():
            index, _, moment = name.partition(".")
            moments.setdefault(int(index), {})[moment] = tensor
        optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError, SafetensorError) as error:
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"is damaged, and cannot be resumed: {said}", folder) from None
    return progress


def drop_state(folder: Path) -> None:
    """Takes the state away in one move: killed in the middle, no half of it is left under its name."""
    fresh, old = folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")
    shutil.rmtree(fresh, ignore_errors=True)
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(fresh)
    elif old.exists():
        old.rename(fresh)
    shutil.rmtree(fresh, ignore_errors=True)
