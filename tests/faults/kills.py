#!/usr/bin/env python3
"""Kills sweeps, profiles and validations at random moments, and checks what becomes of their work.

    kills.py EXECUTABLE [--times N] [--kinds sweep,validate,profile,stop]

Each kind is killed (SIGKILL) N times. A sweep that goes on with --resume never has fewer cases than before, and in the
end the same table, byte for byte, as one that nothing disturbed. Of a validation or a profile no process is left ten
seconds later, no part of an output, and no temporary folder after the next run. `stop`: a rank or mpirun is stopped
(SIGSTOP); the validation ends by its timeout with a message, or when it is told to, and leaves nothing. `start`: the same
before MPI has started, half as often, since each takes more than a minute. Without MPI there are only sweeps.
"""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SWEEP = """include: {configs}/sweeps/parm_table3_a.yaml
name: grid
axes:
  B: {{values: [2, 4]}}
  f: {{values: [1.2]}}
  L: {{values: [512, 1024]}}
"""
PLAN = ["plan", "--cluster", "host", "--model", "host_moe", "--workload", "host", "--world", "2", "--pp", "1", "--tp", "1",
        "--ep", "2", "--esp", "1", "-o", "p.yaml", "--quiet"]
VALIDATE = ["validate", "p.yaml", "--backend", "host", "--iterations", "20", "--trace", "t.json", "--quiet"]
PROFILE = ["profile", "--backend", "host", "--ranks", "2", "--budget", "2s", "-o", "profile.yaml", "--quiet"]
MOST_SECONDS = 120
MARK = "MOEPLAN_KILLS"  # a variable by which processes are found


class Folder:
    """Runs the program in a folder of its own, which is its folder for temporary files too."""

    def __init__(self, executable):
        self.executable = executable
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="kills-"))
        self.temporary = self.path / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), MARK: str(self.path)}

    def started(self, arguments):
        with open(self.path / "stderr", "wb") as said:
            return subprocess.Popen([self.executable, *arguments], cwd=self.path, env=self.environment,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)

    def said(self):
        return (self.path / "stderr").read_text(errors="replace")

    def run(self, arguments):
        done = subprocess.run([self.executable, *arguments], cwd=self.path, env=self.environment, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=MOST_SECONDS, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{arguments[0]} ends with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def processes(self):
        """Those that run, by their names."""
        mark = f"{MARK}={self.path}".encode()
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0") and (folder / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.setdefault((folder / "comm").read_text().strip(), []).append(int(folder.name))
            except OSError:
                continue
        return found

    def ranks_at_work(self):
        """Ranks that are past their start, by the board on which they say what they do."""
        return sum(board.read_bytes().count(b"moe layer") for board in self.temporary.glob("moeplan-*/board"))

    def left_processes(self, seconds=10):
        end = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.05)
        return left

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pids in self.processes().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)


def killed_after(process, seconds):
    """Whether it was killed, rather than done before."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
    return process.wait() == -signal.SIGKILL


def sweeps(folder, times, moments):
    """Chains of ten kills each, every one in the end compared with the table of an undisturbed sweep."""
    configs = os.environ.get("MOEPLAN_CONFIGS", "configs")
    (folder.path / "grid.yaml").write_text(SWEEP.format(configs=configs))
    begin = time.monotonic()
    folder.run(["sweep", "grid.yaml", "-o", "whole.sqlite", "--quiet"])
    whole = time.monotonic() - begin
    expected = folder.run(["query", "whole.sqlite", "table", "--csv"])
    killed = 0
    while killed < times:
        cases = 0
        for _ in range(min(10, times - killed)):
            process = folder.started(["sweep", "grid.yaml", "-o", "k.sqlite", "--quiet", "--resume", "--jobs", "2"])
            if not killed_after(process, moments.uniform(0, 0.3 * whole)):
                break
            killed += 1
            try:
                now = folder.run(["query", "k.sqlite", "table", "--csv"]).count(b"\n")
            except RuntimeError:
                now = 0  # before its tables were there
            if now < cases:
                yield f"a killed sweep has {now} cases, {cases} before"
            cases = now
        folder.run(["sweep", "grid.yaml", "-o", "k.sqlite", "--quiet", "--resume"])
        if folder.run(["query", "k.sqlite", "table", "--csv"]) != expected:
            yield f"after {killed} kills a resumed sweep has another table"
        left = sorted(p.name for p in folder.path.glob("k.sqlite?*"))
        if left:
            yield f"a resumed sweep leaves {left}"
        (folder.path / "k.sqlite").unlink()


def jobs(folder, times, moments, command, output):
    """Validations or profiles."""
    folder.run(PLAN)
    begin = time.monotonic()
    folder.run(command)
    whole = time.monotonic() - begin
    expected = (folder.path / output).stat().st_size
    (folder.path / output).unlink()
    killed = 0
    while killed < times:
        process = folder.started(command)
        if not killed_after(process, moments.uniform(0, whole)):
            (folder.path / output).unlink(missing_ok=True)
            continue
        killed += 1
        if left := folder.left_processes():
            yield f"a killed {command[0]} leaves {left}"
        if (folder.path / output).exists() and (folder.path / output).stat().st_size < expected / 2:
            yield f"a killed {command[0]} leaves a part of {output}"
        (folder.path / output).unlink(missing_ok=True)
        if len(left := [p.name for p in folder.temporary.iterdir()]) > 1:
            yield f"killed runs leave {left}, which their next does not remove"
    folder.run(command)
    if left := [p.name for p in folder.temporary.iterdir()]:
        yield f"after the next {command[0]} there are {left}"


def stops(folder, times, moments):
    """Stopped ranks, and a stopped mpirun."""
    folder.run(PLAN)
    for n in range(times):
        name = ("moeplan-host-wo", "mpirun")[n % 2]
        process = folder.started(["validate", "p.yaml", "--backend", "host", "--iterations", "1000", "--timeout", "2s"])
        while folder.ranks_at_work() < 2 and process.poll() is None:
            time.sleep(0.02)
        time.sleep(moments.uniform(0.2, 1))
        found = folder.processes()
        if name not in found:
            yield f"without a stopped {name} it ends with {process.wait()}: {folder.said().strip()[-200:]}"
            continue
        os.kill(moments.choice(found[name]), signal.SIGSTOP)
        if name == "mpirun":
            process.terminate()
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            yield f"with a stopped {name} it does not end"
            continue
        if code != (130 if name == "mpirun" else 1) or not folder.said().strip():
            yield f"with a stopped {name} it ends with {code}: {folder.said().strip()[-200:]}"
        if left := folder.left_processes():
            yield f"with a stopped {name} it leaves {left}"
        if left := [p.name for p in folder.temporary.iterdir() if p.name.startswith("moeplan-")]:
            yield f"with a stopped {name} it leaves {left}"
        for path in folder.temporary.iterdir():  # mpirun's own, which it could not remove
            shutil.rmtree(path, ignore_errors=True)


def starts(folder, times, moments):
    """A rank, or mpirun, stopped before MPI has started: the validation ends by its limit of a minute and more."""
    folder.run(PLAN)
    for n in range((times + 1) // 2):
        name = ("moeplan-host-wo", "mpirun")[n % 2]
        process = folder.started(["validate", "p.yaml", "--backend", "host", "--iterations", "1", "--timeout", "1s", "--budget", "1s"])
        while name not in (found := folder.processes()) and process.poll() is None:
            time.sleep(0.001)
        if name not in found:
            yield f"{name} does not start: {folder.said().strip()[-200:]}"
            continue
        os.kill(moments.choice(found[name]), signal.SIGSTOP)
        try:
            code = process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            yield f"with a {name} stopped at its start it does not end"
            process.kill()
            continue
        if code != 1 or "not done after" not in folder.said() or "not started" not in folder.said():
            yield f"with a {name} stopped at its start it ends with {code}: {folder.said().strip()[-200:]}"
        if left := folder.left_processes():
            yield f"with a {name} stopped at its start it leaves {left}"
        for path in folder.temporary.iterdir():
            shutil.rmtree(path, ignore_errors=True)


KINDS = {
    "sweep": sweeps,
    "validate": lambda *a: jobs(*a, VALIDATE, "t.json"),
    "profile": lambda *a: jobs(*a, PROFILE, "profile.yaml"),
    "stop": stops,
    "start": starts,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("executable")
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(KINDS))
    arguments = parser.parse_args()
    executable = os.path.abspath(arguments.executable)
    has_ranks = os.path.exists(os.path.join(os.path.dirname(executable), "moeplan-host-worker")) and shutil.which("mpirun")
    wrong = 0
    for kind in arguments.kinds.split(","):
        if kind != "sweep" and not has_ranks:
            continue
        with Folder(executable) as folder:
            findings = list(KINDS[kind](folder, arguments.times, random.Random(20261124)))
        for text in findings:
            print(f"{kind}: {text}")
        wrong += len(findings)
        print(f"{kind}: {arguments.times} times, {len(findings)} findings", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
