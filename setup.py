"""Builds libpsgd with CMake and puts it inside the package, where psgd finds it.

PSGD_CMAKE_BUILD names a configured CMake build folder to use instead of a new one."""
import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent


def version() -> str:
    return re.search(r"project\(psgd VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def build_library() -> Path:
    """Returns the path of an up-to-date libpsgd.so."""
    given = os.environ.get("PSGD_CMAKE_BUILD")
    folder = Path(given) if given else ROOT / "build-python" / "cmake"
    if not given:
        options = ["-DCMAKE_BUILD_TYPE=Release", "-DPSGD_BUILD_TESTS=OFF", "-DPSGD_BUILD_COMMAND=OFF"]
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), *options], check=True)
    jobs = str(os.cpu_count() or 1)
    subprocess.run(["cmake", "--build", str(folder), "--target", "psgd", "--parallel", jobs], check=True)
    return (folder / "libpsgd.so").resolve()


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        editable = getattr(self, "editable_mode", False)
        folder = ROOT / "python" / "psgd" if editable else Path(self.build_lib) / "psgd"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(build_library(), folder / "libpsgd.so")


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


class PlatformWheel(bdist_wheel):
    """One wheel serves every Python: the library is called through ctypes."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(
    version=version(),
    distclass=PlatformDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
)
