#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""sited.py SOURCE [JSON]: print the lines of SOURCE that are marked by "sites: KEY=N ...", without JSON all,
else those whose calls `gpumemstat leaks --json` reports with exactly these figures. Other lines with blocks or
faults, and other figures, are printed, too."""
import json
import os
import re
import sys

KEYS = {"blocks": "blocks", "mallocs": "mallocs", "nulls": "nulls", "twice": "freed_twice", "invalid": "invalid_frees"}
ALWAYS = ("blocks", "nulls", "twice", "invalid")

marks = {}
with open(sys.argv[1]) as source:
    for number, text in enumerate(source, 1):
        found = re.search(r"// sites: (.*)", text)
        if found:
            marks[number] = {key: int(n) for key, n in (word.split("=") for word in found.group(1).split())}

found = {}
if len(sys.argv) > 2:
    with open(sys.argv[2]) as text:
        log = json.load(text)["logs"][0]
    name = os.path.basename(sys.argv[1])
    for device in log["devices"]:
        for site in device.get("sites", ()):
            line = site["line"] if site["file"] and os.path.basename(site["file"]) == name else None
            place = line or "%s+0x%x" % (site["function"], site["offset"] or 0)
            sums = found.setdefault(place, dict.fromkeys(KEYS, 0))
            for key, json_key in KEYS.items():
                sums[key] += site[json_key]
else:
    found = {line: dict(dict.fromkeys(KEYS, 0), **mark) for line, mark in marks.items()}

for line, mark in sorted(marks.items()):
    figures = found.pop(line, dict.fromkeys(KEYS, 0))
    wanted = dict(dict.fromkeys(ALWAYS, 0), **mark)
    if all(figures[key] == n for key, n in wanted.items()):
        print("line %d: %s" % (line, " ".join("%s=%d" % item for item in mark.items())))
    else:
        print("line %d: %s, not %s" % (line, figures, mark))
for place, figures in found.items():
    if any(figures[key] for key in ALWAYS):
        print("%s: %s, but it is not marked" % (place, figures))
