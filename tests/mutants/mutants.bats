#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The one-line mutations that `make mutants` makes of a file.

setup() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$BATS_TEST_DIRNAME
	cd "$BATS_TEST_TMPDIR" || return 1
}

# The mutations of standard input: KIND NEW.
mutations() {
	python3 -c 'import sys, sites
for mutation, _ in sites.mutations("x.c", sys.stdin.read()):
    print(mutation.kind, mutation.new)'
}

# mutate EXPECTED LINE: the mutations of one line of a function.
mutate() {
	diff -u <(printf '%s' "$1") <(printf '\t%s\n' "$2" | mutations)
}

@test "operators, conditions, calls and memory orders" {
	mutate 'operator int a = b - c;
' 'int a = b + c;'
	mutate 'operator for (i = 0; i <= n; i++)
operator for (i = 0; i < n; i--)
' 'for (i = 0; i < n; i++)'
	mutate 'condition if (a || !b)
condition if (a && b)
condition if (!(a && !b))
' 'if (a && !b)'
	mutate 'call ;
' 'gm_lock_take(&pool->lock);'
	mutate 'order return atomic_load_explicit(&a, memory_order_relaxed);
' 'return atomic_load_explicit(&a, memory_order_acquire);'
	mutate 'operator a -= b;
' 'a += b;'
}

@test "comments, strings, preprocessor lines, assertions and the lesser of two are not mutated" {
	mutate '' '/* a < b && c */'
	mutate '' 'const char *text = "a + b"; // a - b'
	[ -z "$(printf '\tint a; /* a == b\n\t * c < d */\n' | mutations)" ]
	mutate '' 'gm_lock_assert_held(GM_LOCK_RANK_POOL);'
	mutate '' 'n = a < b ? a : b;'
	mutate 'operator n = a > b ? a + b : 0;
' 'n = a > b ? a - b : 0;'
	mutate 'operator n = a <= b ? 1 : 2;
' 'n = a < b ? 1 : 2;'
	[ -z "$(printf '#define A(b) \\\n\t(b + 1)\n' | mutations)" ]
	[ -z "$(printf 'static bool a_is_less(int a)\n' | mutations)" ]
}

# asks PYTHON: runs it with the modules of this folder, in a build whose one test is tests/unit/test_x.
asks() {
	python3 -c "import covered, judge, mutants, os, running, sites
running.environments['.'] = dict(os.environ)
$1"
}

# program LINE...: tests/unit/test_x
program() {
	mkdir -p tests/unit
	printf '%s\n' '#!/bin/sh' "$@" >tests/unit/test_x
	chmod +x tests/unit/test_x
}

@test "a test is ended at its first failure, at its end without a result, and when it loops" {
	program 'echo ok 1 a' 'echo not ok 2 b' 'exec sleep 10000'
	[ "$(asks 'print(running.run(".", "tests/unit/test_x", 1).failed)')" = "not ok 2 b" ]
	program 'echo ok 1 a' 'kill -SEGV $$'
	[ "$(asks 'print(running.run(".", "tests/unit/test_x", 1).failed)')" = "ends with status -11" ]
	program 'while :; do :; done'
	[ "$(asks 'running.LOOP = 1; print(running.run(".", "tests/unit/test_x", 0).failed)')" = "ends with status -9" ]
	program 'exec sleep 10000'
	[ "$(asks 'running.WAIT = 0.1; print(running.run(".", "tests/unit/test_x", 0).failed)')" = "does not end" ]
	program 'echo ok 1 a' 'echo not ok 2 b \# TODO later' 'echo ok 3 c'
	[ "$(asks 'print(running.run(".", "tests/unit/test_x", 1).failed)')" = None ]
}

@test "the named cases of a .bats file run alone" {
	mkdir -p build tree
	printf '@test "%s" {\n\techo "%s" >>ran\n}\n' 'a (b|c)' 1 'a b' 2 'a (b|c) d' 3 >tree/x.bats
	cd build
	asks 'running.environments["."] = {"PATH": ":".join(x for x in os.environ["PATH"].split(":") if "bats" not in x)}
print(running.run(".", "x.bats", 1, ["a (b|c)"]))'
	[ "$(cat ran)" = 1 ]
}

@test "a row names one mutant: of equal ones the one next to its line" {
	mkdir -p src/pool
	printf '\tif (a)\n\t\treturn;\n\tif (a)\n\t\treturn;\n\tif (a)\n' >src/pool/x.c
	printf '%s\n' '# a comment' 'src/pool/x.c @ if (a) => if (!(a)) @ line 4, 3 tests' >rows
	[ "$(asks 'print([m.line for m, _ in mutants.named(".", mutants.read_rows("rows"))])')" = '[3]' ]
}

@test "lines of an older commit are mapped to their present numbers" {
	command -v git >/dev/null || skip "git is not installed"
	git init -q .
	printf '%s\n' a b c d e >x.c
	git add x.c
	git -c user.name=a -c user.email=a@a commit -qm 1
	printf '%s\n' new a b changed d new e >x.c
	git -c user.name=a -c user.email=a@a commit -qam 2
	[ "$(asks 'moves = covered.Moves(".", "HEAD")
print([moves.line("HEAD~1", "x.c", line) for line in (1, 2, 4, 5)], moves.since("HEAD~1")[0])')" = "[2, 3, 5, 7] {'x.c'}" ]
}

# A line in four is new; a draw that weighs them takes more than half of its first lines from these.
@test "lines that are new since a commit are drawn more often, and each line once" {
	command -v git >/dev/null || skip "git is not installed"
	git init -q .
	mkdir -p src/pool
	seq -f '	a%g += b;' 300 >src/pool/x.c
	git add src
	git -c user.name=a -c user.email=a@a commit -qm 1
	seq -f '	c%g += d;' 100 >>src/pool/x.c
	git mv src/pool/x.c src/pool/y.c
	git -c user.name=a -c user.email=a@a commit -qam 2
	asks 'new = mutants.lines_since(".", "HEAD~1", "HEAD")
assert new == {("src/pool/y.c", line) for line in range(301, 401)}, sorted(new)
drawn = [mutation.line for mutation, _ in mutants.draw(".", "seed", new)]
assert sorted(drawn) == list(range(1, 401))
assert sum(line > 300 for line in drawn[:100]) > 50, drawn
assert drawn == [mutation.line for mutation, _ in mutants.draw(".", "seed", new)]'
}

@test "the state of a stopped run is what another build folder needs to continue it" {
	asks 'class Judging:
    is_left = staticmethod(lambda mutation, row: 1 if row["passed"] == ["x"] else None)
first = mutants.Results("results", "1", Judging, "STATE")
rows = {3: ("caught", []), 4: ("survived", ["x"]), 5: ("survived", ["x", "y"]), 6: ("open", ["x"])}
for line, (verdict, passed) in rows.items():
    first.put(sites.Mutation("x.c", line, "call", "f();", ";"), {"verdict": verdict, "passed": passed, "stage": 1})
first.keep("STATE")
second = mutants.Results("others", "1", Judging, "STATE")
assert [row["verdict"] for row in second.known.values()] == ["caught", "open", "survived", "open"], second.known
assert not mutants.Results("others", "2", Judging, "STATE").known'
}

# Ten judgements give the rate; a run of mutants that take long makes fewer.
@test "the rate is said once it is known, and mutants that take long are fewer" {
	asks 'class Results:
    known = {}
    put = lambda self, mutation, row: self.known.__setitem__(mutation, row)
for seconds, n in ((20, 100), (130, 60)):
    Results.known = {}
    work = mutants.Work([], 100, Results(), {})
    for i in range(12):
        work.done(i, {"verdict": "caught", "seconds": seconds})
    assert work.n == n, (seconds, work.n)' >said
	[ "$(cat said)" = "# 20 s of a worker a mutant that is caught: 100 mutants
# 130 s of a worker a mutant that is caught: 60 mutants" ]
}

@test "the cheapest chance to catch a mutant is first, and rises with each catch of the test" {
	asks 'class Coverage:
    tests = {"tests/slow.bats": {"": 100}, "tests/unit/test_y": {"": 1}, "tests/unit/test_x": {"": 2}}
judging = judge.Judge(Coverage, "trusted")
every = dict.fromkeys(Coverage.tests)
assert judging.order(every, "src/x.c") == ["tests/unit/test_x", "tests/unit/test_y", "tests/slow.bats"]
for _ in range(200):
    judging.chances.learn("src/x.c", {"verdict": "caught", "passed": ["tests/unit/test_x", "tests/unit/test_y"],
                                      "test": "tests/slow.bats"})
assert judging.order(every, "src/x.c") == ["tests/slow.bats", "tests/unit/test_x", "tests/unit/test_y"]'
}

# A commit whose one object is its source, and whose one test looks for the mutated text.
@test "a mutant is caught or survives; equal code is no mutant; the file is restored" {
	program 'grep -q "f(a < b)" x.o && echo ok 1 a || echo not ok 1 a'
	printf 'void x(void)\n{\n\tf(a < b);\n\tg(a < b);\n\tif (a && b)\n}\n' >x.c
	cp x.c whole.c
	cp x.c x.o
	asks 'import builds, shutil
copy = builds.Copy.__new__(builds.Copy)
copy.tree, copy.commit, copy.made, copy.build = ".", "1", {".": {}}, lambda name: "."
copy.made["."] = copy.objects(".", 0)
copy.make = lambda *targets: shutil.copy("x.c", "x.o")
class Coverage:
    tests = {"tests/unit/test_x": {"": 0.1}}
    of = lambda path, line: {"tests/unit/test_x": None}
judging = judge.Judge(Coverage, "trusted")
said = {}
for mutation, text in sites.mutations("x.c", open("x.c").read()):
    if mutation.kind == "operator":
        said[mutation.line] = judging.judge(copy, mutation, text)["verdict"]
    assert open("x.c").read() == open("whole.c").read()
assert said == {3: "caught", 4: "open"}, said
row = judging.judge(copy, mutation, text, 2, ["tests/unit/test_x"])
assert row["verdict"] == "survived" and row["passed"] == ["tests/unit/test_x", "tests/unit/test_x (sanitize)"], row
copy.make = lambda *targets: True
assert judging.judge(copy, mutation, text)["verdict"] == "same code"'
}
