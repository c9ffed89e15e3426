#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
damage.py TOOL cut COMMAND...                        each command over good.gml, cut at many places
damage.py TOOL mutated MUTATE SEEDS COMMAND...       each command over good.gml, changed by MUTATE with each seed
A COMMAND that ends with "=" reads one log, and only the data before the records. The first fault ends the run.
"""
import json
import os
import re
import subprocess
import sys

TOOL = sys.argv[1]
COUNTERS, SLOTS, SLOT = 196608, 294912, 64  # bytes: end of the live counters, first record, a record; gpumem-log(5)


def run(*arguments):
    return subprocess.run([TOOL, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False)


def check(good, ran, what):
    if not good:
        sys.exit("gpumemstat %s: exit %d\n%s" % (what, ran.returncode, ran.stderr.decode(errors="replace")))


def cut_message(n, size):
    if n == 0:
        return "empty: no gpumem log, or its process was killed as it began"
    if n < 8:
        return "not a gpumem log"
    if n < 112:
        return "segment 1 at 0x0: cut within its head"
    if n < COUNTERS:
        return "its counters cannot be read"
    return "it was cut: %d of %d bytes are there" % (n, size)


def cut(*commands):
    with open("good.gml", "rb") as file:
        log = file.read()
    places = [0, 1, 7, 8, 9, 12, 100, 111, 112, 113, 4095, 4096, 4097, 4200, 5000, 32767, 32768, 32831, 32832, 33000, 131072,
              COUNTERS - 1, SLOTS - 1]
    check(len(log) > SLOTS + 8 * SLOT and (len(log) - SLOTS) % SLOT == 0, run("--version"), "the log has other sizes")
    for n in range(SLOTS, len(log), SLOT):
        places += [n, n + 1, n + SLOT - 1]
    for n in places:
        with open("cut.gml", "wb") as file:
            file.write(log[:n])
        for command in commands:
            ran = run(command.rstrip("="), "cut.gml")
            if command.endswith("=") and n >= 112:
                check(ran.returncode == 0 and not ran.stderr, ran, "%s, %d bytes" % (command, n))
                continue
            said = "gpumemstat: cut.gml: %s\n" % cut_message(n, len(log))
            check(ran.returncode == 1 and ran.stderr.decode() == said, ran, "%s, %d bytes" % (command, n))
            # The data before the cut are shown.
            check(bool(ran.stdout) == (n >= 112), ran, "%s, %d bytes, its output" % (command, n))


CONTROL = re.compile(rb"[\x01-\x08\x0b-\x1f\x7f]")


def sound(what, *arguments):
    """Status 0 or 1; one line for each fault; valid JSON; no control character reaches the terminal."""
    ran = run(*arguments, "bad.gml")
    check(ran.returncode in (0, 1), ran, what)
    check(ran.stderr.count(b"\n") == ran.returncode, ran, what + ", the lines")
    check(not ran.stderr or ran.stderr.startswith(b"gpumemstat: bad.gml: ") and len(ran.stderr) > 22, ran, what + ", the name")
    check(not CONTROL.search(ran.stdout + ran.stderr), ran, what + ", a control character")
    if "--json" in arguments and ran.stdout:
        try:
            check(json.loads(ran.stdout)["schema"], ran, what + ", its schema")
        except (ValueError, KeyError) as fault:
            check(False, ran, "%s, %s" % (what, fault))


def mutated(mutate, seeds, *commands):
    for seed in range(1, int(seeds) + 1):
        subprocess.run([mutate, "good.gml", "bad.gml", str(seed)], check=True)
        for command in ["summary -v"] + [c.rstrip("=") + json for c in commands for json in ("", " --json")]:
            sound("%s on mutate good.gml bad.gml %d" % (command, seed), *command.split())


os.environ["LC_ALL"] = "C"
{"cut": cut, "mutated": mutated}[sys.argv[2]](*sys.argv[3:])
