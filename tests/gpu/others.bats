#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# others.py, with scripts in place of the programs that need a GPU.
source "$BATS_TEST_DIRNAME/../cli/cli.bash"

# program NAME <SCRIPT: in SCRIPT, $how is native or preloaded, $run the number of the run.
program() {
	{
		echo '#!/bin/bash'
		echo 'how=native; [ -z "$GPUMEM_FREE" ] || how=preloaded; echo >>"$COUNTS"; run=$(wc -l <"$COUNTS")'
		cat
	} >"programs/$1"
	chmod +x "programs/$1"
	printf '%s\n' "$1 test ${2:-exact} \$HERE/$1" >>table
}

# others NAME...: run others.py on them, one at a time.
others() {
	: >"$COUNTS"
	python3 bundle/others.py --table table --jobs 1 programs results "$@" >said
}

setup_others() {
	command -v python3 >/dev/null || skip "python3 is not installed"
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer's runtime has to come first, and bash is not linked with one"
	export PYTHONDONTWRITEBYTECODE=1 COUNTS=$PWD/counts
	mkdir bundle programs
	cp "$BATS_TEST_DIRNAME/others.py" "$BATS_TEST_DIRNAME/others.txt" bundle/
	ln -s "$TOOL" bundle/gpumemstat
	export GPUMEM_LIBRARY_PATH=$GPUMEM_TEST_PRELOAD
}

@test "equal: lines of both native runs and both preloaded ones; allocations of the logs are counted" {
	setup_others
	program same <<<"'$DEMO' 50"
	others
	cat said
	grep -qE '^equal    same +sync: 1 of 1 lines compared, pool served [1-9][0-9]* \+ 0 by the driver; defer: ' said
	[ "$(tail -n 1 said)" = "1 equal, 0 differs, 0 unsure, 0 not run" ]
	diff said results/SUMMARY.txt
}

@test "differs: a line, an additional line, the exit status" {
	setup_others
	program line <<<'echo always; echo $how'
	program more <<<'echo always; [ $how = native ] || echo more'
	program status <<<'echo always; [ $how = native ]'
	for name in line more status; do
		refute others "$name"
		grep -q "^differs  $name " said
	done
	others line || true
	grep -q "sync: line 2: 'preloaded', natively 'native'" said
	others more || true
	grep -q 'sync: 2 lines, natively 1' said
	others status || true
	grep -q 'sync: exit 1, natively 0' said
	grep -q '^== sync: exit 1, 1 lines$' results/status.txt
}

@test "lines on which the native runs disagree do not count; if length or status disagree, the row is unsure" {
	setup_others
	program chance <<<'echo always; echo $run'
	program longer <<<'seq $run'
	program ending <<<'echo always; [ $run -gt 1 ]'
	program nothing <<<'echo $run'
	others chance
	grep -q '^equal    chance .*sync: 1 of 2 lines compared' said
	for name in longer ending nothing; do
		refute others "$name"
		grep -q "^unsure   $name " said
	done
}

@test "a row has the input files that it names" {
	setup_others
	echo 'inputs test exact head -n 2 $DATA/graph.txt $DATA/temp_512 $DATA/power_512x8' >table
	others
	grep -qE '^equal    inputs +sync: [0-9]+ of [0-9]+ lines compared' said
}

@test "a missing program, and one that reports that it cannot run here, are not run" {
	setup_others
	echo 'missing test exact $HERE/missing' >table
	program waived <<<'echo no device for this; exit 77'
	others
	grep -qE '^not run  missing +.*No such file' said
	grep -qE '^not run  waived +no device for this$' said
	grep -q ', 2 not run$' said
}

@test "rules: numbers in times, addresses and process numbers, the order of lines" {
	setup_others
	program times times <<<'echo "took $run ms, 4 elements"; echo 4 elements'
	program ids ids <<<'echo "at 0x$run of name_1$run"'
	program order order <<<'if [ $((run % 2)) = 0 ]; then echo a; echo b; else echo b; echo a; fi'
	program both order+times <<<'if [ $((run % 2)) = 0 ]; then echo a; echo $run ms; else echo $run ms; echo a; fi'
	for name in times order both; do
		others $name
		grep -qE "^equal    $name +sync: 2 of 2 lines" said
	done
	others ids
	grep -q '^equal .*sync: 1 of 1 lines' said
	program strict times <<<'echo $how elements'
	refute others strict
}

@test "a table with an unknown rule, and an unknown name, are refused" {
	setup_others
	echo 'a test whatever $HERE/a' >table
	run python3 bundle/others.py --table table programs results
	[ "$status" = 1 ]
	[ "$output" = "others: table: 'a test whatever \$HERE/a' is no row" ]
	run python3 bundle/others.py programs results nothing
	[ "$status" = 1 ]
	[[ $output == *"has no row nothing" ]]
}

@test "the table of the project: 40 samples, 10 programs of Rodinia, three test files of three packages" {
	setup_others
	[ "$(awk '!/^#/ {print $2}' bundle/others.txt | sort | uniq -c | tr -s ' \n' ' ')" = " 3 cuda 3 cupy 3 numba 10 rodinia 40 samples " ]
	[ -z "$(awk '!/^#/ {print $1}' bundle/others.txt | sort | uniq -d)" ]
}
