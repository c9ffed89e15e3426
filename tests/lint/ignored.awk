# SPDX-License-Identifier: BSD-3-Clause
# Print the place and text of each statement with a failure that bash, and so bats, ignores under `set -e`:
# `! command`, and each part of `a && b` except the last. A statement at the end of a function or subshell is
# exempt, because it gives the status. Input: output of bash's `declare -f`, with each statement on lines of
# its own (ignored.sh).

BEGIN { depth = blocks = 0 }

function top() { return substr(open, length(open)) }
function push(c) { open = open c }
function pop() { open = substr(open, 1, length(open) - 1) }

# True: the failure of the list `s` is ignored. It ends in an inverted command, or has && without a later ||.
function is_ignored(s,    n, part) {
	sub(/[;& ]+$/, "", s)
	if (s ~ /^(if|elif|while|until) /)
		return 0
	n = split(s, part, /&&|\|\|/)
	return part[n] ~ /^ *! / || s ~ /&&/ && s !~ /\|\|[^&]*$/
}

function judge(d) {
	if (waits[d] != "")
		print at[d] ": " waits[d]
	waits[d] = ""
}

# Judge a complete statement. `text` is the statement; `code` is `text` without quoted text, substitutions and
# [[ ]].
function complete(ends_subshell) {
	gsub(/^[ \t]+|[ \t]+$/, "", code)
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	if (code ~ /^}/ && kind[blocks] == "function")
		waits[depth] = ""
	judge(depth)
	if (code ~ /^}/)
		blocks--
	if (code ~ /\{$/) {
		kind[++blocks] = header == "" ? "group" : "function"
		name[blocks] = header == "" ? name[blocks - 1] : header
	}
	header = ""
	if (code ~ / \(\)$/) {
		header = code
		gsub(/^function | \(\)$/, "", header)
	}
	if (!ends_subshell && is_ignored(code)) {
		waits[depth] = text
		at[depth] = file ":" (name[blocks] ~ /^test_[0-9]+$/ ? substr(name[blocks], 6) : " " name[blocks])
	}
	code = text = ""
}

function here_document(rest,    word) {
	match(rest, /^<<-?[ ]*[^ ;)|&<>]+/)
	word = substr(rest, 3, RLENGTH - 2)
	n_here++
	tabs[n_here] = sub(/^-/, "", word)
	gsub(/['"\\ ]/, "", word)
	ends[n_here] = word
}

function eat(n) {
	text = text substr($0, i, n)
	i += n
}

function scan(    c, two, three, t) {
	for (i = 1; i <= length($0);) {
		c = substr($0, i, 1)
		two = substr($0, i, 2)
		three = substr($0, i, 3)
		t = top()
		if (c == "\\" && t != "'") {
			eat(2)
		} else if (t == "'" || t == "A") {
			if (c == "'")
				pop()
			eat(1)
		} else if (three == "$((") {
			push("aa")
			eat(3)
		} else if (two == "$(") {
			push(")")
			eat(2)
		} else if (two == "${") {
			push("}")
			eat(2)
		} else if (c == "\"") {
			if (t == "\"")
				pop()
			else
				push("\"")
			eat(1)
		} else if (t == "\"") {
			eat(1)
		} else if (t == "}") {
			if (c == "}")
				pop()
			eat(1)
		} else if (two == "$'") {
			push("A")
			eat(2)
		} else if (c == "'") {
			push("'")
			eat(1)
		} else if (t == "a") {
			if (c == "(")
				push("a")
			else if (c == ")")
				pop()
			eat(1)
		} else if (t == "]") {
			if (three == " ]]") {
				pop()
				eat(3)
			} else {
				eat(1)
			}
		} else if (three == "<<<") {
			eat(3)
		} else if (two == "<<") {
			here_document(substr($0, i))
			eat(2)
		} else if (two == "<(" || two == ">(") {
			push(")")
			eat(2)
		} else if (t == ")") {
			if (c == "(")
				push(")")
			else if (c == ")")
				pop()
			eat(1)
		} else if (three == "[[ ") {
			push("]")
			eat(3)
		} else if (two == "()") {
			code = code two
			eat(2)
		} else if (two == "((") {
			push("aa")
			eat(2)
		} else if (two == "( ") {
			# The statements of a subshell are judged like others.
			outer_code[depth] = code
			outer_text[depth] = text "( "
			depth++
			code = text = ""
			i += 2
		} else if (c == "(") {
			push(")")
			eat(1)
		} else if (two == " )" && depth) {
			complete(1)
			judge(depth--)
			code = outer_code[depth] "()"
			text = outer_text[depth] "... )"
			i += 2
		} else {
			code = code c
			eat(1)
		}
	}
}

{
	if (n_here) {
		line = $0
		if (tabs[1])
			sub(/^\t+/, "", line)
		if (line == ends[1]) {
			for (h = 1; h < n_here; h++) {
				tabs[h] = tabs[h + 1]
				ends[h] = ends[h + 1]
			}
			n_here--
		}
		next
	}
	scan()
	if (open == "")
		complete(0)
	else
		text = text " "
}

END {
	if (NR == 0 || open != "" || depth || n_here || blocks)
		print file ": ignored.awk cannot read this"
}
