#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# Which one-line mutations `make mutants` makes of a file.

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

@test "comments, strings, preprocessor lines, assertions and the lesser of two are left alone" {
	mutate '' '/* a < b && c */'
	mutate '' 'const char *text = "a + b"; // a - b'
	[ -z "$(printf '\tint a; /* a == b\n\t * c < d */\n' | mutations)" ]
	mutate '' 'gm_lock_assert_held(GM_LOCK_RANK_POOL);'
	mutate '' 'n = a < b ? a : b;'
	mutate 'operator n = a <= b ? 1 : 2;
' 'n = a < b ? 1 : 2;'
	[ -z "$(printf '#define A(b) \\\n\t(b + 1)\n' | mutations)" ]
	[ -z "$(printf 'static bool a_is_less(int a)\n' | mutations)" ]
}
