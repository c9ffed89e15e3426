# SPDX-License-Identifier: BSD-3-Clause
# A user's actions on the page of `gpumemstat report` in Chromium: report_browser.py CHROMIUM PAGE. The log is
# that of report.bats.
import sys

from browser import Browser


def same(found, expected):
    if found != expected:
        sys.exit(f"{found!r}, not {expected!r} (line {sys._getframe(1).f_lineno})")


def has(text, part):
    if part not in (text or ""):
        sys.exit(f"{text!r} has no {part!r} (line {sys._getframe(1).f_lineno})")


def timeline(page):
    value, whole = "#timeline-value", "All of 3.00 s"
    same(page.text_of("#timeline-range"), whole)
    page.move("#timeline", 0.5)
    has(page.text_of(value), "mapped 64.0 MiB, idle 43.0 MiB, in use 21.0 MiB, requested 21.0 MiB")
    same(page.value("document.getElementById('tooltip').hidden"), False)
    page.move("h1", 0.5)
    same(page.text_of(value), "")
    same(page.value("document.getElementById('tooltip').hidden"), True)
    # Zoom by dragging, keys, the wheel, and buttons.
    page.drag("#timeline", 0.4, 0.6)
    begin, end = (float(word) for word in page.text_of("#timeline-range").split() if word.replace(".", "").isdigit() and word != "3.00")
    same(1.0 < begin < 1.3 and 1.7 < end < 2.0, True)
    page.key("0")
    same(page.text_of("#timeline-range"), whole)
    page.click("#timeline")
    page.key("+")
    has(page.text_of("#timeline-range"), " to ")
    page.key("-")
    same(page.text_of("#timeline-range"), whole)
    page.wheel("#timeline", 0.5, -100, control=True)
    has(page.text_of("#timeline-range"), " to ")
    before = page.text_of("#timeline-range")
    page.wheel("#timeline", 0.5, 1)  # scrolls the page
    same(page.text_of("#timeline-range"), before)
    page.click("#zoom-all")
    same(page.text_of("#timeline-range"), whole)
    page.click("#zoom-in")
    has(page.text_of("#timeline-range"), " to ")
    page.click("#zoom-all")
    # Keys move the cursor.
    page.value("document.getElementById('timeline').focus()")
    page.key("ArrowRight")
    has(page.text_of(value), "1.530 s: mapped")
    page.key("ArrowLeft")
    has(page.text_of(value), "1.500 s: mapped")
    # The drawing changes with the selected series.
    pixels = "document.getElementById('timeline').toDataURL()"
    drawn = page.value(pixels)
    page.click("#legend label:nth-child(3) input")
    same(page.value(pixels) == drawn, False)
    page.click("#legend label:nth-child(3) input")


def frames(page):
    return page.value("[...document.querySelectorAll('#flame button')].map((one) => one.textContent)")


def flame(page):
    same("train (project/train.py:7)" in frames(page), True)
    found = page.value("[...document.querySelectorAll('#flame button')].findIndex((one) => one.textContent.startsWith('train (project/train.py:7)')) + 1")
    one = f"#flame button:nth-child({found})"
    page.move(one, 0.5)
    same(page.text_of("#flame-value"), "train (project/train.py:7): 20.0 MiB (95.2%) in 2 blocks")
    page.click(one)
    same(page.value("document.getElementById('flame-all').hidden"), False)
    width = page.value("document.getElementById('flame').clientWidth")
    same(page.value("document.activeElement.clientWidth") > width - 3, True)
    same("train (project/train.py:8)" in frames(page), False)
    # Keys: the callee, back, the whole graph.
    page.key("ArrowDown")
    has(page.text_of("#flame-value"), "0xdead: 20.0 MiB")
    page.key("ArrowUp")
    has(page.text_of("#flame-value"), "train (project/train.py:7)")
    page.key("Escape")
    same("train (project/train.py:8)" in frames(page), True)


def rows(page):
    return page.value("[...document.querySelectorAll('#blocks tbody tr')].map((row) => row.cells[0].textContent + ' ' + row.querySelector('summary, .faint').textContent)")


def search(page):
    page.key("Tab")
    page.key("/")
    same(page.value("document.activeElement.id"), "search")
    page.type("train.py train")
    has(page.text_of("#alive-sum"), "Found: 21.0 MiB, 100.0%")
    page.value("document.getElementById('search').select()")
    page.type("+0x108")
    has(page.text_of("#alive-sum"), "Found: 0 B")
    page.value("document.getElementById('search').select()")
    page.type("0x108")
    has(page.text_of("#alive-sum"), "Found: 1.00 MiB, 4.8%")
    same(page.value("document.querySelectorAll('#flame .match').length"), 1)
    same(len(rows(page)), 1)
    page.value("document.getElementById('search').select()")
    page.type("map_calls")
    has(page.text_of("#details details[open]"), "chunks created and mapped")
    same(page.text_of("#blocks"), "Nothing here matches the search.")
    page.value("document.getElementById('search').select()")
    page.ask("Input.dispatchKeyEvent", type="keyDown", key="Backspace", code="Backspace", windowsVirtualKeyCode=8)
    page.drawn()
    same(len(rows(page)), 3)


def choices(page):
    same(page.text_of("#alive-sum"), "21.0 MiB in 4 blocks of 3 call stacks, at 1.00 s.")
    page.click("#moments label:nth-child(3)")
    same(page.text_of("#alive-sum"), "8.00 MiB in 4 blocks of 4 call stacks, at 3.00 s.")
    page.click("#kinds label:nth-child(2)")
    same([row.split(" ")[0] for row in rows(page)], ["5.00", "2.00", "1.00", "512"])
    page.value("document.getElementById('device').focus()")
    page.key("ArrowDown")
    has(page.text_of("#alive-sum"), "3.00 MiB in 1 block of 1 call stack")
    page.key("ArrowUp")
    page.click("#kinds label:nth-child(1)")


def hostile(page):
    """Function names are shown literally, and run no script."""
    same(page.value("typeof hacked"), "undefined")
    page.value("page.search.words; document.getElementById('device').value = '1'; document.getElementById('device').onchange()")
    same(any("<script>hacked" in text for text in frames(page)), True)
    same(page.value("document.querySelectorAll('img').length"), 0)
    same(page.value("typeof hacked"), "undefined")


def fits(page):
    for width in (360, 800, 1400, 1600):
        page.resize(width, 900)
        page.drawn()
        same(page.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), True)


with Browser(sys.argv[1]) as page:
    page.open(sys.argv[2])
    same(page.errors, [])
    timeline(page)
    flame(page)
    search(page)
    choices(page)
    hostile(page)
    fits(page)
    same(page.errors, [])
    same(page.requests, [])
print("fine")
