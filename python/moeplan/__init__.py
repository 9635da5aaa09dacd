"""Plans Mixture-of-Experts models on GPU clusters.

    import moeplan

    plan = moeplan.plan("hgx_h200", "mixtral_8x7b", world=32)
    print(plan.best.makespan_s, plan.best.decision)
    plan.write("plan.yaml")                        # for moeplan explain, validate, export ...

    problem = moeplan.Problem("hgx_h200", "mixtral_8x7b", world=32)
    what_if = problem.evaluate(ep=8, micro_batch=2, schedule="pipelined", pipeline_degree=4)   # milliseconds
    what_if.ranks()["exposed_communication_s"]     # NumPy arrays

Clusters, models and workloads are names in configs/ or files, as on the command line. Times are seconds, sizes bytes. The same
input gives the same numbers as the `moeplan` executable, which is built from the same code.

Errors: InputError (a ValueError) for bad input, with the text that the executable prints, a line for each thing that is wrong;
Infeasible (a RuntimeError) where no plan is feasible.
"""

import json as _json
import os as _os

import numpy as _np

from moeplan import _moeplan
from moeplan._moeplan import Infeasible, InputError, __version__

__all__ = ["Evaluation", "Infeasible", "InputError", "Plan", "Problem", "Schedule", "TASKS", "collective", "names", "plan", "score",
           "simulate", "version_page"]

#: The tasks of a chunk of tokens in an MoE layer, in the order in which each chunk needs them (see Schedule).
TASKS = tuple(_moeplan.task_names())


class Schedule(_moeplan.Schedule):
    """A schedule of MoE layers of one's own: the order in which the tasks of all chunks start.

    order(chunks) returns the tasks of that many chunks as a list of (chunk, task), chunks from 0, tasks as in TASKS. A
    chunk's tasks come in the order of TASKS. "dispatch" and "combine" run on the communication stream, the others on the
    compute stream; tasks of one stream run one after another in the order of the list, streams overlap. Without a codec,
    the four tasks that encode and decode take no time. The rest of the layer (gate, expert sharding, backward pass with the
    same order) is that of the built-in `baseline`.

        def order(chunks):      # each chunk is dispatched once the one before it is back
            return [(chunk, task) for chunk in range(chunks) for task in moeplan.TASKS]
        problem.evaluate(schedule=moeplan.Schedule("in_turn", order), ep=8, pipeline_degree=4)

    The function is called for 1 to 64 chunks when the schedule is made. InputError if a task is missing, occurs twice or
    comes before its predecessor. Plans with such a schedule cannot be written to files. A schedule that uses other groups,
    collectives or kernels takes a class in C++: docs/extending.md.
    """

    def __init__(self, name, order, summary=""):
        super().__init__(name, summary, order)


class Evaluation:
    """What is predicted for one decision: memory, bounds, times.

    Of an infeasible decision, `infeasibility` says why ("memory", "tp does not divide the heads" ...), and what was not
    reached is None.
    """

    def __init__(self, native):
        self._native = native

    @property
    def decision(self):
        """The decision as a dictionary, with the keys of a plan file's `decision`."""
        return self._native.decision

    @property
    def infeasibility(self):
        """Why the decision cannot run, or None."""
        return self._native.infeasibility

    @property
    def makespan_s(self):
        """Simulated seconds of an iteration, or None."""
        return self._native.makespan_s

    @property
    def closed_form_s(self):
        """Seconds of an iteration by the closed form, which knows no contention; or None."""
        return self._native.closed_form_s

    @property
    def lower_bound_s(self):
        """Seconds that no iteration with this decision can undercut; or None."""
        return self._native.lower_bound_s

    @property
    def bound_by(self):
        """What the lower bound is: "critical path", "compute" or the name of the busiest link."""
        return self._native.bound_by

    @property
    def memory(self):
        """Bytes on the fullest GPU by kind: weights, gradients, optimizer, activations, working, runtime."""
        return self._native.memory

    @property
    def memory_bytes(self):
        """Their sum."""
        return self._native.memory_bytes

    @property
    def memory_limit_bytes(self):
        """The memory of a GPU, shared by its ranks."""
        return self._native.memory_limit_bytes

    @property
    def tokens_per_s_per_gpu(self):
        """Throughput, or None."""
        return self._native.tokens_per_s_per_gpu

    @property
    def model_flops_utilization(self):
        """The model's FLOPs over those that all GPUs could do at their peaks (MFU), or None."""
        return self._native.model_flops_utilization

    def ranks(self):
        """Times by rank, a dictionary of arrays of one length: rank, stage, compute_s, communication_s,
        exposed_communication_s, idle_s, waiting_s; and classes_s, a dictionary of such arrays by class of operations
        ("attention", "dispatch" ...), which with idle_s add up to the makespan. Of ranks that are proved equal only the
        first is listed. Needs depth="timeline"."""
        return self._native.ranks()

    def stages(self):
        """Times by pipeline stage, a dictionary of arrays: stage, and the means of ranks() over the stage's listed ranks."""
        ranks = self.ranks()
        stages = _np.unique(ranks["stage"])
        out = {"stage": stages}
        for key, values in ranks.items():
            if key.endswith("_s") and isinstance(values, _np.ndarray):
                out[key] = _np.array([values[ranks["stage"] == stage].mean() for stage in stages])
        return out

    def timeline(self):
        """Every operation's start and end, a dictionary of arrays of one length: rank, stage, start_s, end_s, operation,
        stream, op_class (texts), occurrences. Of iterations that are exact copies (microbatches, layers) only the first is
        listed; `occurrences` counts them. Needs depth="timeline"."""
        spans = self._native.spans()
        index = spans["operation"]
        for key, table in (("operation", "names"), ("stream", "streams"), ("op_class", "classes")):
            spans[key] = _np.array(spans[table] or [""])[index]
        for table in ("names", "streams", "classes"):
            del spans[table]
        return spans

    def links(self):
        """The links that carried traffic, the busiest first: name, bytes, utilisation. Needs depth="timeline"."""
        links = self._native.links()
        links["name"] = _np.array(links["name"], dtype=str)
        return links

    def __repr__(self):
        if self.infeasibility:
            return f"<moeplan.Evaluation infeasible: {self.infeasibility}>"
        time = "not simulated" if self.makespan_s is None else f"{self.makespan_s:.6g} s"
        return f"<moeplan.Evaluation {time}, {self.memory_bytes / 2**30:.1f} GiB>"


class Plan:
    """A plan, from plan() or simulate()."""

    def __init__(self, native):
        self._native = native
        #: The evaluations of the best candidates, the best first.
        self.candidates = [Evaluation(candidate) for candidate in native.candidates]

    @property
    def best(self):
        """The evaluation of the plan's decision, with its timeline."""
        return self.candidates[0]

    @property
    def lower_bound_s(self):
        """Seconds that no candidate of the search can undercut."""
        return self._native.lower_bound_s

    @property
    def optimality_gap(self):
        """The best time over lower_bound_s, minus 1."""
        return self._native.optimality_gap

    @property
    def page(self):
        """The page that `moeplan plan` (or `simulate`) prints."""
        return self._native.page

    @property
    def document(self):
        """The document of `moeplan plan --json` (or `simulate --json`) as a dictionary: docs/schema."""
        return self._native.document

    def write(self, path):
        """Writes the plan file, which stands alone."""
        self._native.write(_os.fspath(path))

    def __repr__(self):
        return f"<moeplan.Plan {self.best!r}>"


def _request(cluster, model, workload, options):
    request = _moeplan.PlanRequest()
    request.cluster, request.model, request.workload = (_os.fspath(name) for name in (cluster, model, workload))
    for key, value in options.items():
        if value is not None:
            setattr(request, key, list(value) if key == "overrides" else value)
    return request


def plan(cluster, model, workload="default", *, world=None, overrides=(), top=5, schedule=None, all_to_all=None,
         pipeline_degree=None, codec=None, placement=None, redundant_experts=None, tp=None, cp=None, ep=None, esp=None, dp=None,
         pp=None, vp=None, sp=None, pipeline=None, ep_overlap=None, delay_wgrad=None, dispatcher_sms=None, layout=None, micro_batch=None, zero=None,
         recompute=None, precision=None, framework=None, approximate_unknown=None, budget=None, threads=None, seed=None):
    """Searches for the fastest plan and returns it as a Plan.

    The arguments are the options of `moeplan plan` (`man moeplan-plan`); what is None is searched. `overrides` are those of
    -C: ["workload.global_batch=1024"]. `schedule` may be a Schedule of one's own. `top` candidates are kept in `candidates`.
    Raises InputError and Infeasible. Takes as long as the command: seconds to minutes.
    """
    options = dict(locals())
    for key in ("cluster", "model", "workload", "top"):
        del options[key]
    own = schedule if isinstance(schedule, _moeplan.Schedule) else None
    if own is not None:
        options["schedule"] = None
    return Plan(_moeplan.plan(_request(cluster, model, workload, options), top, own))


def simulate(path, overrides=()):
    """Simulates a plan file again and returns it as a Plan with one candidate, as `moeplan simulate` does. `overrides` change
    its inputs: ["cluster.gpu.memory_efficiency=0.7"]. Raises InputError."""
    return Plan(_moeplan.simulate(_os.fspath(path), list(overrides)))


class Problem:
    """A model, a workload and a cluster, loaded once, for which decisions are evaluated in milliseconds."""

    def __init__(self, cluster, model, workload="default", *, world=None, overrides=()):
        """`world`: the first so many GPUs of the cluster. Raises InputError."""
        self._native = _moeplan.Problem(_request(cluster, model, workload, {"world": world, "overrides": overrides}))

    @property
    def world(self):
        """The number of ranks."""
        return self._native.world

    @property
    def ranks_per_node(self):
        """The number of consecutive ranks that share a node."""
        return self._native.ranks_per_node

    @property
    def cluster(self):
        """The resolved document of the cluster, as a dictionary; `model` and `workload` likewise."""
        return self._native.document("cluster")

    @property
    def model(self):
        return self._native.document("model")

    @property
    def workload(self):
        return self._native.document("workload")

    def decision(self, decision=None, **changes):
        """A complete decision, the keys of a plan file's `decision`, from a part of one: defaults, then `decision` (for
        example that of an Evaluation), then `changes` (tp=2, ep=8, micro_batch=2, recompute="selective" ...). dp and edp follow
        from the others unless they are given."""
        given = {**(decision or {}), **changes}
        whole = {**self._native.default_decision(), **given}
        divisors = {"dp": ("pp", "cp", "tp"), "edp": ("pp", "ep", "esp")}
        for key, others in divisors.items():
            if key in changes or (key in given and not any(other in changes for other in others)):
                continue
            product = 1
            for other in others:
                product *= int(whole[other])
            whole[key] = max(1, self.world // max(1, product))
        return whole

    def loads(self, decision=None, **changes):
        """The loads of the experts that a placement balances: for each kind of MoE layer an array [ep, experts] of the tokens of
        one microbatch from each position of an expert-parallel group to each expert."""
        whole = self.decision(decision, **changes)
        whole.pop("runs", None)  # no load depends on how layers run
        whole.update(schedule="baseline", pipeline_degree=1, codec="none", all_to_all="linear")
        return self._native.loads(_json.dumps(whole))

    def evaluate(self, decision=None, *, schedule=None, placement=None, depth="timeline", check_memory=True, **changes):
        """Evaluates a decision (see decision()) and returns an Evaluation.

        schedule: the name of a built-in one, or a Schedule of one's own.
        placement: a matrix [experts, ep]: element (e, r) is the share of expert e's tokens that go to
            position r of its expert-parallel group, relative to the row's sum; zero where r does not hold e; whole numbers. Or
            a list of them, one for each kind of MoE layer; or a function that is called with the loads() of each kind and
            returns its matrix. The position with an expert's largest share keeps its optimizer states. `redundant_experts`
            (slots per rank beyond an equal division) is as large as the matrix needs unless it is given.
        depth: "memory", "estimate" (bounds and closed form), "makespan" (simulated) or "timeline" (with ranks() and so on).
        check_memory: False evaluates also what does not fit.

        Raises InputError; an infeasible decision is a result.
        """
        own = schedule if isinstance(schedule, _moeplan.Schedule) else None
        if schedule is not None and own is None:
            changes["schedule"] = schedule
        matrices = []
        whole = self.decision(decision, **changes)
        if placement is not None:
            if callable(placement):
                placement = [placement(loads) for loads in self.loads(decision, **changes)]
            matrices = [_whole_numbers(matrix) for matrix in (placement if isinstance(placement, (list, tuple)) else [placement])]
            whole.pop("expert_places", None)
            whole["placement"] = "contiguous"
            if "redundant_experts" not in changes:
                whole["redundant_experts"] = max(_redundant_slots(matrix) for matrix in matrices)
        return Evaluation(self._native.evaluate(_json.dumps(whole), own, matrices, depth, check_memory))


def _whole_numbers(matrix):
    array = _np.asarray(matrix)
    if array.ndim != 2:
        raise InputError(f"placement: has {array.ndim} dimensions; expected a matrix [experts, ep]")
    if not _np.all(array == _np.floor(array)):
        raise InputError("placement: expected whole numbers; scale shares, as 1 and 3 for a quarter and the rest")
    return array.astype(_np.int64)


def _redundant_slots(matrix):
    experts, positions = matrix.shape
    equal = -(-experts // max(1, positions))
    return max(0, int((matrix > 0).sum(axis=0).max(initial=0)) - equal)


def collective(cluster, op, sizes="1KiB:1GiB:2", *, algorithm=None, world=None, overrides=()):
    """Predicted times of a collective, as `moeplan collective`: a dictionary of arrays of one length: bytes, time_s,
    algorithm_bandwidth_bytes_per_s, bus_bandwidth_bytes_per_s; and algorithm, a text.

    op: "all_reduce", "all_to_all" ..., also as nccl-tests calls them. sizes: "MIN:MAX:FACTOR", or a list of bytes, in
    nccl-tests' meaning of size. Raises InputError."""
    if not isinstance(sizes, str):
        sizes = [int(size) for size in sizes]
    return _moeplan.collective(_os.fspath(cluster), op, algorithm or "", sizes, world, list(overrides))


def score(path):
    """Predicted against measured times of a table of kernels, collectives, dispatches or training runs, as `moeplan score`: a
    dictionary with id, reason (why there is no prediction, or ""), lists; measured_s and predicted_s, arrays with NaN where
    there is none; and document, that of `moeplan score --json`. Raises InputError with every row that is wrong."""
    return _moeplan.score(_os.fspath(path))


def names(what):
    """The names of "clusters", "models", "gpus", "workloads", "schedules" ... (as `moeplan list`)."""
    return _moeplan.names(what)


def version_page():
    """Version and commit, as `moeplan --version` prints them."""
    return _moeplan.version_page()
