#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
trace.py FILE: check a JSON trace as the importer of Perfetto reads it. The first fault ends the run with 1.
Asynchronous events belong to a track of their process, category, id and name: on it each end has a begin,
none is open at the end of the file, and none begins twice. A counter is a number for each time. The name of
the process comes first. Keys but traceEvents and otherData, or one before the events, end the import of some
versions. Prints the number of pairs, of values of counters, and of instants.
"""
import json
import sys

KEYS = {"M": set(), "C": set(), "b": {"cat", "id"}, "e": {"cat", "id"}, "i": {"s"}}
COMMON = {"ph", "pid", "tid", "ts", "name", "args"}


def refuse(why, event=None):
    sys.exit("%s: %s%s" % (sys.argv[1], why, ": " + json.dumps(event) if event is not None else ""))


def unique(pairs):
    """An object whose keys are distinct."""
    if len({key for key, _ in pairs}) != len(pairs):
        refuse("a key twice", dict(pairs))
    return dict(pairs)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def form_check(event):
    """The members that every event of its type needs."""
    if not isinstance(event, dict) or event.get("ph") not in KEYS:
        refuse("no type", event)
    if set(event) != COMMON | KEYS[event["ph"]]:
        refuse("other members", event)
    if not (isinstance(event["name"], str) and event["name"] and isinstance(event["args"], dict)):
        refuse("no name or arguments", event)
    if not all(isinstance(event[key], int) and event[key] > 0 for key in ("pid", "tid")):
        refuse("no process or thread", event)
    if not is_number(event["ts"]) or event["ts"] < 0:
        refuse("no time", event)
    if not all(isinstance(event[key], str) and event[key] for key in KEYS[event["ph"]]):
        refuse("no category, id or scope", event)


def pair_check(event, open_since):
    """Of tracks with an open event: the time of its begin. Returns 1 for an end."""
    track = tuple(event[key] for key in ("pid", "cat", "id", "name"))
    if event["ph"] == "b":
        if track in open_since:
            refuse("begun twice", event)
        open_since[track] = event["ts"]
        return 0
    if track not in open_since:
        refuse("an end without a begin", event)
    if event["ts"] < open_since.pop(track):
        refuse("an end before its begin", event)
    return 1


def counter_check(event, last):
    """The values of a counter, by time."""
    if not event["args"] or not all(is_number(value) for value in event["args"].values()):
        refuse("no number", event)
    track = (event["pid"], event["name"])
    if event["ts"] < last.get(track, 0):
        refuse("a counter runs backwards", event)
    last[track] = event["ts"]


def check(path):
    with open(path, encoding="utf-8") as file:
        trace = json.load(file, object_pairs_hook=unique)
    if list(trace) != ["traceEvents", "otherData"] or not isinstance(trace["traceEvents"], list):
        refuse("not traceEvents, then otherData")
    events, open_since, last, pairs = trace["traceEvents"], {}, {}, 0
    for event in events:
        form_check(event)
        if event["ph"] in "be":
            pairs += pair_check(event, open_since)
        elif event["ph"] == "C":
            counter_check(event, last)
        elif event["ph"] == "M" and (event["name"] != "process_name" or not event["args"].get("name")):
            refuse("no name of a process", event)
        elif event["ph"] == "i" and event["s"] not in ("g", "p", "t"):
            refuse("no scope", event)
    if open_since:
        refuse("not ended", list(open_since)[0])
    if not events or events[0]["ph"] != "M":
        refuse("the process has no name")
    print(pairs, *(sum(event["ph"] == phase for event in events) for phase in "Ci"))


check(sys.argv[1])
