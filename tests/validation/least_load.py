"""The least largest load of experts on ranks, by HiGHS inside scipy: the tests' second opinion.

Reads lines `KIND RANKS SLOTS LOAD ...` and prints for each `OPTIMUM BOUND`: KIND whole places each expert on one rank,
KIND divided lets several ranks hold it and divides its load among them as is best. OPTIMUM and BOUND are the best found
and what was proved within the time limit (seconds, argument, default 20).
"""
import sys

import numpy
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix


def least_load(kind, ranks, slots, loads, time_limit):
    experts = len(loads)
    held = experts * ranks  # x[e, r]: r holds e; divided: y[e, r] of its load, as a share; last: the largest load
    n = held * (2 if kind == "divided" else 1) + 1
    share = held if kind == "divided" else 0
    rows, low, high = [], [], []

    def constrain(terms, least, most):
        rows.append(terms)
        low.append(least)
        high.append(most)

    for e in range(experts):
        constrain([(share + e * ranks + r, 1) for r in range(ranks)], 1, 1)
        if kind == "divided":
            for r in range(ranks):
                constrain([(e * ranks + r, 1), (held + e * ranks + r, -1)], 0, 1)
    for r in range(ranks):
        constrain([(e * ranks + r, 1) for e in range(experts)], 0, slots)
        constrain([(share + e * ranks + r, loads[e]) for e in range(experts)] + [(n - 1, -1)], -numpy.inf, 0)
        if r > 0:  # ranks are equal: by falling load
            constrain([(share + e * ranks + r, loads[e]) for e in range(experts)]
                      + [(share + e * ranks + r - 1, -loads[e]) for e in range(experts)], -numpy.inf, 0)
    matrix = lil_matrix((len(rows), n))
    for i, terms in enumerate(rows):
        for j, factor in terms:
            matrix[i, j] += factor
    objective = numpy.zeros(n)
    objective[-1] = 1
    whole = numpy.zeros(n)
    whole[:held] = 1
    upper = numpy.ones(n)
    upper[-1] = numpy.inf
    lower = numpy.zeros(n)
    lower[-1] = sum(loads) / ranks
    found = milp(objective, integrality=whole, bounds=Bounds(lower, upper),
                 constraints=LinearConstraint(matrix.tocsr(), low, high),
                 options={"time_limit": time_limit, "mip_rel_gap": 0})
    return found.fun, found.mip_dual_bound


limit = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
for line in sys.stdin:
    kind, *numbers = line.split()
    ranks, slots, *loads = map(int, numbers)
    optimum, bound = least_load(kind, ranks, slots, loads, limit)
    print(f"{optimum:.6f} {bound:.6f}", flush=True)
