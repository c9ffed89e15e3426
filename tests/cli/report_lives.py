# SPDX-License-Identifier: BSD-3-Clause
# What a report says was alive equals `live` at any of its ticks: report_lives.py TOOL LOG TIMES. Prints the number of
# comparisons, the largest tick in ns, and how many blocks were alive in the comparison with the most.
import collections
import json
import random
import subprocess
import sys

from packed import numbers

TOOL, LOG, TIMES = sys.argv[1], sys.argv[2], int(sys.argv[3])


def tool(*words):
    return json.loads(subprocess.run([TOOL, *words, LOG], stdout=subprocess.PIPE, check=True).stdout)


# (birth, death, site, bytes, blocks, largest) of each life; times in ns, None: it does not end.
def lives(device):
    at, tick, birth = numbers(device["lives"]["packed"]), device["lives"]["tick"], 0
    for _ in range(device["lives"]["points"]):
        birth += next(at)
        length, site, size, blocks = next(at), next(at), next(at), next(at)
        yield birth * tick, (birth + length) * tick if length else None, site, size, blocks, next(at) if blocks > 1 else size
    assert next(at, None) is None, "more numbers than lives"


# {stack: (bytes, blocks, largest)}; the log may lack several stacks, which are None.
def added(rows):
    groups = collections.defaultdict(lambda: (0, 0, 0))
    for stack, size, blocks, largest in rows:
        group = groups[stack]
        groups[stack] = group[0] + size, group[1] + blocks, max(group[2], largest)
    return dict(groups)


def alive(all_lives, sites, ns):
    return added((sites[site]["stack"], size, blocks, largest) for birth, death, site, size, blocks, largest in all_lives
                 if birth <= ns and (death is None or ns < death))


def peaks(all_lives):
    changes = [(birth, 1, site, size) for birth, _, site, size, _, _ in all_lives]
    changes += [(death, 0, site, -size) for _, death, site, size, _, _ in all_lives if death is not None]
    now, most = collections.Counter(), collections.Counter()
    for _, _, site, size in sorted(changes):
        now[site] += size
        most[site] = max(most[site], now[site])
    return most


report = tool("report", "--json")["logs"][0]
generator = random.Random(1)
compared, ticks, most_alive = 0, 0, 0
for device in report["devices"]:
    every, tick = list(lives(device)), device["lives"]["tick"]
    sites, ticks = device["call_sites"], max(ticks, tick)
    assert sum(site["calls"] for site in sites) >= sum(life[4] for life in every)
    if tick == 1:
        for site, most in peaks(every).items():
            assert most == sites[site]["peak"], (site, most, sites[site])
    for _ in range(TIMES):
        first = -(-report["since_ns"] // tick)
        ns = generator.randrange(first, max(first, report["length_ns"] // tick) + 1) * tick
        groups = [one["groups"] for one in tool("live", "--json", f"--at={ns}ns", "--by=stack")["logs"][0]["devices"]
                  if one["ordinal"] == device["ordinal"]]
        expected = added((group["stack"], group["bytes"], group["blocks"], group["largest"]) for group in (groups or [[]])[0])
        found = alive(every, sites, ns)
        assert found == expected, (ns, found, expected)
        compared += 1
        most_alive = max(most_alive, sum(blocks for _, blocks, _ in found.values()))
print(compared, ticks, most_alive)
