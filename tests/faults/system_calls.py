#!/usr/bin/env python3
"""Makes the system calls of commands fail, one at a time, and checks what becomes of the command.

    system_calls.py EXECUTABLE [--most N] [--calls write,fsync]

Of every call at most N places are tried, spread over the run; without --most all. For each: the program ends by itself,
with an exit code that it documents; a failure says something; every output file is absent, or what it was before, or
whole; nothing else is left in its folder. Needs strace. Exit code 77: strace cannot be used here.
"""
import argparse
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

JOB = ["--cluster", "loopback", "--model", "host_moe", "--workload", "host", "--quiet", "--budget", "1"]
SWEEP = """kind: layer
name: small
base: {cluster: loopback, model: host_moe, workload: host, world: 4}
axes:
  sequence: {key: workload.sequence_length, values: [64, 128]}
outputs: [makespan_s]
"""
TABLE = """gpu,kind,phase,dtype,m,n,k,time_us,source
h100_sxm,gemm,forward,bf16,4096,4096,4096,250,aiconfigurator
"""
COMMANDS = {
    "plan": (["plan", *JOB, "-o", "plan.yaml", "--trace", "trace.json"], ["plan.yaml", "trace.json"]),
    "sweep": (["sweep", "small.yaml", "-o", "small.sqlite", "--quiet"], ["small.sqlite"]),
    "score": (["score", "table.csv", "-o", "score.csv"], ["score.csv"]),
}
FAILURES = {
    "write": "ENOSPC", "pwrite64": "ENOSPC", "openat": "EMFILE", "rename": "EACCES", "fsync": "EIO", "fdatasync": "EIO",
    "mmap": "ENOMEM", "clone3": "EAGAIN", "read": "EIO", "ftruncate": "EFBIG", "newfstatat": "EACCES",
}
DOCUMENTED = {0, 1, 2, 3}
SYSTEM_FILES = ("/etc/", "/lib/", "/lib64/", "/usr/lib/", "/proc/", "/sys/")  # of the dynamic loader and the allocator
MOST_SECONDS = 120


class Case:
    """One run in a folder of its own."""

    def __init__(self, executable, command):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults-"))
        arguments, self.outputs = COMMANDS[command]
        self.command = [executable, *arguments]
        (self.folder / "small.yaml").write_text(SWEEP)
        (self.folder / "table.csv").write_text(TABLE)
        self.inputs = {"small.yaml", "table.csv"}

    def run(self, strace):
        log = self.folder.with_suffix(".log")
        try:
            done = subprocess.run(["strace", "-f", "-qq", "-o", str(log), *strace, *self.command], cwd=self.folder,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=MOST_SECONDS, check=False)
            return done.returncode, done.stdout, done.stderr.decode(errors="replace"), log.read_text(errors="replace")
        except subprocess.TimeoutExpired:
            return None, b"", "", ""
        finally:
            log.unlink(missing_ok=True)

    def left(self):
        return {p.name for p in self.folder.iterdir()} - self.inputs

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def content(path):
    """What a file says, without what differs from run to run."""
    if path.suffix == ".sqlite":
        with contextlib.closing(sqlite3.connect(path)) as database:
            try:
                return re.sub(r"[0-9.e-]+\);", ");", "\n".join(database.iterdump()))
            except sqlite3.DatabaseError:
                return None
    return path.read_bytes()


def reference(executable, command):
    with Case(executable, command) as case:
        code, _, said, _ = case.run(["-e", "trace=none"])
        if code != 0:
            sys.exit(f"{command}: ends with {code} without any failure: {said}")
        return {name: content(case.folder / name) for name in case.outputs}


def number_of_calls(executable, command, call):
    with Case(executable, command) as case:
        return len(re.findall(rf"\b{call}\(", case.run(["-e", f"trace={call}"])[3]))


def complaint(executable, command, call, n, whole):
    """What is wrong when the n-th of these calls fails; None if nothing is."""
    with Case(executable, command) as case:
        code, _, said, log = case.run(["-e", f"trace={call},openat", "-e", f"inject={call}:error={FAILURES[call]}:when={n}"])
        if "(INJECTED)" not in log:
            return None  # another number of calls this time
        if code is None:
            return f"did not end within {MOST_SECONDS} s"
        if not any(not path.startswith(SYSTEM_FILES) for path in re.findall(r'openat\(AT_FDCWD, "([^"]*)"', log)):
            return None  # the loader or the allocator ended it before it began
        if code not in DOCUMENTED:
            return f"ended with {code}: {said.strip()[-200:]}"
        if code != 0 and not said.strip():
            return f"ended with {code} without a word"
        for name in case.outputs:
            path = case.folder / name
            if code == 0 and not path.exists():
                return f"ended with 0, but {name} is not there"
            if path.exists() and path.suffix != ".sqlite" and content(path) != whole[name]:
                return f"ended with {code}, and {name} is not whole"
            if code == 0 and content(path) != whole[name]:
                return f"ended with 0, but {name} differs"
        # A database may be left to go on with, and its journal and lock with it.
        others = {n for n in case.left() - set(case.outputs) if not n.startswith("small.sqlite")}
        return f"ended with {code} and left {sorted(others)}" if others else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("executable")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--calls", default=",".join(FAILURES))
    arguments = parser.parse_args()
    executable = os.path.abspath(arguments.executable)
    if shutil.which("strace") is None or subprocess.run(["strace", "-qq", "-e", "trace=none", "true"], capture_output=True, check=False).returncode:
        print("skipped: strace cannot be used here")
        return 77
    wrong = tried = 0
    for command in COMMANDS:
        whole = reference(executable, command)
        for call in arguments.calls.split(","):
            count = number_of_calls(executable, command, call)
            step = max(1, -(-count // arguments.most)) if arguments.most else 1
            places = range(1, count + 1, step)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                found = list(pool.map(lambda n: complaint(executable, command, call, n, whole), places))
            tried += len(found)
            for n, text in zip(places, found):
                if text:
                    wrong += 1
                    print(f"{command}: {call} number {n} of {count} fails with {FAILURES[call]}: {text}")
    print(f"{tried} failures injected, {wrong} with a finding")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
