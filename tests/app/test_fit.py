#!/usr/bin/python3
"""psgd fit against a dense float64 computation written from the formulas alone, and against every kind of bad input."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
except ImportError:
    print("python3-numpy is not installed")
    sys.exit(77)

BUILD = os.path.abspath(sys.argv[2])
PSGD = os.path.join(BUILD, "psgd")


# Groups as orthogonal projections of n x n matrices onto their Lie algebra.
def masked(make):
    return lambda R: R * make(len(R))


def corner_fixed(n):
    mask = np.eye(n)
    mask[:, -1] = 1
    mask[-1, -1] = 0
    return mask


diag = masked(np.eye)
tri = masked(lambda n: np.triu(np.ones((n, n))))
dense = masked(lambda n: np.ones((n, n)))
xmat = masked(lambda n: np.maximum(np.eye(n), np.eye(n)[::-1]))
identity = masked(lambda n: np.zeros((n, n)))
bnorm = masked(corner_fixed)


def norm(R):
    keep = corner_fixed(len(R))
    keep[-1, -1] = 1
    return R * keep


def scale(R):
    return np.eye(len(R)) * np.trace(R) / len(R)


def t(group):
    return lambda R: group(R.T).T


def block(a, k, b):
    def project(R):
        out = np.zeros_like(R)
        out[:k, :k], out[:k, k:], out[k:, k:] = a(R[:k, :k]), R[:k, k:], b(R[k:, k:])
        return out

    return project


# spec, shape, factors; a factor is a list of parts (size, projection), each normalised on its own.
CASES = [
    ("diag", (7,), [[(7, diag)]]),
    ("scale", (2, 3), [[(6, scale)]]),
    ("tri", (6,), [[(6, tri)]]),
    ("tril", (2, 3), [[(6, t(tri))]]),
    ("t(tri)", (5,), [[(5, t(tri))]]),
    ("dense", (5,), [[(5, dense)]]),
    ("norm", (5,), [[(5, norm)]]),
    ("bnorm", (5,), [[(5, bnorm)]]),
    ("xmat", (7,), [[(7, xmat)]]),
    ("block(tri,identity:1)", (5,), [[(5, block(tri, 4, identity))]]),
    ("sum(diag:2,tri)", (6,), [[(2, diag), (4, tri)]]),
    ("kron(tri,tri)", (4, 3), [[(4, tri)], [(3, tri)]]),
    ("kron(diag, tri, t(norm))", (2, 3, 4), [[(2, diag)], [(3, tri)], [(4, t(norm))]]),
    ("scan", (5, 4), [[(5, diag)], [(4, norm)]]),
    ("scaw", (3, 4), [[(3, diag)], [(4, tri)]]),
    ("kron(t(block(diag:2,tri)),sum(bnorm:3,scale:4))", (5, 7),
     [[(5, t(block(diag, 2, tri)))], [(3, bnorm), (4, scale)]]),
]


class Reference:
    """Q as full matrices: A = Qh, B = Q^-T v, R = Pi(AA' - BB'), Q <- (I - step R / max|R|) Q."""

    def __init__(self, shape, factors, init=1.0):
        self.factors = factors
        self.sizes = [sum(size for size, _ in factor) for factor in factors]
        self.flat = len(factors) == 1 and len(shape) > 1
        self.Q = []
        for factor, n in zip(factors, self.sizes):
            Q = np.zeros((n, n))
            at = 0
            for size, project in factor:
                # A part starts at the scale where its algebra holds I, and entries that it fixes stay 1.
                free = np.diag(project(np.eye(size))) > 0
                Q[at:at + size, at:at + size] = np.diag(np.where(free, init ** (1 / len(factors)), 1))
                at += size
            self.Q.append(Q)

    def act(self, matrices, X):
        shape = X.shape
        X = X.reshape(-1) if self.flat else X
        for mode, M in enumerate(matrices):
            X = np.moveaxis(np.tensordot(M, X, axes=(1, mode)), 0, mode)
        return X.reshape(shape)

    def outer(self, X, mode):
        X = X.reshape(-1) if self.flat else X
        X = np.moveaxis(X, mode, 0).reshape(X.shape[mode], -1)
        return X @ X.T

    def update(self, v, h, step, plain=False):
        A = self.act(self.Q, h)
        B = self.act([np.linalg.inv(Q).T for Q in self.Q], v)
        new = []
        for mode, factor in enumerate(self.factors):
            S = self.outer(A, mode) - self.outer(B, mode)
            move, at = np.zeros_like(S), 0
            for size, project in factor:
                part = slice(at, at + size)
                R = project(S[part, part])
                if np.abs(R).max() > 0:
                    move[part, part] = 2 * step * R if plain else step / np.abs(R).max() * R
                at += size
            new.append(self.Q[mode] - move @ self.Q[mode])
        self.Q = new

    def precondition(self, G):
        return self.act([Q.T @ Q for Q in self.Q], G)

    def criterion(self, v, h):
        A, B = self.act(self.Q, h), self.act([np.linalg.inv(Q).T for Q in self.Q], v)
        return np.sum(A * A) + np.sum(B * B)

    def condition(self):
        return np.prod([np.linalg.cond(Q) for Q in self.Q])


def run(*words):
    return subprocess.run([PSGD, *map(str, words)], capture_output=True, text=True)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.chdir(self.folder.name)
        self.random = np.random.default_rng(7)

    def save(self, name, array):
        np.save(name, array)
        return name

    def pairs(self, shape, count=24, dtype="f8"):
        v = self.random.normal(size=(count, *shape))
        h = v * np.exp(self.random.normal(size=shape)) + 0.3 * self.random.normal(size=(count, *shape))
        g = self.random.normal(size=(3, *shape))
        for name, x in (("V", v), ("H", h), ("G", g)):
            self.save(name + ".npy", x.astype(dtype))
        return v.astype(dtype).astype("f8"), h.astype(dtype).astype("f8"), g.astype(dtype).astype("f8")


class Fit(Case):
    def fit(self, spec, shape, *more):
        shutil.rmtree("out", ignore_errors=True)
        done = run("fit", "--group", spec, "--shape", "x".join(map(str, shape)), "--h", "H.npy", "--apply", "G.npy",
                   "--out", "out", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def check(self, reference, g, bound, dtype):
        for i, Q in enumerate(reference.Q):
            got = np.load(f"out/Q{i + 1}.npy")
            self.assertEqual((got.dtype, got.shape), (np.dtype(dtype), Q.shape))
            self.assertLess(np.abs(got - Q).max(), bound * np.abs(Q).max())
        self.assertFalse(os.path.exists(f"out/Q{len(reference.Q) + 1}.npy"))
        expected = np.stack([reference.precondition(x) for x in g])
        got = np.load("out/PG.npy")
        self.assertEqual((got.dtype, got.shape), (np.dtype(dtype), expected.shape))
        self.assertLess(np.abs(got - expected).max(), bound * np.abs(expected).max())
        self.assertEqual([n for n in os.listdir("out") if "partial" in n], [])

    def test_every_spec_matches_the_dense_computation(self):
        for spec, shape, factors in CASES:
            for flag, dtype, bound in (("f64", "f8", 1e-11), ("f32", "f4", 2e-4)):
                with self.subTest(spec=spec, dtype=flag):
                    v, h, g = self.pairs(shape, dtype=dtype)
                    reference = Reference(shape, factors, 0.5)
                    for x, y in zip(v, h):
                        reference.update(x, y, 0.05)
                    self.fit(spec, shape, "--v", "V.npy", "--norm", "max", "--step", 0.05, "--init-scale", 0.5,
                             "--dtype", flag)
                    self.check(reference, g, bound, dtype)

    def test_defaults_are_newton_step_001_scale_1_f32(self):
        v, h, g = self.pairs((4, 3))
        reference = Reference((4, 3), [[(4, tri)], [(3, tri)]])
        for x, y in zip(v, h):
            reference.update(x, y, 0.01)
        self.fit("kron(tri,tri)", (4, 3), "--v", "V.npy")
        self.check(reference, g, 1e-5, "f4")

    def test_plain_rule_has_the_factor_two(self):
        v, h, g = self.pairs((5,))
        reference = Reference((5,), [[(5, tri)]])
        for x, y in zip(v, h):
            reference.update(x, y, 0.001, plain=True)
        self.fit("tri", (5,), "--v", "V.npy", "--norm", "none", "--step", 0.001, "--dtype", "f64")
        self.check(reference, g, 1e-11, "f8")

    def test_fisher_adds_damping_times_v(self):
        v, h, g = self.pairs((3, 4))
        reference = Reference((3, 4), [[(3, diag)], [(4, norm)]])
        for x, y in zip(v, h):
            reference.update(x, y + 0.3 * x, 0.02)
        self.fit("scan", (3, 4), "--v", "V.npy", "--criterion", "fisher", "--damping", 0.3, "--step", 0.02,
                 "--dtype", "f64")
        self.check(reference, g, 1e-11, "f8")

    def test_files_are_converted_whatever_their_type_order_of_bytes_and_version(self):
        v, h, g = self.pairs((2, 3), dtype="f4")
        self.fit("tri", (2, 3), "--v", "V.npy", "--dtype", "f64")
        expected = np.load("out/Q1.npy")
        self.save("V.npy", v.astype(">f8"))
        self.save("H.npy", h.astype(">f4"))
        with open("G.npy", "wb") as file:
            np.lib.format.write_array(file, g, version=(3, 0))
        self.fit("tri", (2, 3), "--v", "V.npy", "--dtype", "f64")
        self.assertTrue(np.array_equal(expected, np.load("out/Q1.npy")))
        with open("H.npy", "wb") as file:
            np.lib.format.write_array(file, h, version=(2, 0))
        self.fit("tri", (2, 3), "--v", "V.npy", "--dtype", "f64")
        self.assertTrue(np.array_equal(expected, np.load("out/Q1.npy")))

    def test_integers_and_truth_values_are_read(self):
        v, h, g = self.pairs((2, 3), dtype="f4")
        for dtype in ("i1", "u1", "i2", ">u2", "i4", ">u4", "i8", "u8", "?"):
            limit = 1 if dtype == "?" else np.iinfo(dtype).max if np.dtype(dtype).itemsize < 4 else 2**30
            whole = np.trunc(h * limit / np.abs(h).max())
            whole = np.abs(whole) if np.dtype(dtype).kind in "ub" else whole
            made = []
            for kind in ("f8", dtype):
                self.save("H.npy", whole.astype(kind))
                self.fit("tri", (2, 3), "--v", "V.npy", "--dtype", "f64")
                made.append(np.load("out/Q1.npy"))
            self.assertTrue(np.array_equal(*made), dtype)

    def test_fortran_order_that_changes_nothing_is_read(self):
        v, h, g = self.pairs((5,), count=1)
        with open("V.npy", "wb") as file:
            file.write(header("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 5L)}") + v.tobytes())
        self.fit("diag", (5,), "--v", "V.npy")

    def test_v_is_drawn_from_the_seed(self):
        drawn = []
        for seed in (1, 1, 2):
            v, h, g = self.pairs((3, 4))
            self.random = np.random.default_rng(7)
            self.fit("diag", (3, 4), "--criterion", "fisher", "--seed", seed)
            drawn.append(np.load("out/Q1.npy"))
        self.assertTrue(np.array_equal(drawn[0], drawn[1]))
        self.assertFalse(np.array_equal(drawn[0], drawn[2]))

    def test_drawn_v_is_standard_normal(self):
        # With h = 0 and the plain rule from Q = I, one update gives Q = I + 2 step diag(v^2).
        n, step = 20000, 1e-3
        self.save("H.npy", np.zeros((1, n)))
        done = run("fit", "--group", "kron(identity,diag)", "--shape", f"1x{n}", "--h", "H.npy", "--out", "out",
                   "--apply", self.save("G.npy", np.ones((1, 1, n))), "--norm", "none", "--step", step, "--dtype", "f64")
        self.assertEqual(done.returncode, 1, "H of shape (1, n) must not pass for (1, 1, n)")
        self.save("H.npy", np.zeros((1, 1, n)))
        done = run("fit", "--group", "kron(identity,diag)", "--shape", f"1x{n}", "--h", "H.npy", "--out", "out",
                   "--apply", "G.npy", "--norm", "none", "--step", step, "--dtype", "f64")
        self.assertEqual(done.returncode, 0, done.stderr)
        squares = np.sort((np.sqrt(np.load("out/PG.npy").reshape(-1)) - 1) / (2 * step))
        # Quantiles of v^2, the squares of normal ones; five standard errors of a sample of this size.
        for level, value in ((0.1, 0.015791), (0.5, 0.454936), (0.9, 2.705543), (0.99, 6.634897)):
            share = np.mean(squares < value)
            self.assertLess(abs(share - level), 5 * np.sqrt(level * (1 - level) / n))

    def test_report_has_criterion_and_condition_after_each_update(self):
        v, h, g = self.pairs((4, 3), count=9)
        reference = Reference((4, 3), [[(4, tri)], [(3, diag)]])
        self.fit("kron(tri,diag)", (4, 3), "--v", "V.npy", "--step", 0.1, "--dtype", "f64", "--report", "out/r.jsonl")
        lines = [json.loads(line) for line in pathlib.Path("out/r.jsonl").read_text().splitlines()]
        self.assertEqual([line["update"] for line in lines], list(range(1, 10)))
        for x, y, line in zip(v, h, lines):
            reference.update(x, y, 0.1)
            self.assertAlmostEqual(line["criterion"] / reference.criterion(x, y), 1, 10)
            self.assertAlmostEqual(line["condition"] / reference.condition(), 1, 10)

    def test_a_wide_factor_is_not_written_and_that_is_said(self):
        n = 8193
        for name, count in (("V", 2), ("H", 2), ("G", 1)):
            self.save(name + ".npy", self.random.normal(size=(count, 2, n)).astype("f4"))
        said = self.fit("kron(tri,diag)", (2, n), "--v", "V.npy")
        self.assertEqual(sorted(os.listdir("out")), ["PG.npy", "Q1.npy"])
        self.assertIn("did not write Q2.npy: it would be 8193 wide", said)

    def test_no_pairs_leave_q_at_its_start(self):
        for name, count in (("V", 0), ("H", 0), ("G", 0)):
            self.save(name + ".npy", np.zeros((count, 3)))
        self.fit("tri", (3,), "--v", "V.npy", "--init-scale", 2)
        self.assertTrue(np.array_equal(np.load("out/Q1.npy"), 2 * np.eye(3)))
        self.assertEqual(np.load("out/PG.npy").shape, (0, 3))

    def test_a_group_of_the_users_own(self):
        loaded = os.path.join(BUILD, "examples", "toeplitz.so")
        v, h, g = self.pairs((6, 2))
        self.fit("kron(toeplitz,diag)", (6, 2), "--v", "V.npy", "--load", loaded)
        Q = np.load("out/Q1.npy")
        self.assertGreater(np.abs(Q - np.eye(6)).max(), 0.01)
        for k in range(-5, 6):
            self.assertLess(np.ptp(np.diagonal(Q, k)), 1e-6, "not a Toeplitz matrix")

    def test_several_pairs_an_update(self):
        v, h, g = self.pairs((4,), count=7)
        self.fit("diag", (4,), "--v", "V.npy", "--pairs", 3, "--dtype", "f64", "--norm", "none", "--report", "r.jsonl")
        self.assertEqual(pathlib.Path("r.jsonl").read_text().count("\n"), 3)
        q = np.ones(4)
        for part in (slice(0, 3), slice(3, 6), slice(6, 7)):
            q = q - 0.02 * np.mean((q * h[part]) ** 2 - (v[part] / q) ** 2, axis=0) * q
        self.assertLess(np.abs(np.diag(np.load("out/Q1.npy")) - q).max(), 1e-12)


def header(text, version=1, length=None):
    text = text.encode() + b"\n"
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text


class BadInput(Case):
    """Each says what is wrong in one sentence, leaves with the right status and writes nothing."""

    def refuse(self, status, words, *flags, spec="diag", shape="2x3", out="out", v="V.npy", h="H.npy"):
        before = sorted(os.listdir("."))
        done = run("fit", "--group", spec, "--shape", shape, "--v", v, "--h", h, "--out", out, *flags)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(sorted(os.listdir(".")), before)

    def setUp(self):
        super().setUp()
        self.pairs((2, 3), count=4)

    def write(self, name, content):
        with open(name, "wb") as file:
            file.write(content)
        return name

    def test_files(self):
        good = pathlib.Path("H.npy").read_bytes()
        dictionary = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2, 3), }"
        numbers = np.zeros(24).tobytes()
        array = np.zeros((4, 2, 3))
        cases = [
            ("is not a .npy file", b""),
            ("is not a .npy file", b"PK\3\4" + good),
            ("of version 4", good[:6] + b"\4" + good[7:]),
            ("ends within its header", good[:8]),
            ("ends within its header", good[:9]),
            ("ends within its header", good[:40]),
            ("is truncated", good[:-1]),
            ("is truncated", good[:128]),
            ("has 3 bytes after its last number", good + b"abc"),
            ("claims to be 4294967295 bytes", header(dictionary, 2, 2**32 - 1) + numbers),
            ("malformed", header("descr") + numbers),
            ("malformed", header("{'descr'}") + numbers),
            ("malformed", header("{'descr': '<f8") + numbers),
            ("malformed", header("{'descr': '<f8', 'fortran_order': Maybe, 'shape': (4, 2, 3)}") + numbers),
            ("malformed", header("{'descr': '<f8', 'fortran_order': False, 'shape': (4, -2, 3)}") + numbers),
            ("malformed", header("{'descr': '<f8', 'fortran_order': False, 'shape': (4 2)}") + numbers),
            ("malformed", header(dictionary + " and more") + numbers),
            ("malformed", header("{" * 60000) + numbers),
            ("no 'shape'", header("{'descr': '<f8', 'fortran_order': False}") + numbers),
            ("no 'descr'", header("{'fortran_order': False, 'shape': (4, 2, 3)}") + numbers),
            ("no 'fortran_order'", header("{'descr': '<f8', 'shape': (4, 2, 3)}") + numbers),
            ("unknown key 'color'", header("{'color': 1}") + numbers),
            ("more elements than can be counted",
             header("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 2, 3)}") + numbers),
            ("more elements than can be counted",
             header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}") + numbers),
            ("more than 33 dimensions",
             header("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1, " * 34 + ")}") + numbers),
            ("type '<c8'", array.astype("c8")),
            ("type '<f2'", array.astype("f2")),
            ("type '<c16'", array.astype("c16")),
            ("records", np.zeros((4, 2, 3), [("a", "f4")])),
            ("Fortran order", np.asfortranarray(array)),
            ("has shape (2, 3), not (T, 2, 3) for T tensors; add a first axis to a single one", array[0]),
            ("has shape (4, 3, 2), not (T, 2, 3) for T tensors", array.reshape(4, 3, 2)),
            ("has shape (4, 6), not (T, 2, 3) for T tensors", array.reshape(4, 6)),
            ("has shape (), not (T, 2, 3) for T tensors", np.float64(1)),
            ("has shape (24,), not (T, 2, 3) for T tensors", array.reshape(-1)),
        ]
        for words, content in cases:
            with self.subTest(words=words):
                if isinstance(content, bytes):
                    self.write("bad.npy", content)
                else:
                    np.save("bad.npy", content)
                self.refuse(1, words, h="bad.npy")
                self.refuse(1, words, v="bad.npy")
                self.refuse(1, "bad.npy", "--apply", "bad.npy")

    def test_numbers_that_are_not_finite(self):
        for name, flags in (("v", {"v": "bad.npy"}), ("h", {"h": "bad.npy"}), ("g", {})):
            for value, words in ((np.nan, "NaN"), (np.inf, "an infinity"), (-np.inf, "minus infinity")):
                for dtype in ("f4", "f8"):
                    x = np.ones((4, 2, 3), dtype)
                    x[3, 1, 2] = value
                    np.save("bad.npy", x)
                    more = ("--apply", "bad.npy") if name == "g" else ()
                    self.refuse(1, words, *more, **flags)
                    self.refuse(1, "at [3, 1, 2]", *more, **flags)
        np.save("bad.npy", np.full((4, 2, 3), 1e300))
        self.refuse(1, "bad.npy holds 1e+300 at [0, 0, 0], which f32 cannot", h="bad.npy")

    def test_missing_and_unreadable_files(self):
        self.refuse(1, "cannot open nowhere.npy: No such file", h="nowhere.npy")
        self.refuse(1, "cannot open nowhere.npy: No such file", v="nowhere.npy")
        self.refuse(1, "cannot open nowhere.npy: No such file", "--apply", "nowhere.npy")
        os.mkdir("folder.npy")
        self.refuse(1, "a folder, not a file", h="folder.npy")
        self.refuse(1, "a device, not a file", h="/dev/zero")
        np.save("V.npy", np.ones((5, 2, 3)))
        self.refuse(1, "V.npy has 5 tensors and H.npy has 4")

    def test_unwritable_output(self):
        self.write("file", b"")
        self.refuse(1, "file is not a folder", out="file")
        self.refuse(1, "cannot create the folder file/below", out="file/below")
        self.refuse(1, "cannot create the folder /proc/psgd", out="/proc/psgd")
        self.refuse(1, "cannot be the name of a folder", out="")
        self.refuse(1, "cannot write nowhere/report", "--report", "nowhere/report", out="new/folder")
        os.mkdir("taken")
        os.makedirs("out2/Q1.npy")
        self.refuse(1, "cannot write taken", "--report", "taken")
        self.refuse(1, "cannot write out2/Q1.npy", "--apply", "G.npy", out="out2")
        self.assertEqual(os.listdir("out2"), ["Q1.npy"])
        if os.getuid() != 0:
            os.mkdir("closed", 0o555)
            self.refuse(1, "closed", out="closed")

    def test_a_full_disk_leaves_nothing(self):
        np.save("H.npy", np.ones((1, 300)))
        script = f"ulimit -f 100; trap '' XFSZ; exec {PSGD} fit --group dense --shape 300 --h H.npy --out full"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write full/Q1.npy", done.stderr)
        self.assertFalse(os.path.exists("full"))

    def test_wrong_use(self):
        self.refuse(2, "did you mean --apply?", "--aply", "G.npy")
        self.refuse(2, "did you mean tri?", spec="trii")
        self.refuse(2, "did you mean spectral?", "--norm", "spectrl")
        self.refuse(2, "one of newton, fisher", "--criterion", "hessian")
        self.refuse(2, "--dtype is f32 or f64", "--dtype", "f16")
        self.refuse(2, "--dtype needs a value", "--dtype")
        self.refuse(2, "--dtype needs a value", "--dtype", "--seed", 3)
        self.refuse(2, "option step must be at least 0", "--step", "-1")
        self.refuse(2, "step must be below 1", "--step", "1")
        self.refuse(2, "option step needs a finite number", "--step", "nan")
        self.refuse(2, "option damping must be at least 0", "--criterion", "fisher", "--damping", "-1")
        self.refuse(2, "init-scale", "--init-scale", "0")
        self.refuse(2, "is not a shape", shape="2x0")
        self.refuse(2, "is not a shape", shape="2,3")
        self.refuse(2, "", shape="4611686018427387904x4")
        self.refuse(2, "", spec="kron(diag,diag")
        self.refuse(2, "", spec="kron(diag,diag,diag)")
        self.refuse(2, "", spec="sum(diag:2,diag:3)")
        self.refuse(2, "takes flags only, not 'stray'", "stray")
        self.refuse(2, "--seed needs a whole number", "--seed", "x")
        self.refuse(1, "--load: ", "--load", "./nowhere.so")
        for missing in ("group", "shape", "h", "out"):
            words = ["fit"]
            for flag, value in (("group", "diag"), ("shape", "2x3"), ("h", "H.npy"), ("out", "out")):
                words += [] if flag == missing else ["--" + flag, value]
            done = run(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"psgd fit needs --{missing}", done.stderr)
        self.assertEqual(run("fot").returncode, 2)
        self.assertIn("did you mean fit?", run("fot").stderr)
        self.assertEqual(run("fit", "--help").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
