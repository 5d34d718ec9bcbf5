#!/usr/bin/python3
"""mpirun psgd train and resume: the same bits on 1, 2, 4 and 8 ranks, also after kill -9 of a rank and on another number
of ranks; sentences for bad input. PSGD_LONG_TESTS=1 kills 50 times, not 5, and trains every model on 1, 2, 4 and 8 ranks,
not the first on all and the others on 2 or 8."""
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE, BUILD = Path(sys.argv[1]), Path(sys.argv[2])
PSGD = str((BUILD / "psgd").resolve())
LONG = bool(os.environ.get("PSGD_LONG_TESTS"))
ENVIRONMENT = dict(os.environ, PSGD_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   OMPI_MCA_btl_base_warn_component_unused="0")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def find_mpirun():
    cache = (BUILD / "CMakeCache.txt").read_text()
    if re.search(r"^PSGD_SANITIZE:STRING=.", cache, re.M):
        skip("MPI has leaks of its own; ranks are tested with sanitizers as threads")
    if not shutil.which("mpirun"):
        skip("there is no mpirun")
    if "libmpi" not in subprocess.run(["ldd", PSGD], capture_output=True, text=True).stdout:
        skip("psgd was built without MPI")
    said = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return ["mpirun", *(["--bind-to", "none", "--oversubscribe"] if "Open MPI" in said else [])]


MPIRUN = find_mpirun()

DIGITS = ["--data", "digits", "--samples", "192", "--batch", "48", "--epochs", "2", "--log-every", "2"]
RUNS = {
    "LeNet5, Newton, kron(dense,dense)":
        ["lenet5", *DIGITS, "--optimizer", "psgd-newton", "--group", "kron(dense,dense)"],
    "LeNet5, Fisher, scan": ["lenet5", *DIGITS, "--optimizer", "psgd-fisher", "--group", "scan"],
    "LeNet5, Newton, tiles": ["lenet5", *DIGITS, "--optimizer", "psgd-newton", "--group", "tiles(kron(dense,dense),2,3)"],
    "language model, Newton, scan":
        ["lm", "--data", "markov:100,6,2000,1", "--batch", "9", "--hidden", "16", "--epochs", "2", "--log-every", "3",
         "--optimizer", "psgd-newton", "--group", "scan", "--dropout", "0.1"],
    "AlexNet, batch norm, Fisher, scan":
        ["alexnet", "--data", "npy:x.npy,y.npy", "--size", "small", "--batch", "16", "--epochs", "1", "--normalise",
         "yes", "--optimizer", "psgd-fisher", "--group", "scan"],
}

DELAYED = ["--optimizer", "psgd-newton", "--delay", "3", "--update-every", "2"]
DELAYED_RUNS = {
    "LeNet5": ["lenet5", *DIGITS, *DELAYED, "--group", "kron(dense,dense)"],
    "language model": ["lm", "--data", "markov:100,6,2000,1", "--batch", "9", "--hidden", "16", "--epochs", "1",
                       "--log-every", "3", "--dropout", "0.1", *DELAYED],
}


def images(folder):
    import numpy
    rng = numpy.random.default_rng(1)
    numpy.save(folder / "x.npy", rng.random((40, 3, 32, 32), dtype=numpy.float32))
    numpy.save(folder / "y.npy", rng.integers(0, 4, 40).astype(numpy.float32))


def launch(folder, ranks, *words):
    command = [PSGD, *words] if ranks == 0 else [*MPIRUN, "-n", str(ranks), PSGD, *words]
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, start_new_session=True)


def run(folder, ranks, *words, fails=False):
    process = launch(folder, ranks, *words)
    out, err = process.communicate(timeout=300)
    assert (process.returncode != 0) == fails, (process.returncode, out, err)
    return err if fails else out


def records(folder):
    """Without the clock."""
    kept = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in record.items() if "seconds" not in name} for record in kept
            if record["kind"] != "header"]


def checkpoint(folder):
    """Without the clock: seconds and cpu in the head, and the checksum."""
    data = bytearray((folder / "checkpoint.psgd").read_bytes())
    for place in (24, 48, len(data) - 8):
        struct.pack_into("8x", data, place)
    return bytes(data)


class Ranks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.at = Path(self.folder.name)

    def place(self, name):
        folder = self.at / name
        folder.mkdir()
        return folder

    def assert_same(self, one, other):
        self.assertEqual((one / "run/weights.safetensors").read_bytes(), (other / "run/weights.safetensors").read_bytes())
        self.assertEqual(records(one / "run"), records(other / "run"))
        self.assertEqual(checkpoint(one / "run"), checkpoint(other / "run"))

    def test_bits_do_not_depend_on_the_number_of_ranks(self):
        for i, (name, words) in enumerate(RUNS.items()):
            with self.subTest(name):
                shutil.rmtree(self.at)
                self.at.mkdir()
                one = self.place("one")
                if words[0] == "alexnet":
                    images(one)
                run(one, 0, "train", *words, "--micro-batches", "8", "--out", "run")
                for ranks in (1, 2, 4, 8) if LONG or i == 0 else (2,) if i % 2 else (8,):
                    other = self.place(str(ranks))
                    if words[0] == "alexnet":
                        images(other)
                    run(other, ranks, "train", *words, "--micro-batches", "8", "--out", "run")
                    self.assert_same(one, other)

    def children(self, parent):
        """The processes of psgd below mpirun."""
        found = []
        for line in subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True).stdout.splitlines():
            pid, above, name = line.split(None, 2)
            if int(above) == parent:
                found += [int(pid)] if name == "psgd" else self.children(int(pid))
        return found

    def kill_one(self, process, seconds, rng):
        """Kills a rank after that many seconds; whether there was one to kill."""
        time.sleep(seconds)
        pids = self.children(process.pid)
        if process.poll() is not None or not pids:
            return False
        os.kill(rng.choice(pids), signal.SIGKILL)
        return True

    def test_a_killed_rank_ends_all_and_the_run_resumes_on_another_number(self):
        words = ["lenet5", *DIGITS[:-2], "--log-every", "1", "--optimizer", "psgd-newton", "--group",
                 "kron(dense,dense)", "--checkpoint-every", "1", "--epochs", "6"]
        rng = random.Random(1)
        one = self.place("one")
        began = time.monotonic()
        run(one, 4, "train", *words, "--micro-batches", "8", "--out", "run")
        whole = time.monotonic() - began
        kills, wanted, tries = 0, 50 if LONG else 5, 0
        while kills < wanted:
            tries += 1
            self.assertLess(tries, 20 * wanted, "runs end before they can be killed")
            other = self.place(f"killed{tries}")
            ranks = rng.choice((2, 4, 8))
            process = launch(other, ranks, "train", *words, "--micro-batches", "8", "--out", "run")
            while not (other / "run/checkpoint.psgd").exists() and process.poll() is None:
                time.sleep(0.01)
            killed = self.kill_one(process, rng.random() * whole / 3, rng)
            began = time.monotonic()
            out, err = process.communicate(timeout=60)
            if killed and process.returncode != 0:
                kills += 1
                self.assertLess(time.monotonic() - began, 20)
                self.assertRegex(out + err, "(?i)rank|signal 9|killed")
                run(other, rng.choice((1, 2, 4, 8)), "resume", "run")
            self.assert_same(one, other)
            shutil.rmtree(other)

    def test_bad_input_is_one_sentence(self):
        here = self.place("here")
        mlp = ["train", "mlp", *DIGITS]
        for ranks, words, said in (
                (2, [*mlp, "--micro-batches", "3"], "psgd: rank 0: 2 ranks with 3 micro-batches"),
                (3, mlp, "psgd: rank 0: 3 ranks with 8 micro-batches"),
                (2, ["train", "mlp", "--data", "idx:nosuch"], "psgd: rank 0: "),
                (2, ["group", "tri", "--shape", "3"], "psgd: rank 0: psgd group runs on one rank"),
                (2, ["train"], "psgd: rank 0: psgd train needs one MODEL"),
                (2, [*mlp, "--lr", "-1"], "psgd: rank 0: ")):
            with self.subTest(words):
                err = run(here, ranks, *words, "--out", "run", fails=True) if words[0] == "train" else \
                    run(here, ranks, *words, fails=True)
                lines = [line for line in err.splitlines() if line.startswith("psgd: ")]
                self.assertEqual(len(lines), 1, err)
                self.assertTrue(lines[0].startswith(said), lines)
                self.assertFalse((here / "run").exists())

    def test_a_run_of_one_process_resumes_on_one_rank_only(self):
        here = self.place("here")
        run(here, 0, "train", "mlp", *DIGITS, "--steps", "2", "--out", "run")
        err = run(here, 2, "resume", "run", "--steps", "4", fails=True)
        self.assertIn("2 ranks with 1 micro-batches", err)
        err = run(here, 0, "resume", "run", "--micro-batches", "8", fails=True)
        self.assertIn("has --micro-batches 1 and cannot resume with 8", err)
        run(here, 1, "resume", "run", "--steps", "4")

    def test_ranks_with_other_data_are_told(self):
        here = self.place("here")
        words = ["train", "mlp", "--data", "digits", "--micro-batches", "8", "--samples"]
        command = [*MPIRUN, "-n", "1", PSGD, *words, "100", ":", "-n", "1", PSGD, *words, "120"]
        done = subprocess.run(command, cwd=here, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("psgd: rank 1: its list of options is not that of rank 0", done.stderr)

    def two_that_differ(self, here, first, other):
        """Two ranks by two lists of words; what they say."""
        done = subprocess.run([*MPIRUN, "-n", "1", *first, ":", "-n", "1", *other], cwd=here, env=ENVIRONMENT,
                              capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        return [line for line in done.stderr.splitlines() if line.startswith("psgd: ")]

    def test_data_that_one_rank_does_not_have(self):
        here, there = self.place("here"), self.place("there")
        images(here)
        words = [PSGD, "train", "alexnet", "--data", "npy:x.npy,y.npy", "--size", "small", "--batch", "16", "--out", "run"]
        said = self.two_that_differ(here, words, ["-wdir", str(there), *words])
        self.assertEqual(said, ["psgd: rank 1: cannot open x.npy: No such file or directory"])
        self.assertFalse((here / "run").exists() or (there / "run").exists())

    def test_a_rank_without_memory(self):
        here = self.place("here")
        words = [PSGD, "train", "mlp", "--data", "digits", "--samples", "100", "--hidden", "3000", "--batch", "16", "--steps",
                 "2", "--group", "scan", "--out", "run"]
        limited = ["sh", "-c", 'ulimit -v 500000; exec "$@"', "sh", *words]
        said = self.two_that_differ(here, words, limited)
        self.assertEqual(len(said), 1, said)
        self.assertRegex(said[0], "psgd: rank 1: no memory for ")
        self.assertFalse((here / "run").exists())

    def test_curvature_ranks_have_the_bits_of_worker_threads(self):
        for name, words in DELAYED_RUNS.items():
            for parts, teams in (("1", ((2, 1),)), ("8", ((3, 1), (4, 2)))):  # ranks, and curvature ranks of them
                one = self.place(f"{name} {parts}")
                run(one, 0, "train", *words, "--micro-batches", parts, "--out", "run")
                for ranks, curvature in teams:
                    with self.subTest(name, parts=parts, ranks=ranks, curvature=curvature):
                        other = self.place(f"{name} {parts} {ranks} {curvature}")
                        run(other, ranks, "train", *words, "--micro-batches", parts, "--out", "run",
                            "--curvature-ranks", str(curvature))
                        self.assert_same(one, other)

    def test_curvature_ranks_come_and_go_from_session_to_session(self):
        words = ["lenet5", *DIGITS, *DELAYED, "--lr-schedule", "constant", "--epochs", "9", "--out", "run"]
        one, other = self.place("one"), self.place("other")
        run(one, 2, "train", *words, "--steps", "12")
        run(other, 3, "train", *words, "--steps", "3", "--curvature-ranks", "1")
        run(other, 2, "resume", "run", "--steps", "6")
        run(other, 2, "resume", "run", "--steps", "9", "--curvature-ranks", "1")
        run(other, 1, "resume", "run", "--steps", "12")
        self.assertEqual((one / "run/weights.safetensors").read_bytes(),
                         (other / "run/weights.safetensors").read_bytes())

    def process_of(self, process, rank):
        """The process of a rank; None where it has ended."""
        for pid in self.children(process.pid):
            try:
                words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(f"{name}={rank}".encode() in words for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")):
                return pid
        return None

    def test_a_killed_curvature_rank_ends_all(self):
        words = ["lenet5", *DIGITS, *DELAYED, "--checkpoint-every", "1", "--epochs", "12", "--micro-batches", "2", "--out",
                 "run"]
        one, killed = self.place("one"), False
        run(one, 0, "train", *words)
        for attempt in range(10):
            other = self.place(f"other{attempt}")
            process = launch(other, 3, "train", *words, "--curvature-ranks", "1")
            while not (other / "run/checkpoint.psgd").exists() and process.poll() is None:
                time.sleep(0.01)
            pid = self.process_of(process, 2)
            if pid:
                os.kill(pid, signal.SIGKILL)
            began = time.monotonic()
            out, err = process.communicate(timeout=60)
            killed = process.returncode != 0
            if killed:
                break
        self.assertTrue(killed, "runs end before they can be killed")
        self.assertLess(time.monotonic() - began, 20)
        self.assertRegex(out + err, "(?i)rank|signal 9|killed")
        run(other, 3, "resume", "run", "--curvature-ranks", "1")
        self.assert_same(one, other)

    def test_bad_use_of_curvature_ranks_is_one_sentence(self):
        here = self.place("here")
        mlp = ["train", "mlp", *DIGITS, "--out", "run", "--curvature-ranks"]
        for ranks, words, said in (
                (0, [*mlp, "1", "--delay", "2"], "psgd: --curvature-ranks 1 needs at least 2 ranks, and there is 1"),
                (2, [*mlp, "2", "--delay", "2"], "psgd: rank 0: --curvature-ranks 2 needs at least 3 ranks"),
                (2, [*mlp, "1"], "psgd: rank 0: --curvature-ranks is for asynchronous fits: add --delay"),
                (2, [*mlp, "1", "--delay", "2", "--optimizer", "psgd-fisher"],
                 "psgd: rank 0: --curvature-ranks is for Hessian-vector products, and psgd-fisher takes none"),
                (4, [*mlp, "3", "--delay", "2"], "psgd: rank 1: 3 curvature ranks with 8 micro-batches"),
                (2, [*mlp, "one"], "psgd: rank 0: --curvature-ranks needs a whole number")):
            with self.subTest(words):
                process = launch(here, ranks, *words)
                err = process.communicate(timeout=60)[1]
                lines = [line for line in err.splitlines() if line.startswith("psgd: ")]
                self.assertEqual(len(lines), 1, err)
                self.assertTrue(lines[0].startswith(said), lines)
                self.assertEqual(process.returncode, 2)
                self.assertFalse((here / "run").exists())

    def test_the_paper_runs_on_ranks(self):
        one, two = self.place("one"), self.place("two")
        words = ["paper", "wikitext2", "--methods", "newton-scan-10", "--steps", "4", "--batch", "8", "--hidden", "12",
                 "--micro-batches", "2", "--out", "out"]
        self.assertEqual([line.split()[:3] for line in run(one, 0, *words).splitlines()[1:3]],
                         [line.split()[:3] for line in run(two, 2, *words).splitlines()[1:3]])
        weights = [(folder / "out/newton-scan-10/weights.safetensors").read_bytes() for folder in (one, two)]
        self.assertEqual(*weights)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
