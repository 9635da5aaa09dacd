#!/usr/bin/env python3
"""Plans Mixtral 8x7B on two HGX H200 nodes, and asks what other decisions would cost.

    python3 examples/plan_a_model.py [-o plan.yaml]
"""

import argparse

import moeplan

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("-o", "--output", help="write the plan file here")
options = arguments.parse_args()

overrides = ["workload.recompute=auto"]
plan = moeplan.plan("hgx_h200", "mixtral_8x7b", world=16, placement="contiguous", overrides=overrides)
best = plan.best
print(f"{best.makespan_s:.3f} s an iteration, {best.tokens_per_s_per_gpu:.0f} tokens/s/GPU, "
      f"MFU {best.model_flops_utilization:.1%}")
print(f"no candidate takes less than {plan.lower_bound_s:.3f} s: gap {plan.optimality_gap:.1%}")
print(f"memory {best.memory_bytes / 2**30:.1f} of {best.memory_limit_bytes / 2**30:.1f} GiB")
shown = ("schedule", "pp", "dp", "tp", "ep", "micro_batch", "recompute")
print("decision:", ", ".join(f"{key} {best.decision[key]}" for key in shown))

times = best.ranks()
print("time by class of operations on the first rank:")
for name, seconds in sorted(times["classes_s"].items(), key=lambda item: -item[1][0])[:5]:
    print(f"  {name:<20} {seconds[0] / best.makespan_s:6.1%}")

# The same decision with one thing changed, each in milliseconds. Loading the inputs once is what takes time.
problem = moeplan.Problem("hgx_h200", "mixtral_8x7b", world=16, overrides=overrides)
print("what if:")
for name, change in {"as planned": {}, "full recomputation": {"recompute": "full"}, "tensor parallelism": {"tp": 2},
                     "two pipeline stages": {"pp": 2}, "no overlap": {"schedule": "baseline", "pipeline_degree": 1}}.items():
    what_if = problem.evaluate(best.decision, depth="makespan", **change)
    if what_if.infeasibility:
        lacking = (what_if.memory_bytes - what_if.memory_limit_bytes) / 2**30
        print(f"  {name:<20} {what_if.infeasibility}" + (f": lacks {lacking:.1f} GiB" if what_if.infeasibility == "memory" else ""))
    else:
        print(f"  {name:<20} {what_if.makespan_s:.3f} s  {what_if.makespan_s / best.makespan_s - 1:+.1%}")

if options.output:
    plan.write(options.output)
    print("plan", options.output)
