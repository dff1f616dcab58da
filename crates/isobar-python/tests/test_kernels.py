"""The package finds the compiled kernels that it contains, as a CUDA driver that does nothing shows."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import isobar

CRATES = Path(__file__).parents[2]
PACK = Path(isobar.__file__).parent / "kernels-sm_90.pack"
IS_REQUIRED = os.environ.get("ISOBAR_REQUIRE_PACK") == "1"


@pytest.mark.skipif(not PACK.exists() and not IS_REQUIRED, reason="the package has no compiled kernels for sm_90")
def test_compiled_kernels_need_no_compiler(tmp_path):
    library = tmp_path / "libcuda.so.1"
    source = CRATES / "isobar-cli/tests/kernels/driver.c"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", library, source], check=True)
    shutil.copy(library, tmp_path / "libcuda.so")
    places = {"LD_LIBRARY_PATH": tmp_path, "ISOBAR_NVRTC": tmp_path / "none.so", "ISOBAR_CACHE_DIR": tmp_path / "cache"}
    environment = {**os.environ, **{name: str(path) for name, path in places.items()}}
    environment.pop("ISOBAR_KERNELS", None)
    command = [sys.executable, "-m", "isobar", "solve", CRATES.parent / "cases/panel.toml", "--device", "cuda", "--quiet"]
    solved = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert solved.returncode == 0, solved.stderr
