# SPDX-License-Identifier: BSD-3-Clause
# awk -f titles.awk titles.txt FILE...: print the place and title of each check of tests/tap.h, and of each
# @test of bats, that begins with words of titles.txt or has fewer than three. A prefix of conversions, as in
# "%s, %u: ", is no part of a title. Titles that a function gets as an argument are not seen.

function judge(title, line,    rest, n, word) {
	rest = title
	sub(/^(%[a-z]+, )*%[a-z]+: /, "", rest)
	if (rest == "" || rest == "%s")
		return
	n = split(tolower(rest), word, " ")
	gsub(/[^a-z0-9]+$/, "", word[1])
	if (n < 3 || word[1] in forbidden || (word[1] " " word[2]) in forbidden)
		print FILENAME ":" line ": \"" title "\""
}

# The next part of a title, which may be several strings and macros side by side. Of x ? "a" : "b" each is a
# title.
function take(text, is_string) {
	if (argument != title_at)
		return
	if (is_string && !has_string)
		begins = FNR
	has_string = has_string || is_string
	title = title text
}

function end_title() {
	if (has_string)
		judge(title, begins)
	has_string = 0
	title = ""
}

# Read `code` of a call up to its end. Returns the text behind it, or "" if the call goes on in the next line.
function read_call(code,    c) {
	while (code != "") {
		if (match(code, /^"([^"\\]|\\.)*"/)) {
			take(substr(code, 2, RLENGTH - 2), 1)
		} else if (match(code, /^[A-Za-z_0-9#]+/)) {
			take(substr(code, 1, RLENGTH), 0)
		} else if (match(code, /^('([^'\\]|\\.)+'|\/\*([^*]|\*[^\/])*\*\/|[^A-Za-z_0-9#"'(){}\[\],?:\/]+)/)) {
			;
		} else {
			RLENGTH = 1
			c = substr(code, 1, 1)
			if (c ~ /[({\[]/)
				depth++
			else if (c ~ /[)}\]]/)
				depth--
			else if (c == "," && depth == 1)
				argument++
			if (c ~ /[,?:]/ && depth == 1 || depth == 0)
				end_title()
		}
		code = substr(code, RLENGTH + 1)
		if (depth == 0)
			return code
	}
	return ""
}

FILENAME ~ /titles\.txt$/ {
	if ($0 !~ /^#/ && NF)
		forbidden[$0] = 1
	next
}

FNR == 1 {depth = 0}

/^@test "/ {
	match($0, /^@test "([^"\\]|\\.)*"/)
	judge(substr($0, 8, RLENGTH - 8), FNR)
	next
}

{
	code = $0
	if (depth)
		code = read_call(code)
	while (match(code, /TAP_(OK|IS|STR|PTR)\(/)) {
		title_at = substr(code, RSTART, RLENGTH) == "TAP_OK(" ? 1 : 2
		argument = has_string = 0
		title = ""
		depth = 1
		code = read_call(substr(code, RSTART + RLENGTH))
	}
}
