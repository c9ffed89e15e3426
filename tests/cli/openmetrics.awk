# SPDX-License-Identifier: BSD-3-Clause
# Checks gauges and counters of OpenMetrics 1.0. Names the first invalid line, and exits with 1.
function refuse(why) {
	print FILENAME ":" FNR ": " why ": " $0
	failed = 1
	exit 1
}
ended { refuse("behind # EOF") }
/^# EOF$/ { ended = 1; next }
/^# TYPE / {
	if ($0 !~ /^# TYPE [a-z_][a-z0-9_]* (gauge|counter)$/) refuse("no type")
	if ($3 in type) refuse("a family twice")
	if ($3 ~ /_total$/) refuse("a family ends in _total")
	type[family = $3] = $4
	next
}
/^# UNIT / {
	if (NF != 4 || $3 != family || $3 in unit || $3 in helped || $3 in sampled) refuse("a unit out of place")
	if ($3 !~ ("_" $4 "$")) refuse("the name does not end in its unit")
	unit[$3] = $4
	next
}
/^# HELP / {
	if ($3 != family || $3 in helped || $3 in sampled || NF < 4) refuse("a help out of place")
	if ($0 ~ /\\[^\\n"]/ || $0 ~ /\\$/) refuse("a wrong escape")
	helped[$3] = 1
	next
}
{
	if ($0 !~ /^[a-z_][a-z0-9_]*\{[a-z]+="([^"\\]|\\[\\n"])*"(,[a-z]+="([^"\\]|\\[\\n"])*")*\} [0-9]+(\.[0-9]+)?$/) refuse("no sample")
	name = $0
	sub(/\{.*/, "", name)
	if (name != family (type[family] == "counter" ? "_total" : "")) refuse("not of the family " family)
	key = $0
	sub(/ [0-9.]+$/, "", key)
	if (key in sample) refuse("a sample twice")
	sample[key] = sampled[family] = 1
	if (!(family in helped)) refuse("a family without help")
}
END {
	if (!failed && !ended) {
		print FILENAME ": no # EOF"
		exit 1
	}
}
