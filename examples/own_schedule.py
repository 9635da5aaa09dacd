#!/usr/bin/env python3
"""A schedule and a placement of one's own, against the built-in ones.

The schedule dispatches one chunk ahead: chunk i + 1 is on its way while chunk i is computed, and combined chunks return as soon
as they can. The placement gives each popular expert a second copy on the least loaded GPU.

    python3 examples/own_schedule.py
"""

import numpy as np

import moeplan


def one_ahead(chunks):
    """The order of the tasks of all chunks."""
    order = []
    for chunk in range(chunks + 1):
        if chunk < chunks:
            order += [(chunk, "encode"), (chunk, "dispatch")]
        if chunk > 0:
            order += [(chunk - 1, task) for task in ("decode", "expert", "encode_combine", "combine")]
    return order + [(chunk, "decode_combine") for chunk in range(chunks)]


def in_turn(chunks):
    """Without overlap: each chunk is dispatched once the one before it is back."""
    return [(chunk, task) for chunk in range(chunks) for task in moeplan.TASKS]


def copies_of_popular_experts(loads):
    """A matrix [experts, positions] of shares, from the tokens [positions, experts] of one microbatch."""
    positions, experts = loads.shape
    popularity = loads.sum(axis=0)
    shares = np.zeros((experts, positions), dtype=int)
    load = np.zeros(positions)
    for number, expert in enumerate(np.argsort(-popularity, kind="stable")):
        holders = 2 if number < positions else 1  # one further slot on each position
        free = (shares > 0).sum(axis=0) <= experts // positions
        for position in [p for p in np.argsort(load, kind="stable") if free[p]][:holders]:
            shares[expert, position] = 1
            load[position] += popularity[expert] / holders
    return shares


schedule = moeplan.Schedule("one_ahead", one_ahead, "the next chunk is dispatched while one is computed")
slow = moeplan.Schedule("in_turn", in_turn)
problem = moeplan.Problem("dgx_h100", "qwen3_30b_a3b", world=16,
                          overrides=["workload.routing={shape: zipf, zipf_exponent: 0.7}", "workload.recompute=full"])
decision = problem.decision(ep=16)

print("schedules, with 4 chunks:")
for name in ("pipelined", slow, schedule):
    evaluation = problem.evaluate(decision, schedule=name, pipeline_degree=4)
    exposed = evaluation.ranks()["exposed_communication_s"].mean()
    print(f"  {getattr(name, 'name', name):<12} {evaluation.makespan_s:.3f} s, communication exposed {exposed:.3f} s")

print("placements:")
for name, placement in {"contiguous": None, "own": copies_of_popular_experts}.items():
    evaluation = problem.evaluate(decision, schedule=schedule, pipeline_degree=4, placement=placement)
    busy = evaluation.ranks()["compute_s"]
    longer = busy.max() / busy.mean() - 1
    print(f"  {name:<12} {evaluation.makespan_s:.3f} s, busiest GPU computes {longer:.1%} longer than the mean")
