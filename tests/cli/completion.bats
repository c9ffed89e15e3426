#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# The bash completion offers what --help lists, no more and no less.
source "$BATS_TEST_DIRNAME/cli.bash"

# offers WORD...: what is offered at the end of these words, one a line, sorted.
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

@test "completion offers every command" {
	offers '' >offered
	"$TOOL" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | sort | diff - offered
}

@test "completion offers the options of every command" {
	for command in $(offers ''); do
		"$TOOL" $command --help | sed -n '/^Options:/,/^$/p' >help
		{ sed -n 's/^ *\(-[a-zA-Z]\)[, ].*/\1/p' help
			grep -oE '^ +(-[a-zA-Z],)? *--[a-z-]+=?' help | grep -oE -e '--[a-z-]+=?'; } | sort -u >listed
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
	[ "$(wc -l <offered)" -eq 6 ]
	knobs=$("$TOOL" env --json | jq -r '.knobs[].name + "="' | sort)
	[ "$(offers run -e '')" = "$knobs" ]
}

@test "completion offers logs" {
	touch one.gml two.gml.1 other
	[ "$(offers summary '' | tr '\n' ' ')" = 'one.gml two.gml.1 ' ]
	offers one | grep -qx one.gml
	touch three.csv four.csv.gz five.gz
	[ "$(offers replay '' | tr '\n' ' ')" = 'four.csv.gz one.gml three.csv two.gml.1 ' ]
}
