#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# build.sh FOLDER OUT NVCC...: fetch the allocators of peers.txt into FOLDER, which is outside of the project, unless their
# repositories are there already; check out their commits, and build OUT/fresh-NAME of each by the command
# NVCC. An allocator that cannot be fetched or built is named and left out: then the exit status is 1.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 3 ]; then
	sed -n 's/^# build.sh/usage: build.sh/p' "$0" | sed 's/: fetch.*//' >&2
	exit 2
fi
folder=$1 out=$2 status=0
shift 2
mkdir -p "$folder" || exit 2

fail() {
	echo "peers: $*" >&2
	status=1
}

while read -r name repository commit include adapter flags; do
	case $name in '' | \#*) continue ;; esac
	copy=$folder/$(basename "$repository")-${commit:0:12}
	if [ ! -e "$copy/.fetched" ]; then
		rm -rf "$copy"
		git clone --quiet "${GPUMEM_PEERS_FROM:-$(dirname "$repository")}/$(basename "$repository")" "$copy" &&
			git -C "$copy" checkout --quiet "$commit" && touch "$copy/.fetched" || {
			fail "$name: $repository cannot be fetched at $commit"
			continue
		}
	fi
	# shellcheck disable=SC2086 # several flags
	"$@" $flags -I"$copy/$include" -DFRESH_PEER="\"tests/bench/peers/$adapter\"" "$here/../fresh.cu" -o "$out/fresh-$name" \
		>"$out/fresh-$name.log" 2>&1 || {
		fail "$name does not build: $(grep -m 1 error "$out/fresh-$name.log")"
		continue
	}
	rm -f "$out/fresh-$name.log"
done <"$here/peers.txt"
exit $status
