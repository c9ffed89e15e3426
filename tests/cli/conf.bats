#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The file /etc/gpumem.conf, which GPUMEM_TEST_CONF replaces here: its settings, and messages about bad files.
source "$BATS_TEST_DIRNAME/cli.bash"
source "$BATS_TEST_DIRNAME/knobs.bash"

# conf LINE...: write the file.
conf() {
	export GPUMEM_TEST_CONF=$BATS_TEST_TMPDIR/gpumem.conf
	printf "%s\n" "$@" >"$GPUMEM_TEST_CONF"
	chmod 644 "$GPUMEM_TEST_CONF" # whatever the umask
}

# source_of KNOB: "VALUE SOURCE" of `gpumemstat env`.
source_of() {
	"$TOOL" env --json | jq -r --arg name "$1" '.knobs[] | select(.name == $name) | .value + " " + .source'
}

@test "the file sets knobs, and the environment wins" {
	native=$("$DEMO" 3)
	conf '# of this machine' '' $' GPUMEM_LIMIT\t=  75% \t' 'GPUMEM_MODE=pool' 'GPUMEM_MODE=trace' 'GPUMEM_LOG_NAME = from file.gml' \
		$'GPUMEM_TRIM_AFTER=1s\r'
	unharmed ''
	"$TOOL" --json 'from file.gml' >json
	jq -e '.logs[0].mode == "trace"' json
	[ "$(source_of GPUMEM_LIMIT)" = '75% file' ]
	[ "$(source_of GPUMEM_MODE)" = 'trace file' ]
	[ "$(source_of GPUMEM_TRIM_AFTER)" = '1s file' ]
	[ "$(source_of GPUMEM_PREWARM)" = '2M default' ]
	unharmed '' GPUMEM_MODE=pool GPUMEM_LOG_NAME=other.gml
	"$TOOL" --json other.gml >json
	jq -e '.logs[0].mode == "pool"' json
	[ "$(GPUMEM_MODE=pool source_of GPUMEM_MODE)" = 'pool environment' ]
	# The log has the source of each value.
	conf
	"$TOOL" env --json other.gml >json
	jq -e '[.knobs[] | select(.name == "GPUMEM_LIMIT" or .name == "GPUMEM_MODE") | .value + " " + .source] ==
		["75% file", "pool environment"]' json
	"$TOOL" other.gml | grep -q '^GPU .*GPUMEM_LIMIT=75%'
}

@test "the last line needs no newline, and an empty file sets nothing" {
	native=$("$DEMO" 3)
	conf
	printf 'GPUMEM_LOG=off' >"$GPUMEM_TEST_CONF"
	unharmed ''
	[ -z "$(find . -name '*.gml')" ]
	: >"$GPUMEM_TEST_CONF"
	unharmed '' GPUMEM_LOG_NAME=small.gml
	[ -f small.gml ]
	rm "$GPUMEM_TEST_CONF"
	unharmed '' GPUMEM_LOG=off
	GPUMEM_TEST_CONF=$GPUMEM_TEST_CONF/x unharmed '' GPUMEM_LOG=off
}

@test "the mark that some editors put at the start of UTF-8 text is no part of the first line" {
	native=$("$DEMO" 3)
	conf $'\xef\xbb\xbfGPUMEM_LOG=off' 'GPUMEM_MODE=trace'
	unharmed ''
	[ "$(source_of GPUMEM_LOG)" = 'off file' ]
	[ "$(source_of GPUMEM_MODE)" = 'trace file' ]
	printf '\xef\xbb\xbf' >"$GPUMEM_TEST_CONF"
	unharmed '' GPUMEM_LOG=off
}

@test "each bad line is named with file, line and reason, and the program is unharmed" {
	native=$("$DEMO" 3)
	conf 'GPUMEM_LOG=off' 'GPUMEM_MODE=fast' 'GPUMEM_LIMIT 20G' '=1'
	unharmed "gpumem: $GPUMEM_TEST_CONF:2: GPUMEM_MODE=fast: expected one of pool, trace; the line is ignored
gpumem: $GPUMEM_TEST_CONF:3: GPUMEM_LIMIT 20G: expected NAME=VALUE; the line is ignored
gpumem: $GPUMEM_TEST_CONF:4:  is not a knob; see gpumem-knobs(7); the line is ignored"
	[ "$(source_of GPUMEM_MODE 2>/dev/null)" = 'pool default, refused' ]
	conf 'GPUMEM_MODES=pool' 'GPUMEM_LOG=off' $'GPUMEM_MODE=\e[31m' "GPUMEM_LIMIT=$LONG"
	unharmed "gpumem: $GPUMEM_TEST_CONF:1: GPUMEM_MODES is not a knob; did you mean GPUMEM_MODE?; the line is ignored
gpumem: $GPUMEM_TEST_CONF:3: GPUMEM_MODE=\\x1b[31m: expected one of pool, trace; the line is ignored
gpumem: $GPUMEM_TEST_CONF:4: GPUMEM_LIMIT=$(shown_value "$LONG"): expected at most 4095 bytes; the line is ignored"
	conf 'GPUMEM_LOG=off' a b c d e
	unharmed "gpumem: $GPUMEM_TEST_CONF:2: a: expected NAME=VALUE; the line is ignored
gpumem: $GPUMEM_TEST_CONF:3: b: expected NAME=VALUE; the line is ignored
gpumem: $GPUMEM_TEST_CONF:4: c: expected NAME=VALUE; the line is ignored
gpumem: $GPUMEM_TEST_CONF: 2 more bad lines"
	"$TOOL" env >/dev/null 2>err
	[ "$(sed 's/^gpumemstat/gpumem/' err)" = "$(GPUMEM_LOG=off LD_PRELOAD=$PRELOAD "$DEMO" 3 2>&1 >/dev/null)" ]
	unharmed '' GPUMEM_VERBOSE=0
}

@test "a bad value of the environment leaves the file's, a bad line leaves an earlier good one" {
	native=$("$DEMO" 3)
	conf 'GPUMEM_LOG=off' 'GPUMEM_MODE=trace'
	unharmed 'gpumem: GPUMEM_MODE=fast: expected one of pool, trace; using trace' GPUMEM_MODE=fast
	[ "$(GPUMEM_MODE=fast source_of GPUMEM_MODE 2>/dev/null)" = 'trace file, refused' ]
	unharmed 'gpumem: GPUMEM_MODE=fast: expected one of pool, trace; using trace' GPUMEM_MODE=fast GPUMEM_LOG=small GPUMEM_LOG_NAME=bad.gml
	"$TOOL" env --json bad.gml | jq -e '.knobs[] | select(.name == "GPUMEM_MODE") | .value == "trace" and .source == "file; refused: fast"'
	conf 'GPUMEM_LOG=off' 'GPUMEM_MODE=trace' 'GPUMEM_MODE=fast'
	[ "$(source_of GPUMEM_MODE 2>/dev/null)" = 'trace file' ]
}

@test "GPUMEM_ENABLE=0 in the file leaves gpumem off" {
	native=$("$DEMO" 3)
	conf 'GPUMEM_ENABLE=0'
	unharmed ''
	[ -z "$(find . -name '*.gml')" ]
}

@test "a file that is untrusted, too large, not text or no regular file is ignored, in one line" {
	native=$("$DEMO" 3)
	conf 'GPUMEM_MODE=trace'
	ignored() {
		unharmed "gpumem: $GPUMEM_TEST_CONF: $1; the file is ignored" GPUMEM_LOG=off
		[ "$(source_of GPUMEM_MODE 2>err)" = 'pool default' ]
		[ "$(<err)" = "gpumemstat: $GPUMEM_TEST_CONF: $1; the file is ignored" ]
	}
	chmod 666 "$GPUMEM_TEST_CONF"
	ignored 'others than its owner may write to it'
	chmod 664 "$GPUMEM_TEST_CONF"
	ignored 'others than its owner may write to it'
	chmod 644 "$GPUMEM_TEST_CONF"
	[ "$(source_of GPUMEM_MODE)" = 'trace file' ]
	if [ "$(id -u)" = 0 ]; then
		chown 65533 "$GPUMEM_TEST_CONF"
		ignored 'its owner is not root'
		chown 0 "$GPUMEM_TEST_CONF"
	fi
	printf 'GPUMEM_MODE=trace\n\0' >"$GPUMEM_TEST_CONF"
	ignored 'not text'
	echo GPUMEM_MODE=trace >"$GPUMEM_TEST_CONF"
	head -c $((65536 - 18)) /dev/zero | tr '\0' '#' >>"$GPUMEM_TEST_CONF"
	[ "$(wc -c <"$GPUMEM_TEST_CONF")" -eq 65536 ]
	[ "$(source_of GPUMEM_MODE)" = 'trace file' ]
	echo >>"$GPUMEM_TEST_CONF"
	ignored 'larger than 64 KiB'
	truncate -s 1T "$GPUMEM_TEST_CONF"
	ignored 'larger than 64 KiB'
	rm "$GPUMEM_TEST_CONF"
	mkfifo "$GPUMEM_TEST_CONF"
	ignored 'not a regular file'
	rm "$GPUMEM_TEST_CONF"
	mkdir "$GPUMEM_TEST_CONF"
	ignored 'not a regular file'
	rmdir "$GPUMEM_TEST_CONF"
	ln -s gpumem.conf "$GPUMEM_TEST_CONF"
	ignored 'Too many levels of symbolic links'
}

@test "a file that the user cannot read is ignored, in one line" {
	[ "$(id -u)" -ne 0 ] || skip "root reads every file"
	native=$("$DEMO" 3)
	conf 'GPUMEM_MODE=trace'
	chmod 0 "$GPUMEM_TEST_CONF"
	unharmed "gpumem: $GPUMEM_TEST_CONF: Permission denied; the file is ignored" GPUMEM_LOG=off
}

@test "a program that does not use CUDA never opens the file" {
	conf x
	[ -z "$(LD_PRELOAD=$PRELOAD true 2>&1)" ]
	LD_PRELOAD=$PRELOAD "$DEMO" 3 2>&1 >/dev/null | grep -q ':1: x: expected NAME=VALUE'
}

@test "a set-group-ID program reads no file" {
	[ "$(id -u)" -eq 0 ] || skip "takes root"
	[ -z "$SANITIZE_LIB" ] || skip "a sanitizer is not for such programs"
	[ -z "$TEST_UNDER" ] || skip "valgrind does not run such programs"
	conf 'GPUMEM_MODE=trace'
	cp "$TOOL" tool
	chgrp 65534 tool
	TOOL=$PWD/tool
	[ "$(source_of GPUMEM_MODE)" = 'trace file' ]
	chmod 2755 tool
	[ "$(source_of GPUMEM_MODE)" = 'pool default' ]
}

@test "gpumemstat record writes the log to the file's GPUMEM_LOG_NAME" {
	conf "GPUMEM_LOG_NAME=$BATS_TEST_TMPDIR/kept.gml" 'GPUMEM_LOG=off'
	"$TOOL" record -- "$DEMO" 3 >/dev/null
	[ -f kept.gml ]
	"$TOOL" env --json $$ | jq -e '.knobs[] | select(.name == "GPUMEM_LOG") | .source == "file"'
}

@test "doctor reads the file" {
	conf 'GPUMEM_ENABLE=0' 'GPUMEM_KEEP=1G'
	status=0
	"$TOOL" doctor --json >out || status=$?
	[ "$status" -eq 1 ]
	jq -e --arg conf "$GPUMEM_TEST_CONF" '[.checks[] | select(.check == "knobs").text] ==
		["\($conf):2: GPUMEM_KEEP is not a knob any more; GPUMEM_TRIM_AFTER=TIME,SIZE replaces it",
		 "GPUMEM_ENABLE=0 in \($conf): nothing is hooked"]' out
	conf 'GPUMEM_LIMIT=50%'
	GPUMEM_LIMIT=much "$TOOL" doctor --json >out
	jq -e '[.checks[] | select(.check == "knobs") | .text + "|" + .remedy] | .[0] | startswith("GPUMEM_LIMIT=much: expected ") and endswith("|The file\u0027s value is used.")' out
	chmod 666 "$GPUMEM_TEST_CONF"
	"$TOOL" doctor --json >out
	jq -e '.checks | any(.check == "knobs" and (.text | endswith(": others than its owner may write to it")))' out
}
