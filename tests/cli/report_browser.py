# SPDX-License-Identifier: BSD-3-Clause
# A user's actions on the page of `gpumemstat report` in Chromium: report_browser.py CHROMIUM PAGE HOLES TWO. The logs
# are those of report.bats; that of HOLES has fragmentation, TWO has two logs.
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


def zoomed(page):
    """The number of events is that of the view."""
    tell = lambda: page.text_of("#timeline-points")
    same(tell(), " · 9 events")
    page.value("page.timeline.view(1.5e9, 2.5e9)")
    page.drawn()
    same(tell(), " · 2 events")
    page.click("#zoom-all")
    same(tell(), " · 9 events")
    page.resize(400, 900)
    page.value("page.timeline.cursorSet(1.5e9)")
    page.drawn()
    same(page.value("getComputedStyle(document.getElementById('tooltip')).display"), "none")
    has(page.text_of("#timeline-value"), "1.50 s: mapped")
    page.value("page.timeline.cursorSet(null)")
    page.resize(1400, 1000)
    page.drawn()


def sums(page):
    return page.text_of("#alive-sum")


def address(page):
    """The page's address; it is written a while after a change."""
    page.value("addressWrite()")
    return page.value("location.hash")


def chosen(page):
    """What was alive at a chosen time, and what was allocated in the view; the page's address has the time."""
    page.click("#timeline")
    same(sums(page), f"21.0 MiB in 4 blocks of 3 call stacks, at {page.value('timeText(page.timeline.picked)')}.")
    same(page.value("document.querySelector('#moments :checked').value"), "time")
    same(page.value("page.timeline.picked > 1e9 && page.timeline.picked < 2e9"), True)
    same(address(page), f"#process=0&device=0&at={round(page.value('page.timeline.picked'))}")
    page.value("location.hash = '#process=0&device=1&at=3000000000'")
    page.drawn()
    has(sums(page), "3.00 MiB in 1 block of 1 call stack, at 3.00 s.")
    page.value("location.hash = '#process=0&device=0&at=2500000000'")
    page.drawn()
    same(sums(page), "16.0 MiB in 4 blocks of 4 call stacks, at 2.50 s.")
    page.click("#kinds label:nth-child(2)")
    same([row.split(" ")[0] for row in rows(page)], ["10.0", "5.00", "1.00", "512"])
    page.click("#moments input[value=view]")
    same(sums(page), "8.00 MiB in 4 blocks of 4 call stacks, allocated after 0 ns and alive at 3.00 s.")
    page.drag("#timeline", 0.6, 0.8)
    has(sums(page), "5.00 MiB in 1 block of 1 call stack, allocated after 1.")
    view = [round(page.value(f"page.timeline.{name}")) for name in ("begin", "end")]
    link = address(page)
    same(link, f"#process=0&device=0&from={view[0]}&to={view[1]}&show=view")
    page.click("#zoom-all")
    has(sums(page), "8.00 MiB in 4 blocks")
    page.click("#moments label:nth-child(3)")
    same(address(page), "#process=0&device=0&show=exit")
    # The link leads to what was shown.
    page.value(f"location.hash = '{link}'")
    page.drawn()
    same([round(page.value(f"page.timeline.{name}")) for name in ("begin", "end")], view)
    has(sums(page), "5.00 MiB in 1 block of 1 call stack, allocated after 1.")
    page.click("#zoom-all")
    # Keys: Enter chooses the time of the cursor.
    page.value("document.getElementById('timeline').focus()")
    page.key("Home")
    page.key("Enter")
    same(sums(page), "0 B in 0 blocks of 0 call stacks, at 0 ns.")
    page.click("#kinds label:nth-child(1)")
    page.click("#moments label:nth-child(1)")


def sites(page):
    """The timeline by call site, and the table of all sites, sorted."""
    page.click("#pictures label:nth-child(2)")
    same(page.value("[...document.querySelectorAll('#legend label')].map((one) => one.textContent)"),
         ["train (project/train.py:7)", "libone.so+0x16b", "libone.so+0x0", "train (project/train.py:8)", "without a call stack"])
    page.move("#timeline", 0.5)
    has(page.text_of("#timeline-value"), "without a call stack 512 B, train (project/train.py:8) 1.00 MiB, libone.so+0x0 0 B, "
        "libone.so+0x16b 0 B, train (project/train.py:7) 20.0 MiB")
    # Legend and drawing have one colour.
    same(page.value("""(() => {
        const {canvas, size} = page.timeline, ratio = devicePixelRatio;
        const at = (ns, bytes) => [...canvas.getContext("2d").getImageData(page.timeline.xOf(ns) * ratio, page.timeline.yOf(bytes) * ratio, 1, 1).data];
        const swatch = getComputedStyle(document.querySelector("#legend label:nth-child(1) rect:last-of-type")).fill;
        return `rgb(${at(1.2e9, 10 * 1048576).slice(0, 3).join(", ")})` === swatch;
    })()"""), True)
    drawn = page.value("document.getElementById('timeline').toDataURL()")
    page.click("#legend label:nth-child(1) input")
    same(page.value("document.getElementById('timeline').toDataURL()") == drawn, False)
    page.click("#kinds label:nth-child(3)")
    same(page.text_of("#blocks-title"), "Call sites of the run")
    first = "document.querySelector('#blocks tbody td:last-child').textContent"
    has(page.value(first), "train (project/train.py:7)")
    page.click("#blocks th:nth-child(7) button")
    has(page.value(first), "libone.so+0x0")
    same(page.value("document.querySelector('#blocks th:nth-child(7)').ariaSort"), "ascending")
    page.click("#blocks th:nth-child(7) button")
    has(page.value(first), "without a call stack")
    page.click("#blocks th:nth-child(4) button")
    has(page.value(first), "train (project/train.py:7)")
    page.value("document.getElementById('search').focus()")
    page.type("train.py")
    same(len(rows(page)), 2)
    page.value("document.getElementById('search').value = ''; document.getElementById('search').dispatchEvent(new Event('input'))")
    page.click("#kinds label:nth-child(1)")
    page.click("#pictures label:nth-child(1)")


def trees(page):
    """The flame graph from the allocating calls, and with all frames."""
    page.click("#trees label:nth-child(2)")
    same(frames(page)[:3], ["all blocks", "libone.so+0x107", "0xdead"])
    page.click("#trees label:nth-child(1)")
    same(frames(page)[:3], ["all blocks", "<module> (project/train.py:1)", "train (project/train.py:7)"])
    page.click("#frames-all")
    same(page.value("page.tree.folded"), False)
    page.click("#frames-all")
    same(page.value("page.tree.folded"), True)


def addresses(page):
    """The map tells the block under the pointer, and a click chooses the time."""
    value = "#map-value"
    place = page.value("""(() => {
        const {map, timeline} = page, one = map.boxOf(map.blocks, 0);
        return [(one.left + 5) / map.canvas.clientWidth, (one.top + one.bottom) / 2 / map.canvas.clientHeight];
    })()""")
    page.move("#map", *place)
    has(page.text_of(value), "10.0 MiB at 0x")
    has(page.text_of(value), ", allocated at 1.00 s, freed after 1.00 s: train (project/train.py:7)")
    # Where no block is: the memory around.
    free = page.value("""(() => {
        const {map} = page, one = map.boxOf(map.chunks, 0);
        return [(one.left + 5) / map.canvas.clientWidth, (one.top + 2) / map.canvas.clientHeight];
    })()""")
    page.move("#map", *free)
    has(page.text_of(value), "mapped, free: 64.0 MiB at 0x")
    page.move("#map", *place)
    page.click("#map", *place)
    has(sums(page), "21.0 MiB in 4 blocks")
    page.move("h1", 0.5)
    same(page.text_of(value), "")
    page.click("#moments label:nth-child(1)")


def fragmentation(page, path):
    page.open(path)
    same(page.value("page.frag.frag.n > 0"), True)
    page.value("page.timeline.cursorSet(2.5e9)")
    page.drawn()
    has(page.text_of("#frag-value"), "external fragmentation 0.5")
    same(page.value("document.getElementById('frag-part').hidden"), False)


def difference(page, path):
    """Two logs: the peak of the second beside that of the first, site by site."""
    page.open(path)
    page.click("#kinds label:nth-child(4)")
    same(page.text_of("#blocks-title"), "Difference to another run")
    same(page.value("document.getElementById('other-label').hidden"), False)
    lines = "[...document.querySelectorAll('#blocks tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent).join(' '))"
    same(page.text_of("#blocks p"), "Old: a.gml, 21.0 MiB at 1.00 s; new: c.gml, 24.0 MiB at 1.00 s: +3.00 MiB.")
    same(page.value(lines), ["20.0 MiB 0 B −20.0 MiB −2 only old: train (project/train.py:7)",
                             "0 B 16.0 MiB +16.0 MiB +1 only new: libone.so+0x16b", "1.00 MiB 8.00 MiB +7.00 MiB 0 train (project/train.py:8)",
                             "512 B 0 B −512 B −1 only old: without a call stack"])
    page.value("document.getElementById('process').value = '1'; document.getElementById('process').onchange()")
    page.click("#kinds label:nth-child(4)")
    same(page.text_of("#blocks p"), "Old: a.gml, 21.0 MiB at 1.00 s; new: c.gml, 24.0 MiB at 1.00 s: +3.00 MiB.")
    page.value("location.hash = '#process=0&device=0&at=2500000000'")
    page.drawn()
    has(page.text_of("#blocks p"), "Old: a.gml, 16.0 MiB at 2.50 s; new: c.gml, 24.0 MiB at 1.00 s: +")
    page.value("document.getElementById('process').value = '1'; document.getElementById('process').onchange()")
    same(address(page), "")


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
    # A finding about the run has a link for each device.
    links = "[...document.querySelectorAll('#findings button')].map((one) => one.textContent)"
    same(page.value(links), ["Show their call stacks on device 0", "Show their call stacks on device 1"])
    page.click("#findings li button:nth-of-type(2)")
    has(page.text_of("#alive-sum"), "3.00 MiB in 1 block of 1 call stack")
    page.value("document.getElementById('device').value = '0'; document.getElementById('device').onchange()")
    page.drawn()
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
    page.click("#pictures label:nth-child(2)")
    for width in (360, 400, 800, 1280, 1600):
        page.resize(width, 900)
        page.drawn()
        page.value("page.timeline.cursorSet(1.5e9)")  # with the tooltip
        page.drawn()
        same(page.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), True)


with Browser(sys.argv[1]) as page:
    page.open(sys.argv[2])
    same(page.errors, [])
    timeline(page)
    zoomed(page)
    page.click("#moments label:nth-child(1)")
    flame(page)
    chosen(page)
    sites(page)
    trees(page)
    addresses(page)
    search(page)
    choices(page)
    hostile(page)
    fits(page)
    same(page.errors, [])
    same(page.requests, [])
    fragmentation(page, sys.argv[3])
    difference(page, sys.argv[4])
    same(page.errors, [])
print("fine")
