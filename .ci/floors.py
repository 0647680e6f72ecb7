"""Prints the floors of a pyproject.toml's dependencies as constraints: regex>=2025.10.22 gives regex==2025.10.22.

torch stays at the version of constraints.txt: older ones come from a package index with gigabytes for graphics cards.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
for requirement in project["dependencies"]:
    if not requirement.startswith("torch"):
        print(requirement.split(";")[0].replace(">=", "=="))
print(next(line for line in Path(sys.argv[2]).read_text(encoding="utf-8").splitlines() if line.startswith("torch==")))
