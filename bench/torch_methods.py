"""The optimizers of bench/torch. Each makes step() from a task; at(share) sets the learning rate to that share of its own."""
import importlib.util
import math
import warnings

import torch

import psgd.torch


class Stepper:
    """One or several of torch's optimizers over one backward()."""

    def __init__(self, task, *parts):
        self.task, self.parts = task, parts
        self.rates = [[group["lr"] for group in part.param_groups] for part in parts]

    def at(self, share):
        for part, rates in zip(self.parts, self.rates):
            for group, rate in zip(part.param_groups, rates):
                group["lr"] = share * rate

    def step(self):
        for part in self.parts:
            part.zero_grad()
        loss = self.task.loss()
        loss.backward()
        for part in self.parts:
            part.step()
        return loss


class Closure(Stepper):
    """An optimizer that evaluates the loss itself."""

    def step(self):
        return self.parts[0].step(self.task.loss)


class Lbfgs(Stepper):
    def at(self, share):
        pass

    def step(self):
        def closure():
            self.parts[0].zero_grad()
            loss = self.task.loss()
            loss.backward()
            return loss

        return self.parts[0].step(closure)


class Author:
    def __init__(self, task, opt, rate):
        self.task, self.opt, self.rate = task, opt, rate

    def at(self, share):
        self.opt.lr_params = share * self.rate

    def step(self):
        return self.opt.step(self.task.loss)


def adamw(task, rate):
    return Stepper(task, torch.optim.AdamW(task.net.parameters(), rate, foreach=True))


def muon(task, rate):
    """For matrices; AdamW at a tenth of the rate for the rest, convolutions and embeddings included."""
    hidden = [p for name, p in task.net.named_parameters() if p.ndim == 2 and "letter" not in name and "place" not in name]
    chosen = {id(p) for p in hidden}
    rest = [p for p in task.net.parameters() if id(p) not in chosen]
    return Stepper(task, torch.optim.Muon(hidden, rate), torch.optim.AdamW(rest, rate / 10, foreach=True))


def soap(task, rate):
    import pytorch_optimizer

    return Stepper(task, pytorch_optimizer.SOAP(task.net.parameters(), lr=rate))


def lbfgs(task, rate):
    return Lbfgs(task, torch.optim.LBFGS(task.net.parameters(), max_iter=1, max_eval=25, history_size=20, line_search_fn="strong_wolfe"))


def newton(task, rate):
    return Closure(task, psgd.torch.PSGD(task.net, criterion="newton"))


def fisher(task, rate):
    return Stepper(task, psgd.torch.PSGD(task.net))


def author(module, name):
    def make(task, rate):
        opt = getattr(module, name)(list(task.net.parameters()), preconditioner_init_scale=None, lr_params=rate)
        return Author(task, opt, rate)

    return make


def load(path):
    spec = importlib.util.spec_from_file_location("author", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def installed(name):
    return importlib.util.find_spec(name) is not None


def methods(author_file):
    """Name: (maker, its learning rates; None: the default)."""
    found = {"PSGD, newton": (newton, [None]), "PSGD, fisher": (fisher, [None]),
             "AdamW": (adamw, [3e-4, 1e-3, 3e-3, 1e-2, 3e-2])}  # fmt: skip
    if hasattr(torch.optim, "Muon"):
        found["Muon"] = (muon, [3e-3, 1e-2, 3e-2, 1e-1])
    if installed("pytorch_optimizer"):
        found["SOAP"] = (soap, [1e-3, 3e-3, 1e-2, 3e-2])
    if author_file:
        module = load(author_file)
        found["author, KronNewton"] = (author(module, "KronNewton"), [1e-2, 3e-2, 1e-1, 3e-1])
        found["author, KronWhiten"] = (author(module, "KronWhiten"), [1e-3, 3e-3, 1e-2, 3e-2])
    found["L-BFGS"] = (lbfgs, [None])
    warnings.filterwarnings("ignore", module="pytorch_optimizer")
    return found


def cosine(step, steps):
    return 0.5 * (1 + math.cos(math.pi * step / steps))
