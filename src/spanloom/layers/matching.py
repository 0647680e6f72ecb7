"""Bipartite matching: which row stands for which column, so that all costs together are least."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor


def matched(costs: Tensor, counts: Tensor, repeat: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """The pairs of each problem of a batch, as (problem, row, column), each [pairs], on the CPU.

    costs [P, K, N], of which problem p has the first counts[p] columns. A row has at most one column. A column has one
    row; with `repeat`, columns go round until there are as many as rows, so that every row has one.
    """
    problems, rows, columns = [], [], []
    n_rows = costs.shape[1]
    # what is not finite would stop here, and the trainer could not tell which sentences it came from
    table = costs.detach().double().nan_to_num().cpu().numpy()
    for problem, count in enumerate(counts.tolist()):
        if not count:
            continue
        which = np.arange(max(n_rows, count) if repeat else count) % count
        row, place = linear_sum_assignment(table[problem][:, which])
        problems.append(np.full(len(row), problem))
        rows.append(row)
        columns.append(which[place])
    found = [np.concatenate([np.zeros(0, np.int64), *part]) for part in (problems, rows, columns)]
    return torch.from_numpy(found[0]), torch.from_numpy(found[1]), torch.from_numpy(found[2])
