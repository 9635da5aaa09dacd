"""The examples run, and print and write what they say. The example of README.md runs too."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(script, *arguments, **options):
    return subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=True, **options).stdout


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_plan_a_model(self):
        plan = self.folder / "plan.yaml"
        out = run(ROOT / "examples/plan_a_model.py", "-o", str(plan))
        self.assertRegex(out, r"(?m)^\d\.\d+ s an iteration, \d+ tokens/s/GPU, MFU \d+\.\d%$")
        self.assertRegex(out, r"(?m)^  as planned +\d\.\d+ s  [+-]0\.0%$")
        self.assertTrue(plan.read_text(encoding="utf-8").startswith("schema_version: 1\n"))

    def test_own_schedule(self):
        out = run(ROOT / "examples/own_schedule.py")
        times = {name: float(time) for name, time in re.findall(r"(?m)^  (\w+) +(\d+\.\d+) s,", out)}
        self.assertEqual(list(times), ["pipelined", "in_turn", "one_ahead", "contiguous", "own"])
        self.assertLess(times["own"], times["contiguous"])

    def test_plot_sweep(self):
        database, plot = self.folder / "capacity.sqlite", self.folder / "capacity.svg"
        subprocess.run([os.environ["MOEPLAN"], "sweep", "capacity_factor", "-o", str(database), "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        run(ROOT / "examples/plot_sweep.py", str(database), "--x", "f", "--y", "makespan_s", "--lines", "ep", "-o", str(plot))
        drawing = plot.read_text(encoding="utf-8")
        self.assertTrue(xml.etree.ElementTree.fromstring(drawing.encode()).tag.endswith("svg"))
        for text in ("makespan_s", "ep 2", "ep 8", "1.25"):
            self.assertTrue(text in drawing or "Matplotlib" in drawing, text)

    def test_readme(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
        script = self.folder / "readme.py"
        script.write_text(example.group(1), encoding="utf-8")
        self.assertRegex(run(script, cwd=self.folder), r"\d")

    def test_docs(self):
        text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        lines = "".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)).splitlines(keepends=True)
        script = self.folder / "docs.py"
        script.write_text("import numpy\n" + "".join(line for line in lines if "scored" not in line), encoding="utf-8")
        self.assertRegex(run(script, cwd=self.folder), r"4 1 \d\.\d+ ")


if __name__ == "__main__":
    unittest.main()
