# SPDX-License-Identifier: BSD-3-Clause
"""svg.py FILE WIDTH: check an SVG of `gpumemstat plot`: well formed, WIDTH wide, all texts inside, no overlap
of texts in a line. Prints its texts, the values of the marked peak and of the curves by the axes, and the
sums of the histograms."""
import re
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"
UNITS = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50, "EiB": 2**60,
         "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}


def value(text):
    number, _, unit = text.partition(" ")
    return float(number) * UNITS[unit]


def span(text):
    """Left and right end of a text; sans-serif needs on average at least 6 pixels a character."""
    classes, x = text.get("class").split(), float(text.get("x"))
    width = 6 * len("".join(text.itertext()))
    left = x - width if "e" in classes else x - width / 2 if "m" in classes else x
    return left, left + width


def scale(ticks, of):
    """Function from pixels to values, by the first and the last tick of an axis."""
    ticks = sorted((float(t.get(of)), value(t.text)) for t in ticks)
    (p, u), (q, v) = ticks[0], ticks[-1]
    return lambda pixel: u + (float(pixel) - p) * (v - u) / (q - p)


root = tree.parse(sys.argv[1]).getroot()
width, height = (float(x) for x in root.get("viewBox").split()[2:])
assert root.tag == SVG + "svg" and width == float(sys.argv[2]), root.attrib
# In a page it shrinks with its column.
assert root.get("width") == "100%" and root.get("height") is None and root.get("style") == f"max-width:{width:.0f}px;height:auto", root.attrib
texts = [t for t in root.iter(SVG + "text")]
for t in texts:
    left, right = span(t)
    assert left >= 0 and right <= width + 1 and 0 < float(t.get("y")) <= height, (left, right, "".join(t.itertext()))
    assert not re.search("[\x00-\x1f\x7f]", t.text), t.text
for a in texts:
    for b in texts:
        if a is not b and abs(float(a.get("y")) - float(b.get("y"))) < 10:
            (l, r), (m, s) = span(a), span(b)
            assert r <= m or s <= l, (a.text, b.text)
groups = {g.get("id"): g for g in root.iter(SVG + "g")}
assert list(groups) == ["usage", "fragmentation", "sizes", "lifetimes"], list(groups)
usage = groups["usage"]
across = [t for t in usage.iter(SVG + "text") if t.get("class") == "t m"]
up = [t for t in usage.iter(SVG + "text") if t.get("class") == "t e"]
time_of, bytes_of = scale(across, "x"), scale(up, "y")
offset = 4  # a label is below the middle of its tick
for t in usage.iter(SVG + "text"):
    if "label" in t.get("class").split():
        print("label:", t.text)
    elif t.get("class") == "t":
        print("legend:", t.text)
for dot in usage.iter(SVG + "circle"):
    if dot.get("class") == "peakdot":
        print("peak: %.3g MiB at %.3g s" % (bytes_of(float(dot.get("cy")) + offset) / 2**20, time_of(dot.get("cx")) / 1e9))
for path in usage.iter(SVG + "path"):
    # M x y, then H x and V y by turns.
    ys = [float(y) for y in re.findall(r"(?:M[\d.]+ |V)([\d.]+)", path.get("d"))]
    assert ys, path.get("d")
    print("%s: at most %.2g MiB" % (path.get("class"), bytes_of(min(ys) + offset) / 2**20))
    if path.get("class") == "requested":
        xs = [float(x) for x in re.findall(r"[MH]([\d.]+)", path.get("d"))]
        print("requested: highest from %.2g s on" % (time_of(xs[ys.index(min(ys))]) / 1e9))
for name in ("sizes", "lifetimes"):
    bars = [r.find(SVG + "title").text for r in groups[name].iter(SVG + "rect")]
    print("%s: %d blocks" % (name, sum(int(b.split()[0].replace(",", "")) for b in bars)))
    for t in groups[name].iter(SVG + "text"):
        if t.get("class") == "t":
            print("%s: %s" % (name, t.text))
