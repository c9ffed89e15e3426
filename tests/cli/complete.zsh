# SPDX-License-Identifier: BSD-3-Clause
# complete.zsh FILE WORDS: print the completions that FILE's function offers at the end of `gpumemstat WORDS`,
# one a line. The completion system runs in a terminal of its own, as a widget that ends its shell. Marks are
# written in two parts, so that the echo of the typed text has no mark.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT= PS2=; unset zle_bracketed_paste; stty columns 1000 -echo; autoload -U compinit; compinit -u -D; source ${(q)1}"
zpty -w shell 'compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then builtin compadd "$@"; return; fi
	local -a __hits; typeset -g -a offered
	builtin compadd -A __hits "$@"; offered+=($__hits); builtin compadd "$@"
}
show() { offered=(); LISTMAX=0 zle complete-word; print; print -r -- "<""<<"; print -rl -- $offered; print -r -- ">"">>"; exit }
zle -C complete-word complete-word _main_complete; zle -N show; bindkey "^T" show; print re""ady'
zpty -r -m shell line '*ready*'
zpty -w -n shell "gpumemstat $2"$'\C-t'
zpty -r -m shell line '*>>>*'
print -r -- "${${line##*<<<}%%>>>*}" | tr -d '\r' | sed '/^$/d'
