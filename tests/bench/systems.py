# SPDX-License-Identifier: BSD-3-Clause
"""Systems of the documents in suite `programs`: each is one process a round and variant, which runs all ways to do one thing and
prints a line of key=value for each, with equal checksums.

Rows of a way, where NAME is the system's: NAME/WAY, total time preloaded beside native; NAME/WAY beside the rival, natively, but
for the rival itself; NAME/WAY/FIELD, natively, for the fields of the system that the line has.
"""
UNITS = {"bytes": "bytes", "ms": "ms", "share": "percent"}  # by the end of a field's name; any other is a count


# Those of the thesis, table 4.2, and one by a sample of rows.
SIZES = "8,16,32,48,64,96,128,256,auto"
WHOLE = 1280 * 10 ** 6  # elements of which on the matrices have their true size


def spgemm(matrix, count, entries, sizes, ways, rival, suffix=""):
    share = max(1, min(100, 100 * count // WHOLE))
    return ("spgemm%s/%s" % (suffix, matrix), "spgemm", ("--matrix=" + matrix, "--share=%d" % share, "--way=" + ways, "--size=" + sizes),
            12 * entries * share // 100, rival, ("efficiency_share", "launches", "output_bytes", "estimate_share", "active_warps"))


JOIN_FIELDS = ("partition_ms", "build_ms", "probe_ms", "finish_ms", "pages")
JOIN_PAGES = 128 * 10 ** 6  # figure 13; malloc has the driver's heap, or a growing one


def hashjoin(tuples, count, policies="direct,rw,rw-bm,corw,ouroboros,granule", suffix=""):
    """Figure 13, from 16 K to 100 M tuples, fewer where BENCH_ELEMENTS says so. The driver's malloc takes a second for 1 M."""
    tuples = max(1, min(tuples, tuples * count // WHOLE))
    pages = max(1 << 16, min(JOIN_PAGES, JOIN_PAGES * count // WHOLE))
    return ("hashjoin%s/n=%d" % (suffix, tuples), "hashjoin",
            ("--tuples=%d" % tuples, "--policy=" + policies, "--pages=%d" % pages, "--heap=%d" % (512 * max(tuples, 1 << 16))),
            16 * tuples, "direct", JOIN_FIELDS)


def pagesteps(pages, threads, free):
    """Figures 7 and 8: pages that are free, per thousand."""
    return ("pagesteps/%dMi/free=%d" % (pages >> 20, free), "pagesteps",
            ("--pages=%d" % pages, "--threads=%d" % threads, "--free=%d" % free), 256 * pages, "rw",
            ("tas", "was", "tas_theory", "was_bound"))


def smallnodes(which, options, size):
    return ("smallnodes/" + which, "smallnodes", ("--case=" + which, "--heap=%d" % (4 << 30)) + options, size, "bump",
            ("finish_ms", "allocated"))


def systems(count):
    """(name, program, arguments, bytes, rival, fields) for `count` elements in the other cases."""
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
    )


def unit(field):
    return UNITS.get(field.rsplit("_", 1)[-1], "count")


def add(table, runs, name, size, rival, fields, native, preloaded):
    """The rows of one round. `native`, `preloaded`: the names of the variants in `runs`."""
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
    """A line a way: time natively and preloaded, the gain over the rival, and the fields."""
    print("%-36s %10s %10s %-22s %s" % ("way", "native ms", "preloaded", "", "fields"))
    for row in rows:
        if row.peer != native or row.case.startswith("ooc"):
            continue
        beside = next((r for r in rows if r.case == row.case and r.peer not in ("", native)), None)
        fields = ("%s=%.4g" % (r.case[len(row.case) + 1:], r.ours) for r in rows if r.case.startswith(row.case + "/") and not r.peer)
        print("%-36s %10.4g %10.4g %-22s %s" % (row.case, row.theirs, row.ours,
                                                 beside and "%.3g times %s" % (beside.ratio, beside.peer) or "", " ".join(fields)))
    print()
