"""The Python module: the numbers of the executable, arrays that add up, and errors in its words.

    MOEPLAN=build/dev/cli/moeplan PYTHONPATH=build/dev/python python3 tests/python/moeplan_test.py
"""

import json
import os
import subprocess
import tempfile
import time
import unittest

import numpy as np

import moeplan

SMALL = {"cluster": "dgx_h100", "model": "schemoe_gpt2_tiny_moe"}


def executable(*arguments):
    return subprocess.run([os.environ["MOEPLAN"], *arguments], capture_output=True, text=True, check=False)


class PlanTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = moeplan.plan(**SMALL, world=8)
        cls.command = executable("plan", "--cluster", SMALL["cluster"], "--model", SMALL["model"], "--world", "8", "--json",
                                 "--quiet")

    def test_gives_the_document_of_the_executable(self):
        theirs, ours = json.loads(self.command.stdout), self.plan.document
        del theirs["timing"], ours["timing"]
        self.assertEqual(ours, theirs)
        self.assertEqual(self.plan.best.makespan_s, theirs["best"]["makespan_s"])
        self.assertAlmostEqual(self.plan.optimality_gap, theirs["best"]["optimality_gap"], 12)

    def test_keeps_the_candidates_in_the_order_of_the_document(self):
        times = [candidate["makespan_s"] for candidate in self.plan.document["candidates"]]
        self.assertEqual([candidate.makespan_s for candidate in self.plan.candidates], times)

    def test_writes_a_plan_file_that_simulates_to_the_same_time(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.yaml")
            self.plan.write(path)
            again = moeplan.simulate(path)
            self.assertEqual(again.best.makespan_s, self.plan.best.makespan_s)
            self.assertEqual(again.best.decision, self.plan.best.decision)
            slower = moeplan.simulate(path, ["cluster.gpu.memory_efficiency=0.1"])
            self.assertGreater(slower.best.makespan_s, again.best.makespan_s)

    def test_options_restrict_the_search(self):
        plan = moeplan.plan(**SMALL, world=8, schedule="baseline", ep=4, sp=0, top=2)
        self.assertEqual({(c.decision["schedule"], c.decision["ep"]) for c in plan.candidates}, {("baseline", 4)})


class EvaluationTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.problem = moeplan.Problem(**SMALL, world=16)

    def test_a_plan_s_decision_evaluates_to_its_time(self):
        plan = moeplan.plan(**SMALL, world=16)
        again = self.problem.evaluate(plan.best.decision)
        self.assertEqual(again.makespan_s, plan.best.makespan_s)
        self.assertEqual(again.memory, plan.best.memory)

    def test_degrees_that_are_not_given_follow(self):
        decision = self.problem.decision(tp=2, pp=2, ep=4)
        self.assertEqual((decision["dp"], decision["edp"]), (4, 2))
        self.assertEqual(self.problem.decision(decision, tp=4)["dp"], 2)
        self.assertEqual(self.problem.decision(decision, dp=1)["dp"], 1)

    def test_times_of_a_rank_add_up_to_the_makespan(self):
        evaluation = self.problem.evaluate(ep=8, pp=2)
        ranks = evaluation.ranks()
        total = sum(ranks["classes_s"].values()) + ranks["idle_s"]
        np.testing.assert_allclose(total, evaluation.makespan_s, rtol=1e-9)
        stages = evaluation.stages()
        self.assertEqual(stages["stage"].tolist(), [0, 1])
        np.testing.assert_allclose(stages["compute_s"][1], ranks["compute_s"][ranks["stage"] == 1].mean())

    def test_the_timeline_lies_within_the_makespan(self):
        evaluation = self.problem.evaluate(ep=8)
        timeline = evaluation.timeline()
        self.assertEqual(len({len(values) for values in timeline.values()}), 1)
        self.assertTrue((timeline["end_s"] >= timeline["start_s"]).all())
        self.assertLessEqual(timeline["end_s"].max(), evaluation.makespan_s * (1 + 1e-12))
        self.assertIn("dispatch", set(timeline["op_class"]))
        links = evaluation.links()
        self.assertTrue((np.diff(links["utilisation"]) <= 0).all())
        self.assertLessEqual(links["utilisation"].max(), 1 + 1e-9)

    def test_depth_says_how_far(self):
        memory = self.problem.evaluate(ep=8, depth="memory")
        self.assertIsNone(memory.makespan_s)
        self.assertIsNone(memory.lower_bound_s)
        estimate = self.problem.evaluate(ep=8, depth="estimate")
        makespan = self.problem.evaluate(ep=8, depth="makespan")
        self.assertLessEqual(estimate.lower_bound_s, makespan.makespan_s)
        with self.assertRaisesRegex(moeplan.InputError, "has no timeline"):
            makespan.ranks()

    def test_an_infeasible_decision_is_a_result(self):
        problem = moeplan.Problem("dgx_h100", "mixtral_8x7b", world=8)
        evaluation = problem.evaluate(ep=8)
        self.assertEqual(evaluation.infeasibility, "memory")
        self.assertGreater(evaluation.memory_bytes, evaluation.memory_limit_bytes)
        self.assertIsNone(evaluation.makespan_s)
        self.assertIsNotNone(problem.evaluate(ep=8, check_memory=False).makespan_s)

    def test_takes_milliseconds(self):
        self.problem.evaluate(ep=8, depth="makespan")
        start = time.perf_counter()
        for _ in range(5):
            self.problem.evaluate(ep=8, depth="makespan")
        self.assertLess((time.perf_counter() - start) / 5, 0.5)  # on a loaded machine


class OwnTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.problem = moeplan.Problem(**SMALL, world=8, overrides=["workload.routing={shape: zipf, zipf_exponent: 1}"])

    def test_the_order_of_a_built_in_schedule_gives_its_time(self):
        def task_by_task(chunks):
            return [(chunk, task) for task in moeplan.TASKS for chunk in range(chunks)]

        own = moeplan.Schedule("task_by_task", task_by_task)
        built_in = self.problem.evaluate(ep=8, schedule="pipelined", pipeline_degree=4)
        self.assertEqual(self.problem.evaluate(ep=8, schedule=own, pipeline_degree=4).makespan_s, built_in.makespan_s)

    def test_an_order_without_overlap_exposes_more_communication(self):
        in_turn = moeplan.Schedule("in_turn", lambda chunks: [(c, t) for c in range(chunks) for t in moeplan.TASKS])
        slow = self.problem.evaluate(ep=8, schedule=in_turn, pipeline_degree=4)
        fast = self.problem.evaluate(ep=8, schedule="pipelined", pipeline_degree=4)
        self.assertGreater(slow.ranks()["exposed_communication_s"].max(), fast.ranks()["exposed_communication_s"].max())
        self.assertEqual(slow.decision["schedule"], "in_turn")

    def test_is_searched_with_and_not_written(self):
        own = moeplan.Schedule("own", lambda chunks: [(c, t) for t in moeplan.TASKS for c in range(chunks)])
        plan = moeplan.plan(**SMALL, world=8, schedule=own)
        self.assertEqual(plan.best.decision["schedule"], "own")
        with self.assertRaisesRegex(moeplan.InputError, '"own" is not built in'):
            plan.write("never.yaml")

    def test_wrong_orders_are_refused(self):
        tasks = moeplan.TASKS
        for order, text in ((lambda n: [], "chunk 0 lacks its encode"),
                            (lambda n: [(0, t) for t in reversed(tasks)],
                             '"decode_combine" of chunk 0 comes where its encode is due'),
                            (lambda n: [(0, "expertt")], '"expertt" is no task; did you mean "expert"'),
                            (lambda n: [(n, "encode")], "there is no chunk 1; expected 0 to 0"),
                            (lambda n: [(0, t) for t in tasks] + [(0, "encode")], "comes after its last task")):
            with self.assertRaisesRegex(moeplan.InputError, text):
                moeplan.Schedule("wrong", order)
        with self.assertRaisesRegex(moeplan.InputError, "name of a built-in schedule"):
            moeplan.Schedule("pipelined", lambda n: [])
        with self.assertRaises(ZeroDivisionError):  # errors of the function itself
            moeplan.Schedule("wrong", lambda n: 1 // 0)

    def test_the_contiguous_placement_as_a_matrix_changes_nothing(self):
        decision = self.problem.decision(ep=4)
        experts = self.problem.loads(decision)[0].shape[1]
        matrix = np.kron(np.eye(4, dtype=int), np.ones((experts // 4, 1), dtype=int))
        plain = self.problem.evaluate(decision)
        own = self.problem.evaluate(decision, placement=matrix)
        self.assertEqual(own.makespan_s, plain.makespan_s)

    def test_a_function_gets_the_loads_and_balances_them(self):
        decision = self.problem.decision(ep=4)
        seen = []

        def pairs(loads):  # the most popular expert with the least popular one, and so on
            seen.append(loads)
            order = np.argsort(-loads.sum(axis=0))
            matrix = np.zeros((len(order), 4), dtype=int)
            for number, expert in enumerate(order):
                lap, place = divmod(number, 4)
                matrix[expert, place if lap % 2 == 0 else 3 - place] = 1
            return matrix

        own = self.problem.evaluate(decision, placement=pairs)
        self.assertEqual(seen[0].shape[0], 4)
        self.assertGreater(seen[0].sum(), 0)
        plain = self.problem.evaluate(decision)
        self.assertLess(own.ranks()["compute_s"].max(), plain.ranks()["compute_s"].max())

    def test_wrong_placements_are_refused(self):
        experts = self.problem.loads(ep=4)[0].shape[1]
        good = np.kron(np.eye(4, dtype=int), np.ones((experts // 4, 1), dtype=int))
        for matrix, text in ((good[:-1], "expected a row for each of"), (good * 0, "no position holds this expert"),
                             (-good, "-1 is negative"), (good * 0.5, "expected whole numbers"), (good[0], "expected a matrix"),
                             ([good] * 7, "has 7 matrices")):
            with self.assertRaisesRegex(moeplan.InputError, text):
                self.problem.evaluate(ep=4, placement=matrix)
        with self.assertRaisesRegex(moeplan.InputError, "see redundant_experts"):
            self.problem.evaluate(ep=4, placement=np.ones_like(good), redundant_experts=0)


class TableTest(unittest.TestCase):
    def test_collective_gives_the_table_of_the_executable(self):
        ours = moeplan.collective("dgx_h100", "all_reduce", "1MiB:64MiB:8", world=16)
        theirs = json.loads(executable("collective", "--cluster", "dgx_h100", "--op", "all_reduce", "--sizes", "1MiB:64MiB:8",
                                       "--world", "16", "--json", "--quiet").stdout)["results"]
        for key in ("bytes", "time_s", "algorithm_bandwidth_bytes_per_s", "bus_bandwidth_bytes_per_s"):
            np.testing.assert_allclose(ours[key], [row[key] for row in theirs], rtol=1e-12, err_msg=key)
        self.assertEqual(moeplan.collective("dgx_h100", "alltoall", [1 << 20])["bytes"].tolist(), [1 << 20])

    def test_score_gives_measured_and_predicted_times(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("source,cluster,gpu,ranks,ranks_per_node,operation,bytes,median_us\n")
            file.flush()
            with self.assertRaises(moeplan.InputError) as ours:
                moeplan.score(file.name)
            self.assertEqual(executable("score", file.name).stderr.rstrip("\n"), str(ours.exception))

    def test_names(self):
        self.assertIn("mixtral_8x7b", moeplan.names("models"))
        theirs = json.loads(executable("list", "schedules", "--json").stdout)
        self.assertEqual(moeplan.names("schedules"), [entry["name"] for entry in theirs["entries"]])
        self.assertTrue(executable("--version").stdout.startswith(moeplan.version_page() + "back ends: "))


class ErrorTest(unittest.TestCase):
    def test_texts_are_those_of_the_executable(self):
        for keys, options in (({"cluster": "dgx_h10"}, []), ({"model": "mixtral"}, []),
                              ({"schedule": "pipelind", "all_to_all": "x"}, ["--schedule", "pipelind", "--all-to-all", "x"]),
                              ({"tp": 3}, ["--tp", "3"]),
                              ({"overrides": ["workload.gobal_batch=1"]}, ["-C", "workload.gobal_batch=1"])):
            with self.subTest(**keys):
                given = {**SMALL, "world": 8, **keys}
                ran = executable("plan", "--cluster", given["cluster"], "--model", given["model"], "--world", "8", *options)
                with self.assertRaises(moeplan.InputError) as ours:
                    moeplan.plan(**given)
                self.assertEqual(ran.returncode, 2)
                self.assertEqual(ran.stderr.rstrip("\n"), str(ours.exception))
                self.assertIsInstance(ours.exception, ValueError)

    def test_decisions_are_read_strictly(self):
        problem = moeplan.Problem(**SMALL, world=8, overrides=["workload.recompute=selective"])
        for changes, text in (({"micro_bach": 1}, 'did you mean "micro_batch"'), ({"tp": 3, "dp": 2}, "3.* is not the 8 GPUs"),
                              ({"recompute": "full"}, '"full" contradicts the workload.s, "selective"'),
                              ({"schedule": "pipelind"}, 'did you mean "pipelined"'),
                              ({"depth": "makspan"}, 'did you mean "makespan"')):
            with self.assertRaisesRegex(moeplan.InputError, text):
                problem.evaluate(**changes)

    def test_nothing_feasible_says_what_would_be(self):
        ran = executable("plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "8", "-C",
                         "cluster.gpu.memory=4 GB")
        self.assertEqual(ran.returncode, 3)
        with self.assertRaises(moeplan.Infeasible) as ours:
            moeplan.plan("dgx_h100", "mixtral_8x7b", world=8, overrides=["cluster.gpu.memory=4 GB"])
        self.assertEqual(ran.stderr.rstrip("\n"), str(ours.exception).rstrip("\n"))


if __name__ == "__main__":
    unittest.main()
