#!/usr/bin/env python3
"""Makes the system calls of commands fail, one at a time, and checks what becomes of the command.

    system_calls.py FAIL_CALL EXECUTABLE [--calls write,fsync] [--list]

Each place where a command makes such a call is tried. The program ends by itself, with an exit code that it documents;
a failure gives the reason; every output file is absent, or whole, and nothing else is left in its folder. --list prints
what each failure came to. Exit code 77: processes cannot be traced here.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile

SWEEP = """kind: layer
name: small
base: {cluster: loopback, model: host_moe, workload: host, world: 4}
axes:
  sequence: {key: workload.sequence_length, values: [64, 128, 256]}
outputs: [makespan_s]
"""
TABLE = """gpu,kind,phase,dtype,m,n,k,time_us,source
h100_sxm,gemm,forward,bf16,4096,4096,4096,250,aiconfigurator
"""
COMMANDS = {
    "plan": ("plan --cluster loopback --model host_moe --workload host --schedule baseline --all-to-all linear --tp 1 "
             "--ep 4 --dp 4 --pp 1 --placement contiguous --threads 3 --quiet -o plan.yaml --trace trace.json",
             ["plan.yaml", "trace.json"]),
    "sweep": ("sweep small.yaml -o small.sqlite --csv small.csv --jobs 3 --quiet", ["small.sqlite", "small.csv"]),
    "score": ("score table.csv -o score.csv", ["score.csv"]),
}
DOCUMENTED = {0, 1, 2, 3}
# What is said in place of the system's words, most of it by SQLite.
REASONS = ("the disk is full", "has reached the largest size", "disk I/O error", "is damaged, or cannot be read",
           "is locked by another program", "locking protocol", "cannot be opened or made", "cannot be written to",
           "no thread can be started")
SKIPPED = 77
MOST_SECONDS = 120


class Ran:
    """One run in a folder of its own, in which the n-th of these calls failed."""

    def __init__(self, tools, command, call="none", n=0):
        words, self.outputs = COMMANDS[command]
        with tempfile.TemporaryDirectory(prefix="faults-") as name:
            folder = pathlib.Path(name) / "work"
            folder.mkdir()
            (folder / "small.yaml").write_text(SWEEP)
            (folder / "table.csv").write_text(TABLE)
            before = {p.name for p in folder.iterdir()}
            report = folder.parent / "report"
            report.touch()
            try:
                done = subprocess.run([tools[0], report, call, str(n), tools[1], *words.split()], cwd=folder,
                                      stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS, check=False)
                self.code, self.said = done.returncode, done.stderr.decode(errors="replace").strip()
            except subprocess.TimeoutExpired:
                self.code, self.said = None, ""
            lines = [line.split() for line in report.read_text().splitlines()]
            self.counts = {words[0]: int(words[1]) for words in lines if words[0] != "failed"}
            failed = [words for words in lines if words[0] == "failed"]
            self.thread, error = map(int, failed[0][1:]) if failed else (0, 0)
            self.reasons = (os.strerror(error), *REASONS)
            self.contents = {name: content(folder / name) for name in self.outputs if (folder / name).exists()}
            self.left = {p.name for p in folder.iterdir()} - before - set(self.outputs)
        # The allocator ends the program where a new thread finds no room for its first block.
        self.is_allocators = call == "mmap" and self.thread > 1 and self.code == 128 + signal.SIGSEGV

    def complaint(self, whole):
        """What is wrong; None if nothing is."""
        if self.code is None:
            return f"did not end within {MOST_SECONDS} s"
        if self.code not in DOCUMENTED:
            return f"ended with {self.code}: {self.said[-200:]}"
        if self.code != 0 and not any(reason in self.said for reason in self.reasons):
            return f"ended with {self.code} without the reason: {self.said[-200:]}"
        for name in self.outputs:
            if self.code == 0 and name not in self.contents:
                return f"ended with 0, but {name} is not there"
            if self.contents.get(name, whole[name]) != whole[name] and (self.code == 0 or not name.endswith(".sqlite")):
                return f"ended with {self.code}, but {name} is not whole"
        # A database that is not done is left with its journal, to go on with. A lock and an index of the journal do
        # no harm where they cannot be removed.
        others = {n for n in self.left if self.code == 0 or not n.startswith("small.sqlite")}
        others -= {"small.sqlite.lock", "small.sqlite-shm"}
        return f"ended with {self.code} and left {sorted(others)}" if others else None


def content(path):
    """What a file says, without what differs from run to run."""
    if path.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as database:
            try:
                return re.sub(r"[0-9.e-]+\);", ");", "\n".join(database.iterdump()))
            except sqlite3.DatabaseError:
                return None
    return path.read_bytes()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fail_call")
    parser.add_argument("executable")
    parser.add_argument("--calls")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    tools = [os.path.abspath(arguments.fail_call), os.path.abspath(arguments.executable)]
    tried = collections.defaultdict(collections.Counter)
    wrong = allocators = 0
    for command in COMMANDS:
        reference = Ran(tools, command)
        if reference.code == SKIPPED:
            print(f"skipped: {reference.said}")
            return SKIPPED
        if reference.code != 0:
            sys.exit(f"{command}: ends with {reference.code} without any failure: {reference.said}")
        for call, count in reference.counts.items():
            if arguments.calls and call not in arguments.calls.split(","):
                continue
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                runs = list(pool.map(lambda n: Ran(tools, command, call, n), range(1, count + 1)))
            for n, ran in enumerate(runs, 1):
                if ran.code is not None and ran.thread == 0:
                    continue  # fewer calls this time
                tried[command][call] += 1
                allocators += ran.is_allocators
                text = None if ran.is_allocators else ran.complaint(reference.contents)
                wrong += text is not None
                if text or arguments.list:
                    print(f"{command}: {call} {n} of {count}: {text or (ran.code, ran.said)}")
    for command, calls in tried.items():
        print(f"{command}: " + ", ".join(f"{call} {n}" for call, n in calls.items()))
    total = sum(sum(calls.values()) for calls in tried.values())
    print(f"{total} failures injected, {wrong} with a finding; {allocators} ended by the allocator of a thread")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
