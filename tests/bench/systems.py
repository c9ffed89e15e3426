# SPDX-License-Identifier: BSD-3-Clause
"""The documents' systems in suite `programs`. Each is one process for each round and variant. It runs all
ways to do one thing, and prints a line of key=value for each way, with equal checksums.

Rows of a way, where NAME is the system's: NAME/WAY, total time preloaded beside native; NAME/WAY beside the
rival, natively, except for the rival itself; NAME/WAY/FIELD, natively, for the system's fields in the line.
"""
UNITS = {"bytes": "bytes", "ms": "ms", "share": "percent"}  # by the end of a field's name; other fields are counts


# Sizes of the thesis, table 4.2, and one from a sample of rows.
SIZES = "8,16,32,48,64,96,128,256,auto"
WHOLE = 1280 * 10 ** 6  # number of elements from which on the matrices have their true size


def spgemm(matrix, count, entries, sizes, ways, rival, suffix=""):
    share = max(1, min(100, 100 * count // WHOLE))
    return ("spgemm%s/%s" % (suffix, matrix), "spgemm", ("--matrix=" + matrix, "--share=%d" % share, "--way=" + ways, "--size=" + sizes),
            12 * entries * share // 100, rival, ("efficiency_share", "launches", "output_bytes", "estimate_share", "active_warps"))


JOIN_FIELDS = ("partition_ms", "build_ms", "probe_ms", "finish_ms", "pages")
JOIN_PAGES = 128 * 10 ** 6  # figure 13; malloc has the driver's heap, or a growing one


def hashjoin(tuples, count, policies="direct,rw,rw-bm,corw,ouroboros,granule", suffix=""):
    """Figure 13, 16 K to 100 M tuples, fewer if BENCH_ELEMENTS is smaller. The driver's malloc takes a second for 1 M."""
    tuples = max(1, min(tuples, tuples * count // WHOLE))
    pages = max(1 << 16, min(JOIN_PAGES, JOIN_PAGES * count // WHOLE))
    return ("hashjoin%s/n=%d" % (suffix, tuples), "hashjoin",
            ("--tuples=%d" % tuples, "--policy=" + policies, "--pages=%d" % pages, "--heap=%d" % (512 * max(tuples, 1 << 16))),
            16 * tuples, "direct", JOIN_FIELDS)


def pagesteps(pages, threads, free):
    """Figures 7 and 8; `free`: free pages, per thousand."""
    return ("pagesteps/%dMi/free=%d" % (pages >> 20, free), "pagesteps",
            ("--pages=%d" % pages, "--threads=%d" % threads, "--free=%d" % free), 256 * pages, "rw",
            ("tas", "was", "tas_theory", "was_bound"))


def smallnodes(which, options, size):
    return ("smallnodes/" + which, "smallnodes", ("--case=" + which, "--heap=%d" % (4 << 30)) + options, size, "bump",
            ("finish_ms", "allocated"))


def barneshut(bodies, count):
    bodies = max(1 << 10, min(bodies, bodies * count // WHOLE))
    return ("barneshut/n=%d" % bodies, "barneshut", ("--bodies=%d" % bodies, "--steps=2", "--heap=%d" % (4 << 30)), 16 * bodies, "bump",
            ("build_ms", "sum_ms", "pull_ms", "finish_ms", "allocated"))


def arraylist(items):
    """Figure 6.3: ten requests of 4 or 8 bytes by each item."""
    return ("arraylist/n=%d" % items, "arraylist",
            ("--way=fixed,bump,malloc,group,group-bump", "--items=%d" % items, "--heap=%d" % (4 << 30)), 60 * items, "malloc",
            ("read_ms", "finish_ms", "allocated", "held_bytes"))


def expressions(trees):
    return ("expressions/n=%d" % trees, "expressions", ("--trees=%d" % trees, "--heap=%d" % (4 << 30)), trees << 11, "bump",
            ("make_ms", "value_ms", "derive_ms", "simplify_ms", "slope_ms", "delete_ms", "objects"))


def hostarrays(which, option, items, size):
    """Without a rival: the preload must not slow it down."""
    return ("hostarrays/%s=%d" % (option, items), "hostarrays", ("--case=" + which, "--%s=%d" % (option, items)), size * items, "", ("steps_ms",))


GRAPH_FIELDS = ("build_ms", "insert_ms", "query_ms", "delete_ms", "insert_meps", "query_meps", "delete_meps", "pagerank_ms",
                "order_ms", "triangles_ms", "move_ms", "compact_ms", "built_bytes", "final_bytes", "compact_bytes")
LAYOUTS = "aim,faim,ouro-va-p,granule"
# Walks leave holes between small blocks: walks of many edges may find no room.
ALLOCATORS = ("faim,bump,granule,kma,ouro-s-p,ouro-s-c,ouro-va-p,ouro-va-c,ouro-vl-p,ouro-vl-c", "faim,rw,rw-bm,corw")


def dyngraph(graph, pattern, batch, count, ways=LAYOUTS, edges=16 * 10 ** 6, suffix="", options=()):
    """A graph that changes by batches; smaller if BENCH_ELEMENTS is smaller."""
    edges, batch = (max(least, whole * min(count, WHOLE) // WHOLE) for whole, least in ((edges, 20000), (batch, 100)))
    return ("dyngraph%s/%s/%s/n=%d" % (suffix, graph, pattern, batch), "dyngraph",
            ("--graph=" + graph, "--edges=%d" % edges, "--way=" + ways, "--batch=%d" % batch, "--pattern=" + pattern) + options,
            4 * edges, "faim", GRAPH_FIELDS)


def systems(count):
    """(name, program, arguments, bytes, rival, fields); `count`: elements of the other cases."""
    elements = max(count // 10, 128)
    return (
        ("growth", "growth", (str(elements), str(elements // 128)), 4 * elements, "thrust",
         ("resize_share", "peak_bytes", "copied_bytes")),
        *(spgemm(matrix, count, entries, SIZES, "upper,precise,dynamic,persistent,cusparse", "cusparse")
          for matrix, entries in (("pwtk", 11524432), ("atmosmodl", 10319760), ("cage14", 27130349), ("skew", 8000000))),
        *(spgemm(matrix, count, entries, "64", "upper,malloc", "upper", "-malloc")
          for matrix, entries in (("pwtk", 11524432), ("skew", 8000000))),
        *(hashjoin(tuples, count) for tuples in (16 << 10, 128 << 10, 10 ** 6, 10 ** 7, 10 ** 8)),
        *(hashjoin(tuples, count, "direct,malloc", "-malloc") for tuples in (16 << 10, 128 << 10, 10 ** 6)),
        *(pagesteps(pages, pages // 1024 * 5, free) for pages in (1 << 20, 1 << 25) for free in (500, 100, 10, 5)),
        smallnodes("tree", (), 65536 * 16 + 10000 * 32),
        smallnodes("queue", (), 4096 * 16),
        *(barneshut(bodies, count) for bodies in (16 << 10, 1 << 20)),
        *(arraylist(items) for items in (4096, 16384, 32768)),
        expressions(16384),
        hostarrays("kmeans", "points", 1 << 20, 20),
        hostarrays("spmv", "rows", 1 << 20, 264),
        *(dyngraph(graph, pattern, 10 ** 5, count) for graph in ("rmat", "mesh", "road") for pattern in ("uniform", "focused")),
        *(dyngraph("rmat", pattern, batch, count) for batch in (10 ** 4, 10 ** 6) for pattern in ("uniform", "focused")),
        *(dyngraph(graph, pattern, 10 ** 5, count, suffix="-sorted", options=("--update=sorted",))
          for graph in ("rmat", "mesh") for pattern in ("uniform", "focused")),
        *(dyngraph(graph, "uniform", 10 ** 5, count, suffix="-reinit", options=("--plain", "--rounds=3", "--reinit=move,compact"))
          for graph in ("rmat", "mesh", "road")),
        # The sweep: edges of 100 vertices, different ones in each round.
        dyngraph("mesh", "focused", 10 ** 6, count, suffix="-sweep",
                 options=("--plain", "--rounds=20", "--range=100", "--room=%d" % (8 << 30))),
        # Figures 6.11 to 6.13. bump frees nothing.
        *(dyngraph("rmat", pattern, 10 ** 5, count, ways, suffix=suffix, options=("--plain", "--room=%d" % (8 << 30)))
          for ways, suffix in zip(ALLOCATORS, ("-allocators", "-walks")) for pattern in ("uniform", "focused")),
        # The driver's malloc takes a second for a million.
        dyngraph("rmat", "uniform", 10 ** 5, count, "faim,malloc", 10 ** 6, "-malloc", ("--heap=%d" % (4 << 30),)),
    )


def unit(field):
    return UNITS.get(field.rsplit("_", 1)[-1], "count")


def add(table, runs, name, size, rival, fields, native, preloaded):
    """Adds the rows of one round. `native`, `preloaded`: names of the variants in `runs`."""
    total = {run["way"]: float(run["total_ms"]) for run in runs[native]}
    for ours, run in zip(runs[preloaded], runs[native]):
        way, label = run["way"], "%s/%s" % (name, run["way"])
        table.add(label, size, "ms", float(ours["total_ms"]), native, total[way])
        if way != rival and rival in total:
            table.add(label, size, "ms", total[way], rival, total[rival])
        for field in fields:
            if field in run:
                table.add("%s/%s" % (label, field), size, unit(field), float(run[field]))


def show(rows, native):
    """Prints a line for each way: times natively and preloaded, the gain over the rival, and the fields."""
    print("%-36s %10s %10s %-22s %s" % ("way", "native ms", "preloaded", "", "fields"))
    for row in rows:
        if row.peer != native or row.case.startswith("ooc"):
            continue
        beside = next((r for r in rows if r.case == row.case and r.peer not in ("", native)), None)
        fields = ("%s=%.4g" % (r.case[len(row.case) + 1:], r.ours) for r in rows if r.case.startswith(row.case + "/") and not r.peer)
        print("%-36s %10.4g %10.4g %-22s %s" % (row.case, row.theirs, row.ours,
                                                 beside and "%.3g times %s" % (beside.ratio, beside.peer) or "", " ".join(fields)))
    print()
