#!/usr/bin/env python3
"""scripts/check_structure on small trees made for it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "check_structure"
CTAGS = shutil.which("ctags")

# A header of `lower`, used by the only source of `upper`.
TREE = {
    "docs/include_order.txt": "# lower ones first\nlower < middle < upper\n",
    "lower/part.hpp": "#pragma once\nnamespace n {\nstruct Part { int a; };\nint twice(Part part);\n}\n",
    "lower/part.cpp": '#include "lower/part.hpp"\nnamespace n {\nint twice(Part part) { return 2 * part.a; }\n}\n',
    "upper/main.cpp": '#include "lower/part.hpp"\nint main() { return n::twice(n::Part{}); }\n',
}


class Tree(unittest.TestCase):
    def check(self, files=(), *arguments, environment=None):
        """(exit status, lines of findings, messages) for the small tree with these files added or replaced."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**TREE, **dict(files)}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding="utf-8")
            run = subprocess.run([sys.executable, str(SCRIPT), *arguments, str(root)], capture_output=True, text=True,
                                 check=False, env=environment)
        return run.returncode, run.stdout.splitlines(), run.stderr

    def expect(self, files, status, findings):
        self.assertEqual(self.check(files)[:2], (status, findings))


class CheckIncludes(Tree):
    def test_a_tree_in_order_has_no_findings(self):
        self.expect({}, 0, [])
        self.assertEqual(self.check({}, "--strict")[0], 0)

    def test_a_lower_folder_may_not_include_an_upper_one(self):
        self.expect({"upper/roof.hpp": "#pragma once\n", "middle/odd.cpp": '\n#include "upper/roof.hpp"\n'}, 1,
                    ["middle/odd.cpp:2: error: order: middle may not include upper: upper/roof.hpp"])

    def test_folders_without_an_order_include_all_and_are_included_by_no_other(self):
        self.expect({"tests/case.hpp": '#include "upper/roof.hpp"\n', "upper/roof.hpp": "#pragma once\n"}, 0, [])
        self.expect({"tests/case.hpp": "#pragma once\n", "upper/odd.cpp": '#include "tests/case.hpp"\n'}, 1,
                    ["upper/odd.cpp:1: error: order: upper may not include "
                     "what no line of docs/include_order.txt names: tests/case.hpp"])

    def test_an_order_inside_a_folder(self):
        files = {"docs/include_order.txt": "lower < upper\nupper/a < upper/b\n",
                 "upper/a/x.cpp": '#include "upper/b/y.hpp"\n', "upper/b/y.hpp": "#pragma once\n"}
        self.expect(files, 1, ["upper/a/x.cpp:1: error: order: upper/a may not include upper/b: upper/b/y.hpp"])

    def test_folders_may_not_include_each_other(self):
        files = {"lower/a.cpp": '#include "lower/in/b.hpp"\n', "lower/in/b.hpp": "#pragma once\n",
                 "lower/in/c.cpp": '#include "lower/part.hpp"\n'}
        self.expect(files, 1, ["lower/a.cpp:1: error: circle: folders that include each other: lower lower/in"])

    def test_components_may_not_include_each_other_by_their_sources_either(self):
        files = {"lower/a.hpp": "#pragma once\n", "lower/a.cpp": '#include "lower/b.hpp"\n',
                 "lower/b.hpp": '#include "lower/c.hpp"\n',
                 "lower/c.hpp": "#pragma once\n", "lower/c.cpp": '#include "a.hpp"\n'}
        self.expect(files, 1, ["lower/a.cpp:1: error: circle: components that include each other: "
                               "lower/a lower/b lower/c"])

    def test_a_known_circle_is_a_warning_until_it_is_gone(self):
        files = {"docs/include_order.txt": "lower < middle < upper\ncircle lower/a lower/b\n",
                 "lower/a.hpp": "#pragma once\n", "lower/a.cpp": '#include "lower/b.hpp"\n',
                 "lower/b.hpp": '#include "lower/a.hpp"\n'}
        self.expect(files, 0, ["lower/a.cpp:1: warning: circle: components that include each other: lower/a lower/b"])
        self.assertEqual(self.check(files, "--strict")[0], 1)
        self.assertEqual(self.check(files, "--circles")[:2], (0, ["circle lower/a lower/b"]))
        files["lower/a.cpp"] = ""
        self.expect(files, 0, ["docs/include_order.txt:2: warning: circle: there is none any more: lower/a lower/b"])

    def test_a_line_that_says_no_order_is_refused(self):
        for line in ("lower <", "lower upper", "< upper"):
            status, findings, messages = self.check({"docs/include_order.txt": f"\n{line}\n"})
            self.assertEqual((status, findings), (1, []))
            self.assertIn(f'include_order.txt:2: expected "a < b < c" or "circle a b", found "{line}"', messages)
        messages = self.check({"docs/include_order.txt": "lower < upper\nupper < lower\n"})[2]
        self.assertIn("lower is below itself", messages)

    def test_long_sources_and_full_folders_are_warnings(self):
        files = {"lower/long.cpp": "//\n" * 451, "lower/fine.cpp": "//\n" * 450}
        files.update({f"middle/{i}.cpp": "" for i in range(26)})
        findings = ["lower/long.cpp:1: warning: length: 451 lines, more than 450",
                    "middle:1: warning: length: 26 files at one level, more than 25"]
        self.expect(files, 0, findings)
        self.assertEqual(self.check(files, "--strict")[:2], (1, findings))

    def test_build_folders_and_hidden_ones_are_not_looked_at(self):
        self.expect({"build/dev/x.cpp": "//\n" * 451, ".cache/x.cpp": "//\n" * 451}, 0, [])

    def test_without_ctags_it_says_what_it_leaves_out(self):
        files = {"lower/more.hpp": "struct Part;\nint unused();\n"}
        status, findings, messages = self.check(files, environment={"PATH": ""})
        self.assertEqual((status, findings), (0, []))
        self.assertIn("no Universal Ctags", messages)


@unittest.skipUnless(CTAGS, "no ctags")
class CheckNames(Tree):
    def test_two_types_of_one_name_are_an_error(self):
        other = "namespace n {\nstruct Part { double b; };\n}\n"
        self.expect({"upper/other.cpp": other}, 1,
                    ["upper/other.cpp:2: error: meaning: n::Part is defined in lower/part.hpp:3 too"])
        self.expect({"tests/other.cpp": other}, 1,
                    ["tests/other.cpp:2: error: meaning: n::Part is defined in lower/part.hpp:3 too"])
        self.expect({"upper/other.cpp": f"namespace {{\n{other}}}\n"}, 0, [])
        self.expect({"upper/other.cpp": "namespace n {\nstruct Part;\n}\n"}, 0, [])
        self.expect({"upper/other.cpp": "int f() {\n  struct Part { int a; };\n  return Part{1}.a;\n}\n"}, 0, [])

    def test_two_inline_functions_of_one_name_are_an_error_and_overloads_are_not(self):
        files = {"tests/a.hpp": "inline int f(int a, double = 0) { return a; }\n",
                 "tests/b.hpp": "inline int f(int b, double c) { return b; }\ninline int f(double b) { return 0; }\n"}
        self.expect(files, 1, ["tests/b.hpp:1: error: meaning: f is defined in tests/a.hpp:1 too"])

    def test_long_functions_and_classes_are_warnings(self):
        files = {"lower/long.cpp": "int f() {\n" + "  f();\n" * 59 + "}\nclass C {\n" + "  int a();\n" * 249 + "};\n",
                 "lower/fine.cpp": "int g() {\n" + "  g();\n" * 58 + "}\nclass D {\n" + "  int a();\n" * 248 + "};\n"}
        self.expect(files, 0, ["lower/long.cpp:1: warning: length: f() has 61 lines, more than 60",
                               "lower/long.cpp:62: warning: length: C has 251 lines, more than 250"])

    def test_what_a_header_offers_and_only_tests_use_is_a_warning(self):
        files = {"lower/more.hpp": "// alone() and Alone, by name\nstruct Alone { Alone(); };\nint alone(int a);\n"
                                   "int helper();\nstruct Answer { int a; };\nAnswer answer();\n",
                 "lower/more.cpp": '#include "lower/more.hpp"\nAlone::Alone() {}\n'
                                   "int alone(int a) { return a + helper(); }\nint helper() { return 1; }\n",
                 "upper/use.cpp": '#include "lower/more.hpp"\nint use() { return answer().a; }  // alone()\n',
                 "tests/use.cpp": '#include "lower/more.hpp"\nint test() { Alone a; return alone(1); }\n'}
        self.expect(files, 0, ["lower/more.hpp:2: warning: unused: Alone has no user outside tests",
                               "lower/more.hpp:3: warning: unused: alone has no user outside tests"])


if __name__ == "__main__":
    unittest.main()
