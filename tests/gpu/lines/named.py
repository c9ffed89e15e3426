# SPDX-License-Identifier: BSD-3-Clause
"""What is named at the peak of a log: named.py NAME GPUMEMSTAT LOG [MODULE]. Bytes by the place that names them: a line of
Python, the line of the forward call, a function of C or C++, nothing. Prints one row."""
import json
import subprocess
import sys

name, tool, log = sys.argv[1:4]
device = json.loads(subprocess.run([tool, "live", "--at=peak", "--json", log], capture_output=True, text=True, check=True).stdout)["logs"][0]["devices"][0]
named = dict.fromkeys(("python", "forward", "c", "none"), 0)
largest = ""
for group in device["groups"]:
    languages = [frame["language"] for frame in group["frames"]]
    before = languages[: languages.index("forward")] if "forward" in languages else languages
    kind = "python" if "python" in before else "forward" if "python" in languages else "c" if languages else "none"
    named[kind] += group["bytes"]
    python = [frame for frame in group["frames"] if frame["language"] == "python"]
    if python and not largest:
        largest = f"{python[0]['function']} ({python[0]['file'].rsplit('/', 1)[-1]}:{python[0]['line']})"
total = sum(named.values()) or 1
shares = " ".join(f"{kind}={part / total:.4f}" for kind, part in named.items())
print(f"{name} level={device['level']} bytes={device['bytes']} n={device['blocks']} {shares} first={largest}")
