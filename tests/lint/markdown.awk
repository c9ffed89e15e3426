# SPDX-License-Identifier: BSD-3-Clause
# awk -f markdown.awk FILE.md...: print lines of more than 110 columns, and paragraphs of more than 120 words.
# An item of a list is a paragraph; code is none. Tables are exempt.

function end_paragraph() {
	if (words > 120)
		print name ":" begins ": a paragraph of " words " words"
	words = 0
}

FNR == 1 {
	end_paragraph()
	name = FILENAME
	fenced = 0
	blank = 1
}

/^[ \t]*```/ {
	end_paragraph()
	fenced = !fenced
	blank = 0
	next
}

# Code: between fences, or indented behind a blank line or other code.
fenced || (/^(    |\t)/ && (blank || code)) {
	code = 1
	blank = 0
	if (length($0) > 110)
		print name ":" FNR ": " length($0) " columns"
	next
}

{
	code = 0
	blank = /^[ \t]*$/
	if (blank || /^[|#]/) {
		end_paragraph()
		if (/^#/ && length($0) > 110)
			print name ":" FNR ": " length($0) " columns"
		next
	}
	if (/^[ \t]*([-*+]|[0-9]+\.)[ \t]/)
		end_paragraph()
	if (!words)
		begins = FNR
	words += NF
	if (length($0) > 110)
		print name ":" FNR ": " length($0) " columns"
}

END {end_paragraph()}
