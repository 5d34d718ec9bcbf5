"""Preconditioned SGD on matrix Lie groups: libpsgd for NumPy, SciPy and PyTorch on a CPU.

``psgd.Preconditioner`` fits P = Q'Q on a group that a spec names, ``psgd.JointPreconditioner`` one over several
tensors; ``psgd.Group`` shows what a spec is and costs; ``psgd.minimize`` minimises a function; ``psgd.torch.PSGD`` is
the torch optimizer."""
from ._errors import (
    ArgumentError,
    CallbackError,
    Error,
    FileError,
    FormatError,
    NoMemoryError,
    NotFiniteError,
    SpecError,
    UnsupportedError,
)
from ._lib import lib as _c
from ._lib import set_threads
from .context import Context
from .group import Group, GroupName, Laws, groups
from .joint import JointPreconditioner
from ._minimize import check_gradient, minimize, minimize_options, scipy_method
from .precond import Preconditioner
from .random import normal, normal_
from .runs import Run, plot_runs, read_run
from .user_group import UserGroup

__version__: str = _c.psgd_version().decode()

__all__ = [
    "ArgumentError", "CallbackError", "Context", "Error", "FileError", "FormatError", "Group", "GroupName",
    "JointPreconditioner", "Laws", "NoMemoryError", "NotFiniteError", "Preconditioner", "Run", "SpecError",
    "UnsupportedError", "UserGroup", "check_gradient", "groups", "minimize", "minimize_options", "normal", "normal_", "plot_runs",
    "read_run", "scipy_method", "set_threads",
]  # fmt: skip
