# SPDX-License-Identifier: BSD-3-Clause
# Checks that a page of `gpumemstat report` is valid HTML that needs no network. Prints its data as JSON, with
# the timeline of each device unpacked: report_page.py PAGE
import html.parser
import json
import re
import sys

from packed import numbers

VOID = {"meta", "link", "input", "br", "img"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.scripts, self.ids, self.labelled = [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        for name in ("src", "href", "action", "srcset"):
            assert attributes.get(name, "data:,").startswith("data:"), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (tag, attributes)
        self.ids += [attributes["id"]] if "id" in attributes else []
        for name in ("aria-labelledby", "aria-describedby", "for"):
            self.labelled += attributes.get(name, "").split()
        if tag == "script":
            self.scripts.append([attributes.get("type", "javascript"), ""])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> in {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1][1] += data


# {"points": N, "events": N, "steps": [{"from", "to", "events", NAME: [least, most, end] ...} ...], "most": {NAME: bytes}}
def unpacked(timeline):
    at = numbers(timeline["packed"])
    steps, time, ends = [], 0, dict.fromkeys(timeline["series"], 0)
    for _ in range(timeline["points"]):
        step = {"from": time + next(at)}
        time = step["to"] = step["from"] + next(at)
        step["events"] = next(at)
        for name in timeline["series"]:
            n = next(at)
            ends[name] += -(n + 1) // 2 if n % 2 else n // 2
            least, most = ends[name] - next(at), ends[name] + next(at)
            step[name] = [least, most, ends[name]]
        steps.append(step)
    assert next(at, None) is None, "more numbers than points"
    assert sum(step["events"] for step in steps) == timeline["events"]
    assert all(step["events"] <= timeline["events_each"] for step in steps)
    most = {name: max((step[name][1] for step in steps), default=0) for name in timeline["series"]}
    return {"points": len(steps), "events": timeline["events"], "most": most, "steps": steps[:200], "last": steps[-1:]}


# Areas: [birth, death, address, bytes] of each, and of a block its site, of a chunk its kind. Fragmentation: seven numbers a moment.
def areas(packed):
    at, birth, address, rows = numbers(packed["packed"]), 0, 0, []
    signed = lambda n: -(n + 1) // 2 if n % 2 else n // 2
    for _ in range(packed["points"]):
        birth += signed(next(at))
        death = birth + next(at)
        address += signed(next(at))
        rows.append([birth, death, address, next(at), next(at)])
    assert next(at, None) is None, "more numbers than areas"
    return rows[:200]


def moments(packed):
    at, ns, rows = numbers(packed["packed"]), 0, []
    for _ in range(packed["points"]):
        ns += next(at)
        rows.append([ns] + [next(at) for _ in range(6)])
    assert next(at, None) is None, "more numbers than moments"
    return rows[:200]


with open(sys.argv[1], "rb") as file:
    text = file.read().decode("utf-8")
assert not re.search("[\x00-\x08\x0b-\x1f\x7f]", text), "a control character"
page = Page()
page.feed(text)
page.close()
assert page.open == [], f"not closed: {page.open}"
assert len(page.ids) == len(set(page.ids)), "two elements have the same id"
assert set(page.labelled) <= set(page.ids), set(page.labelled) - set(page.ids)
assert [kind for kind, _ in page.scripts] == ["application/json", "javascript"]
assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://(?!www\.w3\.org/2000/svg)", page.scripts[1][1])
data = json.loads(page.scripts[0][1])
for log in data["logs"]:
    for device in log["devices"]:
        device["timeline"] = unpacked(device["timeline"])
        device["areas"]["all"] = areas(device["areas"])
        device["chunks"]["all"] = areas(device["chunks"])
        device["frag"]["all"] = moments(device["frag"])
json.dump(data, sys.stdout)
