"""The tasks of bench/torch: a model, its batches by step and seed, a loss and a score."""
import functools
import gzip
import math
import os
from pathlib import Path

import torch

nn, F = torch.nn, torch.nn.functional
DATA = Path(os.environ.get("PSGD_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@functools.lru_cache(maxsize=None)
def digits(part):
    def raw(kind, skip):
        path = next((DATA / "mnist").glob(f"{part}-{kind}*"))
        data = gzip.open(path).read() if path.suffix == ".gz" else path.read_bytes()
        return torch.frombuffer(bytearray(data[skip:]), dtype=torch.uint8)

    return raw("images", 16).view(-1, 1, 28, 28).float() / 255, raw("labels", 8).long()


class Mnist:
    title, score_name, steps, folder = "CNN on MNIST", "test error", 800, "mnist"

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.seed, (self.x, self.y), self.test = seed, digits("train"), digits("t10k")
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip

    def batch(self, step):
        draw = torch.Generator().manual_seed(1000003 * self.seed + step)
        self.at = torch.randint(len(self.x), (64,), generator=draw)

    def loss(self):
        return F.cross_entropy(self.net(self.x[self.at]), self.y[self.at])

    def score(self):
        with torch.no_grad():
            wrong = [(self.net(x).argmax(1) != y).float().mean() for x, y in zip(*(t.split(1000) for t in self.test))]
        return float(torch.stack(wrong).mean())


@functools.lru_cache(maxsize=None)
def characters():
    text = (DATA / "tinyshakespeare" / "input.txt").read_text()
    known = {letter: i for i, letter in enumerate(sorted(set(text)))}
    codes = torch.tensor([known[letter] for letter in text])
    cut = len(codes) * 9 // 10
    return len(known), codes[:cut], codes[cut:]


class Characters:
    """Predicts the next character from up to 64 before it."""

    score_name, steps, folder, back = "test loss", 800, "tinyshakespeare", 64

    def __init__(self, seed):
        torch.manual_seed(seed)
        self.seed, (self.letters, self.text, self.rest) = seed, characters()
        self.net = self.build()

    def window(self, text, at):
        both = torch.stack([text[i : i + self.back + 1] for i in at.tolist()])
        return both[:, :-1], both[:, 1:]

    def batch(self, step):
        draw = torch.Generator().manual_seed(1000003 * self.seed + step)
        self.x, self.y = self.window(self.text, torch.randint(len(self.text) - self.back - 1, (16,), generator=draw))

    def loss(self):
        return F.cross_entropy(self.net(self.x).flatten(0, 1), self.y.flatten())

    def score(self):
        at = torch.arange(0, len(self.rest) - self.back - 1, self.back)[:512]
        with torch.no_grad():
            parts = [self.window(self.rest, own) for own in at.split(64)]
            return float(torch.stack([F.cross_entropy(self.net(x).flatten(0, 1), y.flatten()) for x, y in parts]).mean())


class Block(nn.Module):
    """Attention written out, as the fused kernel has no second derivative."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.after = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (a.view(n, t, self.heads, -1).transpose(1, 2) for a in self.mix(self.before(x)).split(width, 2))
        seen = (q @ k.transpose(2, 3) / math.sqrt(width / self.heads)).masked_fill(
            torch.ones(t, t, dtype=torch.bool).triu(1), -math.inf)  # fmt: skip
        x = x + self.out((seen.softmax(3) @ v).transpose(1, 2).reshape(n, t, width))
        return x + self.wide(self.after(x))


class Decoder(nn.Module):
    def __init__(self, letters, back, width=64, layers=2):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, width), nn.Parameter(0.02 * torch.randn(back, width))
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)), nn.LayerNorm(width))
        self.head = nn.Linear(width, letters)

    def forward(self, x):
        return self.head(self.blocks(self.letter(x) + self.place[: x.shape[1]]))


class Transformer(Characters):
    title = "transformer on Tiny Shakespeare"

    def build(self):
        return Decoder(self.letters, self.back)


class Recurrent(nn.Module):
    def __init__(self, letters, width=96):
        super().__init__()
        self.letter, self.lstm, self.head = nn.Embedding(letters, 32), nn.LSTM(32, width, batch_first=True), nn.Linear(width, letters)

    def forward(self, x):
        return self.head(self.lstm(self.letter(x))[0])


class Lstm(Characters):
    title = "LSTM on Tiny Shakespeare"

    def build(self):
        return Recurrent(self.letters)


class Physics:
    """A network u(p) of two unknowns, f64, all points at every step."""

    score_name, steps, folder = "relative L2 error", 1000, None

    def __init__(self, seed):
        torch.manual_seed(seed)
        widths = (2, 24, 24, 1)
        layers = [part for a, b in zip(widths, widths[1:]) for part in (nn.Linear(a, b), nn.Tanh())]
        self.net = nn.Sequential(*layers[:-1]).double()
        self.place()

    def batch(self, step):
        pass

    def derivatives(self):
        """u, its slopes and the second derivative along each axis at the points inside."""
        p = self.inside.clone().requires_grad_()
        u = self.net(p)[:, 0]
        (slope,) = torch.autograd.grad(u.sum(), p, create_graph=True)
        bends = [torch.autograd.grad(slope[:, i].sum(), p, create_graph=True)[0][:, i] for i in (0, 1)]
        return u, slope, bends

    def score(self):
        points, exact = self.truth()
        with torch.no_grad():
            return float((self.net(points)[:, 0] - exact).norm() / exact.norm())


class Poisson(Physics):
    """-lap u = f on the unit square, u = sin(pi x) sin(2 pi y), zero on the border."""

    title = "Poisson's equation"

    def exact(self, p):
        return torch.sin(math.pi * p[:, 0]) * torch.sin(2 * math.pi * p[:, 1])

    def place(self):
        self.inside = torch.rand(256, 2, dtype=torch.float64)
        side = torch.rand(64, dtype=torch.float64)
        edges = [(side, 0 * side), (side, 0 * side + 1), (0 * side, side), (0 * side + 1, side)]
        self.border = torch.cat([torch.stack(edge, 1) for edge in edges])

    def loss(self):
        residual = sum(self.derivatives()[2]) + 5 * math.pi**2 * self.exact(self.inside)
        return (residual**2).mean() / (5 * math.pi**2) ** 2 + 10 * (self.net(self.border) ** 2).mean()

    def truth(self):
        line = torch.linspace(0, 1, 41, dtype=torch.float64)
        grid = torch.cartesian_prod(line, line)
        return grid, self.exact(grid)


class Burgers(Physics):
    """u_t + u u_x = nu u_xx on [-1, 1] x [0, 1], u = -sin(pi x) at t = 0, zero at both ends, nu = 0.1/pi."""

    title, nu = "Burgers' equation", 0.1 / math.pi

    def place(self):
        self.inside = torch.rand(512, 2, dtype=torch.float64) * torch.tensor([2.0, 1.0]) - torch.tensor([1.0, 0.0])
        x, t = torch.rand(128, dtype=torch.float64) * 2 - 1, torch.rand(64, dtype=torch.float64)
        self.start, self.begun = torch.stack([x, 0 * x], 1), -torch.sin(math.pi * x)
        self.ends = torch.cat([torch.stack([0 * t - 1, t], 1), torch.stack([0 * t + 1, t], 1)])

    def loss(self):
        u, slope, (bend, _) = self.derivatives()
        residual = slope[:, 1] + u * slope[:, 0] - self.nu * bend
        begun = self.net(self.start)[:, 0] - self.begun
        return (residual**2).mean() + 10 * (begun**2).mean() + 10 * (self.net(self.ends) ** 2).mean()

    @staticmethod
    @functools.lru_cache(maxsize=None)
    def truth():
        """By the Cole-Hopf transformation: a quotient of two integrals with Gaussian weights, by Hermite quadrature."""
        import numpy

        nodes, weights = (torch.tensor(a) for a in numpy.polynomial.hermite.hermgauss(80))
        x, t = torch.linspace(-1, 1, 41, dtype=torch.float64), torch.linspace(0, 1, 21, dtype=torch.float64)
        grid = torch.cartesian_prod(x, t)
        y = grid[:, :1] - torch.sqrt(4 * Burgers.nu * grid[:, 1:]) * nodes
        weight = weights * torch.exp(-torch.cos(math.pi * y) / (2 * math.pi * Burgers.nu))
        return grid, -(torch.sin(math.pi * y) * weight).sum(1) / weight.sum(1)


TASKS = {"mnist": Mnist, "transformer": Transformer, "lstm": Lstm, "poisson": Poisson, "burgers": Burgers}
