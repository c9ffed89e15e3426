#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The completions of bash, zsh and fish offer exactly the words of --help.
source "$BATS_TEST_DIRNAME/cli.bash"

# offers WORD...: bash's completions at the end of these words, one a line, sorted.
offers() {
	(
		set +eu
		source "$BATS_TEST_DIRNAME/../../completions/gpumemstat"
		PATH=$(dirname "$TOOL"):$PATH
		COMP_WORDS=(gpumemstat "$@") COMP_CWORD=$#
		_gpumemstat 2>/dev/null
		printf '%s\n' "${COMPREPLY[@]}" | sort
	)
}

listed_commands() {
	"$TOOL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort
}

# listed_options COMMAND: the options in --help, long ones with an argument ending in "=".
listed_options() {
	"$TOOL" $1 --help | sed -n '/^Options:/,/^$/p' >help
	{ sed -n 's/^ *\(-[a-zA-Z]\)[, ].*/\1/p' help
		grep -oE '^ +(-[a-zA-Z],)? *--[a-z-]+=?' help | grep -oE -e '--[a-z-]+=?'; } | sort -u
}

@test "completion offers every command" {
	offers '' >offered
	listed_commands | diff - offered
}

@test "completion offers every command behind help, and nothing behind that" {
	touch one.gml
	offers help '' >offered
	listed_commands | diff - offered
	[ "$(offers help su)" = summary ]
	[ "$(offers help summary '')" = '' ]
}

@test "completion offers the options of every command" {
	for command in $(listed_commands); do
		listed_options $command >listed
		[ -s listed ]
		offers $command - | diff listed - || { echo "$command"; return 1; }
	done
	offers --w | grep -qx -e '--width='
}

@test "completion offers the values of options" {
	for option in units color sort; do
		offers summary --$option = '' >offered
		[ "$(wc -l <offered)" -ge 3 ]
		while read -r value; do
			"$TOOL" summary --$option=$value --help >out || { echo "--$option=$value"; return 1; }
		done <offered
	done
	for value in $(offers replay --policy = ''); do
		echo "$value"
		"$TOOL" replay --policy=$value --help >out || { echo "--policy=$value"; return 1; }
	done >offered
	[ "$(wc -l <offered)" -eq 10 ]
	[ "$(offers replay --policy = pool,p | tr '\n' ' ')" = "$(printf 'pool,%s ' pool pool-defer pool-ordered pytorch pytorch-pool)" ]
	[ "$(offers map --at = '' | tr '\n' ' ')" = 'exit oom peak ' ]
}

@test "completion offers knobs and their values" {
	knobs=$("$TOOL" env --json | jq -r '.knobs[].name + "="' | sort)
	[ "$(offers run -e '')" = "$knobs" ]
	[ "$(offers record -e GPUMEM_FREE = '' | tr '\n' ' ')" = 'defer ordered sync ' ]
	[ "$(offers record -e GPUMEM_LOG = s)" = small ]
	[ "$(offers record -e GPUMEM_LOG_EVENTS = free,m | tr '\n' ' ')" = 'free,map free,mark free,module ' ]
	[ "$(offers record -e GPUMEM_LIMIT = '')" = '' ]
}

@test "completion offers logs, folders and files" {
	touch one.gml two.gml.1 other
	mkdir logs
	[ "$(offers summary '' | tr '\n' ' ')" = 'logs one.gml two.gml.1 ' ]
	offers one | grep -qx one.gml
	touch three.csv four.csv.gz five.gz
	[ "$(offers replay '' | tr '\n' ' ')" = 'four.csv.gz logs one.gml three.csv two.gml.1 ' ]
	[ "$(offers record -o '' | tr '\n' ' ')" = 'five.gz four.csv.gz logs one.gml other three.csv two.gml.1 ' ]
}

@test "the table of completions equals --help" {
	"$TOOL" --completions >table
	[ "$(sed -n 's/^command\t\([a-z]*\)\t.*/\1/p' table | sort)" = "$(listed_commands)" ]
	for command in $(listed_commands); do
		awk -F'\t' -v c=$command '$1 == "option" && $2 == c {
			if ($3 != "-") print "-" $3
			if ($4 != "-") print "--" $4 ($5 != "-" ? "=" : "") }' table | sort -u >rows
		listed_options $command | diff - rows
	done
	# No field is empty: shells treat tabs as blanks.
	refute grep -nE $'\t(\t|$)' table
}

# zsh_offers WORD...: zsh's completions at the end of these words.
zsh_offers() {
	PATH=$(dirname "$TOOL"):$PATH zsh -f "$BATS_TEST_DIRNAME/complete.zsh" "$BATS_TEST_DIRNAME/../../completions/_gpumemstat" "$*" | sort -u
}

@test "zsh offers commands, options and values" {
	command -v zsh >/dev/null || skip "no zsh"
	listed_commands >commands
	zsh_offers '' | grep -xF -f commands | diff commands -
	touch one.gml
	zsh_offers help '' | diff commands -
	for command in $(listed_commands); do
		listed_options $command | sed 's/=$//' | sort -u >listed
		{ zsh_offers $command --; zsh_offers $command - | grep -E '^-[^-]'; } | sed 's/=$//' | sort -u | diff listed - || { echo "$command"; return 1; }
	done
	[ "$(zsh_offers map --at= | tr '\n' ' ')" = 'exit oom peak ' ]
	[ "$(zsh_offers record -e GPUMEM_FREE= | tr '\n' ' ')" = 'defer ordered sync ' ]
}

# fish_offers TEXT: fish's completions at the end of the text.
fish_offers() {
	PATH=$(dirname "$TOOL"):$PATH HOME=$PWD XDG_CONFIG_HOME=$PWD XDG_DATA_HOME=$PWD fish --no-config \
		-c 'source $argv[1]; complete -C $argv[2]' "$BATS_TEST_DIRNAME/../../completions/gpumemstat.fish" "$1" | cut -f 1 | sort -u
}

@test "fish offers commands, options and values" {
	command -v fish >/dev/null || skip "no fish"
	listed_commands >commands
	fish_offers 'gpumemstat ' | grep -xF -f commands | diff commands -
	touch one.gml
	fish_offers 'gpumemstat help ' | diff commands -
	for command in $(listed_commands); do
		listed_options $command | sed 's/=$//' | sort -u >listed
		{ fish_offers "gpumemstat $command --"; fish_offers "gpumemstat $command -" | grep -E '^-[^-]'; } | sed 's/=$//' | sort -u |
			diff listed - || { echo "$command"; return 1; }
	done
	[ "$(fish_offers 'gpumemstat map --at=' | tr '\n' ' ')" = '--at=exit --at=oom --at=peak ' ]
	fish_offers 'gpumemstat record -e GPUMEM_FREE=' | grep -x 'GPUMEM_FREE=defer'
}
