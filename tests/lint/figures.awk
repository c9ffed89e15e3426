# SPDX-License-Identifier: BSD-3-Clause
# awk -f figures.awk KEPT.csv... figures.txt README.md: print each measured figure of README that differs from
# the kept files, or is not in figures.txt. Measured figures: every number in the tables before README's first
# chapter; outside of code, every number with a unit listed in END, or behind natively, ratio or interval.

# Format a number as in README: 1,473.
function text(format, value,    s, head, tail, at) {
	s = sprintf(format, value)
	at = index(s, ".")
	head = at ? substr(s, 1, at - 1) : s
	tail = at ? substr(s, at) : ""
	while (head ~ /[0-9][0-9][0-9][0-9]/)
		sub(/[0-9][0-9][0-9](,|$)/, ",&", head)
	return head tail
}

# spec: SUITE CASE SIZE PEER COLUMN least|most|one SCALE FORMAT; "-" as SIZE or PEER: none; SIZE may be <=N.
function figure(spec,    p, i, n, value, found, best) {
	split(spec, p, " ")
	for (i = 1; i <= rows; i++) {
		if (suite[i] != p[1] || name[i] != p[2] || peer[i] != (p[4] == "-" ? "" : p[4]) || cell[i, p[5]] == "")
			continue
		if (p[3] ~ /^<=/ ? size[i] + 0 > substr(p[3], 3) + 0 : size[i] != (p[3] == "-" ? "" : p[3]))
			continue
		value = cell[i, p[5]] + 0
		best = !found || (p[6] == "least" ? value < best : p[6] == "most" ? value > best : 0) ? value : best
		found++
	}
	if (!found || (p[6] == "one" && found > 1)) {
		print "no row, or several: " spec
		return "?"
	}
	return text(p[8], best * p[7])
}

# Print each remaining match of `pattern`: phrases of figures.txt were removed from `string`.
function refuse(string, pattern) {
	gsub(/\n/, " ", string)
	while (match(string, pattern)) {
		print "not in figures.txt: " substr(string, RSTART > 20 ? RSTART - 20 : 1, 60)
		string = substr(string, RSTART + RLENGTH)
	}
}

FILENAME ~ /\.csv$/ {
	if (/^# driver: /)
		ran["driver " $3]
	if (/^# device: /)
		ran[$NF]
	if (/^#/)
		next
	n = split($0, part, ",")
	if (part[1] == "suite") {
		for (i = 1; i <= n; i++)
			column[i] = part[i]
		next
	}
	rows++
	suite[rows] = part[1]
	name[rows] = part[2]
	size[rows] = part[3]
	peer[rows] = part[7]
	for (i = 5; i <= n; i++)
		cell[rows, column[i]] = part[i]
	next
}

FILENAME ~ /figures\.txt$/ {
	if (/^#/ || !NF)
		next
	at = index($0, " <- ")
	phrases++
	phrase[phrases] = at ? substr($0, 1, at - 1) : $0
	n = at ? split(substr($0, at + 4), part, /, */) : 0
	for (i = 1; i <= n; i++)
		sub(/\{\}/, figure(part[i]), phrase[phrases])
	next
}

/^## / {in_chapter = 1}
/^\|/ && !in_chapter {
	if (!/^\|-/)
		table = table "\n" $0
	next
}
/^    / {next}
{
	sub(/^ +/, "")
	prose = prose " " $0
}

END {
	if (rows < 100 || phrases < 5 || prose == "" || split(table, part, "\n") < 10)
		print "nothing to compare"
	for (where in ran)
		if (!index(table, where))
			print "README's table does not say: " where
	for (i = 1; i <= phrases; i++) {
		if ((at = index(table, phrase[i])))
			table = substr(table, 1, at - 1) "#" substr(table, at + length(phrase[i]))
		else if ((at = index(prose, phrase[i])))
			prose = substr(prose, 1, at - 1) "#" substr(prose, at + length(phrase[i]))
		else
			print "README does not say: " phrase[i]
	}
	refuse(table, "[0-9][0-9.,]*")
	refuse(prose, "[0-9][0-9.,]* (ns|us|ms|million|billion|times|GB/s|pairs)([^A-Za-z]|$)")
	refuse(prose, "(natively|ratio|interval) [0-9][0-9.,]*")
}
