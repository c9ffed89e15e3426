# SPDX-License-Identifier: BSD-3-Clause
# fish completion of gpumemstat, from the tables that `gpumemstat --completions` prints.

function __gpumemstat_commands
	gpumemstat --completions 2>/dev/null | string match -r '^command\t.*' | string split -f 2 \t
end

# True: $argv[1] is the command of the line. A line without a command is one of summary.
function __gpumemstat_is
	set -l words (commandline -opc)
	set -l command summary
	test (count $words) -gt 1; and contains -- $words[2] help (__gpumemstat_commands); and set command $words[2]
	test $command = $argv[1]
end

function __gpumemstat_first
	test (count (commandline -opc)) -eq 1
end

# True: the line is `gpumemstat help`, and has no further word.
function __gpumemstat_help
	set -l words (commandline -opc)
	test (count $words) -eq 2; and test $words[2] = help
end

# KNOB=VALUE for each value; KNOB= for a knob without a list of values.
function __gpumemstat_knobs
	for row in (gpumemstat --completions 2>/dev/null | string match -r '^knob\t.*')
		set -l fields (string split \t -- $row)
		set -l found 0
		for value in (string split ' ' -- $fields[3])
			string match -q -r '^(@.*|-)$' -- $value; or begin
				printf '%s=%s\n' $fields[2] $value
				set found 1
			end
		end
		test $found = 1; or printf '%s=\n' $fields[2]
	end
end

function __gpumemstat_counters
	gpumemstat --completions 2>/dev/null | string replace -rf '^counter\t([^\t]*)\t(.*)' '$1=\t$2'
end

function __gpumemstat_logs
	__fish_complete_suffix .gml
end

complete -c gpumemstat -f
for row in (gpumemstat --completions 2>/dev/null)
	set -l fields (string split \t -- $row)
	switch $fields[1]
		case command
			complete -c gpumemstat -n __gpumemstat_first -a $fields[2] -d $fields[4]
			complete -c gpumemstat -n __gpumemstat_help -a $fields[2] -d $fields[4]
			switch $fields[3]
				case log trace
					complete -c gpumemstat -n "__gpumemstat_is $fields[2]" -k -a '(__gpumemstat_logs)'
				case file
					complete -c gpumemstat -n "__gpumemstat_is $fields[2]" -F
				case program
					complete -c gpumemstat -n "__gpumemstat_is $fields[2]" -a '(__fish_complete_subcommand --fcs-skip=2)'
			end
		case option
			set -l option -c gpumemstat -n "__gpumemstat_is $fields[2]" -d $fields[7]
			test $fields[3] = -; or set -a option -s $fields[3]
			test $fields[4] = -; or set -a option -l $fields[4]
			switch $fields[6]
				case '@file'
					set -a option -r -F
				case '@knob'
					set -a option -x -a '(__gpumemstat_knobs)'
				case '@counter'
					set -a option -x -a '(__gpumemstat_counters)'
				case '@list *'
					set -l words (string replace '@list ' '' -- $fields[6] | string split ' ')
					set -a option -x -a "(__fish_append , $words)"
				case -
					test $fields[5] = -; or set -a option -x
				case '*'
					set -a option -x -a $fields[6]
			end
			complete $option
	end
end
