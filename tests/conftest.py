"""What all tests share: the command line through its real entry, and hypothesis without a clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("spanloom", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("spanloom")

ENTRY = Path(sys.executable).with_name("spanloom")
CORPORA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def spanloom(tmp_path: Path) -> Run:
    """Runs `spanloom ARGS` in an empty folder, as a user would; gives exit code, stdout and stderr."""

    def run(*args: str | Path, program: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        entry = [ENTRY] if program is None else [sys.executable, "-c", program]
        command = [*entry, *map(str, args)]
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=180)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # with all that it has started
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    return run


@pytest.fixture
def corpora() -> Path:
    """The real corpora beside the repository; a test that wants them skips where they are missing."""
    if not CORPORA.is_dir():
        pytest.skip(f"the real corpora are not at {CORPORA}")
    return CORPORA
