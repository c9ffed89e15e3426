#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-3-Clause
# dyngraph on the simulated driver and the emulation of lanes: after random updates the three layouts equal
# the CPU's graph, and their structure is valid; algorithms; generators and files; natively and preloaded; out
# of memory; options.

setup() {
	. "$BATS_TEST_DIRNAME/programs.bash"
	program dyngraph
}

LAYOUTS=aim,faim,malloc
POLICIES=bump,granule,kma,ouro-s-p,ouro-s-c,ouro-va-p,ouro-va-c,ouro-vl-p,ouro-vl-c,rw,rw-bm,corw

@test "after 100000 random updates each layout is the CPU's graph, and no page is lost or owned twice" {
	# 25 insertions and 25 deletions of 2000 edges, each compared with the CPU's graph. Half of the 16256
	# possible edges exist on average, so half of an insertion is duplicates, and half of a deletion does not
	# find its edge. After each round the blocks of aim and faim grow by a twentieth.
	"$PROGRAM" -w $LAYOUTS --edges=1500 -b 2000 --rounds=25 --delete=random -p uniform --update=vertices,edges,sorted --reinit=move \
		--verify --untimed >out
	[ "$(values way out | paste -sd' ')" = 'aim aim aim faim faim faim malloc malloc malloc' ]
	[ "$(values update out | sort | uniq -c | tr -s ' ' | paste -sd' ')" = ' 3 edges  3 sorted  3 vertices' ]
	[ "$(grep -c ' verified=yes$' out)" -eq 9 ]
	[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
	[ "$(values inserted out | sort -u | wc -l)" -eq 1 ]
	[ "$(values inserted out | head -n 1)" -gt 20000 ]
	[ "$(values deleted out | head -n 1)" -gt 20000 ]
	# A query of each round's edges and of as many others; the former exist.
	[ "$(values found out | sort -u | wc -l)" -eq 1 ]
	[ "$(values found out | head -n 1)" -gt 25000 ]
	[ "$(values found out | head -n 1)" -lt 50000 ]
}

@test "a cooperating warp gives the same result" {
	"$PROGRAM" -w $LAYOUTS,granule --edges=2000 -b 300 --rounds=3 --delete=random --update=vertices,edges,sorted --worker=warp \
		--range=5 --reinit=move,compact --verify --untimed >out
	[ "$(grep -c ' worker=warp .* verified=yes$' out)" -eq 24 ]
	[ "$(values checksum out | sort -u | wc -l)" -eq 2 ]
}

@test "vertices come and go, with all edges to them; their numbers are reused; each layout gives the same numbers" {
	# Each round: 25 names, of which two exist and two come twice; then 25 vertices, with as many exceptions.
	"$PROGRAM" -w $LAYOUTS,granule --edges=1500 -b 300 --rounds=12 --vertices=25 --delete=random -p uniform \
		--update=vertices,edges,sorted --reinit=move,compact --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 12 ]
	[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
	[ "$(values triangles out | sort -u | wc -l)" -eq 1 ]
	[ "$(values vertices_inserted out | sort -u)" -eq $((12 * 21)) ]
	local deleted taken vertices
	deleted=$(values vertices_deleted out | sort -u) taken=$(values vertices_taken out | sort -u) vertices=$(values vertices out | sort -u)
	[ "$deleted" -gt 200 ]
	# Without reuse there would be 252 more. The vertices that are left had to have a number.
	[ "$taken" -ge $((vertices + 12 * 21 - deleted)) ]
	[ "$taken" -lt $((vertices + 60)) ]
	# Edges of deleted vertices count as deleted.
	[ "$(values left out | head -n 1)" -lt "$(values inserted out | head -n 1)" ]
	# By warps; the CPU's vertices have the same numbers and names after each step.
	"$PROGRAM" -w $LAYOUTS --edges=1500 -b 200 --rounds=3 --vertices=25 -p focused --update=vertices,sorted --worker=warp --verify \
		--untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 6 ]
	# A run begins with the vertices of the build.
	"$PROGRAM" -w $LAYOUTS -g road --edges=2000 -b 100 --rounds=2 --vertices=0,100,50 -p uniform --repeat=2 >out
	[ "$(sed 's/ total_ms=.*//' out | sort -u | wc -l)" -eq 9 ]
	[ "$(values names out | sort -u | paste -sd' ')" = '100 50' ]
	[ "$(grep -cE ' vertex_insert_mvps=[0-9.e+-]+ vertex_delete_mvps=[0-9.e+-]+' out)" -eq 12 ]
}

@test "edges of few vertices: long runs, long adjacencies, all of which are deleted again" {
	"$PROGRAM" -w $LAYOUTS -g road --edges=2500 -b 3000 -p focused --range=4 --verify --untimed --update=vertices,edges,sorted >out
	[ "$(grep -c ' verified=yes$' out)" -eq 9 ]
	# Few existed before; they are deleted, too.
	[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
	local deleted inserted
	inserted=$(values inserted out | sort -u)
	deleted=$(values deleted out | sort -u)
	[ "$deleted" -ge "$inserted" ]
	[ "$inserted" -gt 2000 ]
	# faim and ouro return memory, aim does not.
	local built final
	built=$(values built_bytes out | head -n 1) final=$(values final_bytes out | head -n 1)
	[ "$final" -gt $((built + inserted * 4)) ]
	[ "$(values final_bytes out | sed -n 4p)" -le "$(values built_bytes out | sed -n 4p)" ]
	[ "$(values final_bytes out | sed -n 7p)" -le "$(values built_bytes out | sed -n 7p)" ]
}

# In test builds 64 runs are not few (4096 otherwise).
@test "long runs and long adjacencies of a sorted batch have a warp, the others a lane; few runs have a warp each" {
	export DYNGRAPH_SIM_WORKERS=$PWD/workers
	# A hundred vertices with 11 edges each on average: some have 16 or more.
	"$PROGRAM" -w $LAYOUTS,granule --edges=1500 -b 1100 -p focused --range=100 --rounds=3 --delete=random --update=vertices,sorted \
		--vertices=10 --reinit=move,compact --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 8 ]
	[ "$(values checksum out | sort -u | wc -l)" -eq 1 ]
	[ "$(grep -cE '^warps=[1-9][0-9]? lanes=[1-9][0-9]$' workers)" -eq $((8 * 3 * 2)) ]
	[ "$(wc -l <workers)" -eq $((8 * 3 * 2)) ]
	# Five vertices have 128 edges, as many 127, the others one; all but some of 300 vertices have one to six more.
	{
		printf '%s\n' '%%MatrixMarket matrix coordinate pattern general' "300 300 $((5 * 128 + 5 * 127 + 290))"
		for v in 1 2 3 4 5; do seq 11 138 | sed "s/^/$v /"; seq 11 137 | sed "s/^/$((v + 5)) /"; done
		seq 11 300 | sed 's/$/ 1/'
	} >long.mtx
	rm workers
	"$PROGRAM" -w $LAYOUTS -g long.mtx -b 600 -p uniform --plain --update=vertices,sorted --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 6 ]
	[ "$(sed -n '1~2p' workers | sort -u | wc -l)" -eq 1 ]
	local warps lanes
	warps=$(head -n 1 workers | sed 's/ .*//; s/warps=//') lanes=$(head -n 1 workers | sed 's/.*lanes=//')
	[ "$warps" -ge 3 ]
	[ "$warps" -le 5 ]
	[ "$lanes" -gt 200 ]
	# Then those of the other five that got one have 128 too.
	[ "$(sed -n 2p workers | sed 's/ .*//; s/warps=//')" -gt "$warps" ]
	# Less than 64 runs, of which the host does not know the number; and 64 at least.
	rm workers
	"$PROGRAM" -w $LAYOUTS -g long.mtx -b 60 -p uniform --plain --update=vertices,sorted --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 6 ]
	[ "$(grep -cE '^warps=[45][0-9] lanes=0$' workers)" -eq 12 ]
	rm workers
	"$PROGRAM" -w $LAYOUTS -g long.mtx -b 600 -p focused --range=63 --plain --update=vertices,sorted --verify --untimed >out
	"$PROGRAM" -w $LAYOUTS -g long.mtx -b 600 -p focused --range=64 --plain --update=vertices,sorted --verify --untimed >>out
	[ "$(grep -c ' verified=yes$' out)" -eq 12 ]
	[ "$(head -n 12 workers | sort -u)" = 'warps=63 lanes=0' ]
	[ "$(tail -n 12 workers | grep -cE '^warps=[0-9]{1,2} lanes=[1-9][0-9]$')" -eq 12 ]
	# A worker that was asked for is that of all runs.
	rm workers
	"$PROGRAM" -w malloc -g long.mtx -b 600 -p uniform --plain --worker=thread --untimed >out
	[ ! -e workers ]
}

@test "a large batch of long runs is warps' work, and gives the same result as that of threads" {
	"$PROGRAM" -w faim,malloc -g road --edges=2500 -b 17k -p focused --range=20 --verify --untimed --update=vertices,sorted --plain >out
	[ "$(grep -c ' worker=thread .* verified=yes$' out)" -eq 4 ]
	"$PROGRAM" -w faim,malloc -g road --edges=2500 -b 17k -p focused --range=20 --worker=thread --untimed --update=vertices,sorted \
		--plain >threads
	diff <(sed 's/ verified=yes//' out) threads
	# The host knows the runs of such a batch: some of these have a warp.
	DYNGRAPH_SIM_WORKERS=$PWD/workers "$PROGRAM" -w faim,malloc --edges=20000 -b 17k -p uniform --verify --untimed --plain >out
	[ "$(grep -c ' verified=yes$' out)" -eq 2 ]
	[ "$(grep -cE '^warps=[1-9][0-9]* lanes=[1-9][0-9]{2,}$' workers)" -eq 4 ]
}

@test "a vertex of thousands of edges is checked for duplicates in pieces" {
	# Vertex 0 leads to every second one of 6000 others, and each batch begins at it.
	{ printf '%s\n' '%%MatrixMarket matrix coordinate pattern general' '6001 6001 3000'; seq 2 2 6000 | sed 's/^/1 /'; } >star.mtx
	"$PROGRAM" -w malloc,faim -g star.mtx -b 2000 -p focused --range=1 --worker=thread --plain --verify --untimed \
		--update=vertices,sorted >out
	[ "$(grep -c ' verified=yes$' out)" -eq 4 ]
	[ "$(values inserted out | sort -u | wc -l)" -eq 1 ]
	[ "$(values inserted out | head -n 1)" -gt 700 ]
	[ "$(values inserted out | head -n 1)" -lt 1300 ]
	"$PROGRAM" -w malloc -g star.mtx -b 2000 -p focused --range=1 --worker=warp --plain --verify --untimed >warps
	diff <(sed -n 's/ worker=thread//; /way=malloc .* update=vertices /p' out) <(sed 's/ worker=warp//' warps)
}

@test "reinitialisation: the footprint is that of a new build; moved blocks keep free pages; times are printed" {
	"$PROGRAM" -w $LAYOUTS -g road --edges=2500 -b 3000 -p focused --range=4 --verify --reinit=move,compact --rounds=2 >out
	[ "$(grep -c ' verified=yes ' out)" -eq 3 ]
	# Hardly any of the road's own edges is deleted, so a build has about as many pages, and aim's marks
	# disappear.
	local built final compact
	built=$(values built_bytes out | head -n 1) final=$(values final_bytes out | head -n 1) compact=$(values compact_bytes out | head -n 1)
	[ "$final" -gt "$built" ]
	[ "$compact" -le "$built" ]
	[ "$compact" -gt $((built * 9 / 10)) ]
	# Ouroboros' blocks have addresses, and do not move.
	[ "$(values way out | paste -sd' ')" = 'aim faim malloc' ]
	[ "$(values move_ms out | wc -l)" -eq 2 ]
	[ "$(values compact_ms out | wc -l)" -eq 3 ]
	refute grep -E ' (move|compact)_ms=(0 |-|nan|inf)' out
	# Insertions after a move take the pages freed before it.
	"$PROGRAM" -w faim -g road --edges=2500 -b 500 -p uniform --reinit=move --rounds=4 --untimed >moved
	"$PROGRAM" -w faim -g road --edges=2500 -b 500 -p uniform --rounds=4 --untimed >stayed
	[ "$(values checksum moved)" = "$(values checksum stayed)" ]
	[ "$(($(values final_bytes moved) - $(values built_bytes moved)))" -le 65536 ]
	# A run begins in the block of the first one.
	"$PROGRAM" -w aim,faim --edges=2000 -b 300 --rounds=3 --reinit=move,compact --repeat=2 -p uniform --untimed >out
	[ "$(sort -u out | wc -l)" -eq 2 ]
}

@test "after sorted updates triangles need no sorting" {
	"$PROGRAM" -w $LAYOUTS --edges=3000 -b 500 -p uniform --delete=random --update=sorted,vertices --verify >out
	[ "$(grep -c ' verified=yes ' out)" -eq 6 ]
	[ "$(values triangles out | sort -u | wc -l)" -eq 1 ]
	[ "$(grep -c ' update=sorted .* order_ms=0 ' out)" -eq 3 ]
	refute grep ' update=vertices .* order_ms=0 ' out
}

@test "every policy gives ouroGraph its blocks" {
	# Eight to eleven edges of each vertex: by lanes, and by a warp if there are 16.
	DYNGRAPH_SIM_WORKERS=$PWD/workers "$PROGRAM" -w $POLICIES --edges=1500 -b 1100 --range=100 --rounds=2 --verify --untimed >out
	[ "$(values way out | uniq | paste -sd,)" = "$POLICIES" ]
	[ "$(grep -cE '^warps=[1-9][0-9]? lanes=[1-9][0-9]+$' workers)" -eq $((12 * 2 * 2 * 2)) ]
	[ "$(grep -c ' verified=yes$' out)" -eq 24 ]
	[ "$(values final_bytes out | sort -u | wc -l)" -le 2 ]
}

@test "generators: the requested size, and known properties of each graph" {
	local graph
	for graph in rmat mesh road; do
		"$PROGRAM" -g $graph --edges=20000 -b 100 -w aim,faim,malloc -p uniform --verify --untimed >out
		[ "$(grep -c ' verified=yes$' out)" -eq 3 ]
		[ "$(values triangles out | sort -u | wc -l)" -eq 1 ]
		[ "$(values ranks out | sort -u | wc -l)" -eq 1 ]
		[ "$(values edges out | head -n 1)" -gt 10000 ]
		[ "$(values edges out | head -n 1)" -le 20000 ]
		cp out $graph
	done
	# 57 * 57 vertices: 2 * 56 * 57 + 56 * 56 edges in each direction.
	[ "$(values vertices mesh | head -n 1)" -eq 3249 ]
	[ "$(values edges mesh | head -n 1)" -eq 19040 ]
	# Two to three neighbours.
	[ "$(values edges road | head -n 1)" -gt $((2 * $(values vertices road | head -n 1))) ]
	[ "$((10 * $(values edges road | head -n 1)))" -lt $((23 * $(values vertices road | head -n 1))) ]
}

@test "triangles of a mesh: two a square, less those that an update removes" {
	# The update inserts one edge between two vertices without a common neighbour, and deletes it.
	"$PROGRAM" -g mesh --edges=6000 -b 1 -w aim,faim,malloc -p uniform --verify --untimed --worker=warp >out
	[ "$(values vertices out | head -n 1)" -eq 961 ]
	[ "$(values deleted out | sort -u)" -eq 1 ]
	[ "$(values triangles out | sort -u)" -eq 1800 ]
}

@test "files of MatrixMarket and of both DIMACS challenges are read; all have the same graph" {
	printf '%s\n' '%%MatrixMarket matrix coordinate pattern symmetric' '% a comment' '4 4 5' '2 1' '3 1' '3 2' '4 3' '4 2' >two.mtx
	printf '%s\n' 'c a comment' 'p sp 4 10' 'a 1 2 9' 'a 2 1 9' 'c' 'a 1 3 1' 'a 3 1 1' 'a 2 3 5' 'a 3 2 5' 'a 3 4 5' 'a 4 3 5' \
		'a 2 4 7' 'a 4 2 7' >two.gr
	printf '%s\n' '% a comment' '4 5 1' '2 9 3 1' '1 9 3 5 4 7' '1 1 2 5 4 5' '2 7 3 5' >two.graph
	"$PROGRAM" -g two.mtx -b 1 -w faim -p uniform --delete=random --verify --untimed >market
	"$PROGRAM" -g two.gr -b 1 -w faim -p uniform --delete=random --verify --untimed >dimacs
	grep -q ' vertices=4 edges=10 ' market
	grep -q ' verified=yes$' market
	diff <(sed 's/two.mtx/two.gr/' market) dimacs
	"$PROGRAM" -g two.graph -b 1 -w faim -p uniform --delete=random --verify --untimed >tenth
	diff <(sed 's/two.mtx/two.graph/' market) tenth
}

@test "preloaded it prints the same, every allocation is the pool's, and no memory is left" {
	set -- -w aim,faim,ouro-va-p,granule --edges=3000 -b 500 --verify --untimed
	preloaded "$@"
	leaks_nothing "$@"
}

@test "repeated runs print the same" {
	"$PROGRAM" --edges=2000 -b 100,300 --repeat=2 --untimed >out
	[ "$(wc -l <out)" -eq 40 ]
	[ "$(sort -u out | wc -l)" -eq 20 ]
}

@test "names of all patterns can be given as all" {
	"$PROGRAM" --edges=1000 -b 50 -w faim --untimed >out
	[ "$(values pattern out | paste -sd' ')" = 'uniform focused' ]
	"$PROGRAM" --edges=1000 -b 50 -w faim --pattern=all --untimed | diff - out
	"$PROGRAM" --help | grep -q 'focused (all)$'
}

@test "a wrong edge and a lost page are found and reported, with status 1" {
	DYNGRAPH_SIM_WRONG=1 ends 1 --edges=1000 -b 10 -w faim -p uniform --plain --verify --untimed
	grep -q ' verified=no$' out
	head -n 1 err | grep -qxE "dyngraph: faim, build: the graph differs from the CPU's, which has [0-9]+ edges"
	DYNGRAPH_SIM_WRONG=name ends 1 --edges=1000 -b 10 -w faim -p uniform --vertices=10 --plain --verify --untimed
	grep -qx "dyngraph: faim, build: vertices differ from the CPU's" err
	grep -qE "^dyngraph: faim, insertion: [1-9][0-9]* faults in its structure" err
	DYNGRAPH_SIM_WRONG=free ends 1 --edges=1000 -b 10 -w malloc -p uniform --vertices=10 --rounds=2 --plain --verify --untimed
	grep -qE "^dyngraph: malloc, insertion: [1-9][0-9]* faults in its structure" err
	DYNGRAPH_SIM_WRONG=lost ends 1 --edges=1000 -b 10 -w aim -p uniform --plain --verify --untimed
	grep -qxE "dyngraph: aim, insertion: 1 faults in its structure" err
	refute grep -q 'differs' err
	DYNGRAPH_SIM_WRONG=order ends 1 --edges=1000 -b 10 -w faim -p uniform --update=sorted --plain --verify --untimed
	grep -qE "^dyngraph: faim, insertion: [1-9][0-9]* faults in its structure" err
}

@test "a graph with blocks of many sizes has room for a granule of each" {
	# Vertices with 4, 8 ... 16384 edges: blocks of 13 sizes, and a heap of 9 granules would do for all bytes.
	{
		printf '%s\n' '%%MatrixMarket matrix coordinate pattern general' '16400 16400 32764'
		for v in 1 2 3 4 5 6 7 8 9 10 11 12 13; do seq 16 $((15 + (2 << v))) | sed "s/^/$v /"; done
	} >sizes.mtx
	"$PROGRAM" -w granule,ouro-va-p -g sizes.mtx -b 10 -p uniform --plain --verify --untimed >out
	[ "$(grep -c ' verified=yes$' out)" -eq 2 ]
}

@test "out of memory is reported in each layout, with status 1" {
	local way update
	for way in aim faim; do
		ends 1 --edges=2000 -b 100 -w $way --room=4000
		[ ! -s out ]
		grep -qxE "dyngraph: $way: [0-9]+ pages are needed, and there are [0-9]+: a larger --room is needed" err
		for update in auto sorted; do
			ends 1 --edges=2000 -b 1000 -p uniform -w $way --update=$update --room=13500
			grep -qxE "dyngraph: $way: [0-9]+ edges had no memory: a larger --room is needed" err
		done
	done
	# A graph of 0.7 MB is built repeatedly, and bump frees no memory.
	ends 1 -w bump -g road --edges=100k -b 1 -p uniform --repeat=4 --room=2Mi --plain --untimed
	[ "$(wc -l <out)" -eq 2 ]
	grep -qxE "dyngraph: bump: [0-9]+ edges had no memory: a larger --room is needed" err
	too_small 8M -w faim
}

@test "a host without memory, and standard output that cannot be written: status 1, and one line" {
	if [ -z "$SANITIZE_LIB" ]; then # a sanitizer takes terabytes of addresses
		printf '%s\n' 'p sp 4000000000 1' 'a 1 2 1' >rows.gr
		(ulimit -v 6000000 && ends 1 --graph=rows.gr --batch=1 --way=aim)
		[ "$(cat err)" = 'dyngraph: --graph=rows.gr: no memory of the host for 4000000000 rows and 1 entries' ]
		(ulimit -v 6000000 && ends 1 --edges=2G --batch=1 --way=aim)
		[ "$(cat err)" = 'dyngraph: --graph=rmat: no memory of the host for 134217728 rows and 2000000002 entries' ]
	fi
	local status=0
	"$PROGRAM" --edges=500 --batch=5 --way=aim --pattern=uniform --untimed >/dev/full 2>err || status=$?
	[ "$status" -eq 1 ]
	grep -qx '[^ ]*dyngraph: standard output cannot be written' err
}

@test "a line has each key once; --help names every option and every way" {
	local name
	"$PROGRAM" --verify --edges=500 -b 10 -w faim -p uniform >out
	[ "$(keys out)" = "way graph vertices edges pattern batch update worker inserted found deleted left checksum ranks triangles built_bytes final_bytes verified total_ms build_ms insert_ms query_ms delete_ms insert_meps query_meps delete_meps pagerank_ms order_ms triangles_ms" ]
	helps graph edges way batch pattern range update worker delete rounds vertices reinit iterations plain room heap repeat verify untimed
	for name in ${POLICIES//,/ } aim faim malloc; do
		grep -qE "\b$name\b" help
	done
}

@test "wrong options and files: one line with the reason, status 2, and no other output" {
	echo text >text.gr
	printf '%s\n' 'p sp 3 2' 'a 1 2 1' >short.gr
	printf '%s\n' 'p sp 3 1' 'a 4 1 1' >outside.gr
	printf '%s\n' 'p sp 1 1' 'a 1 1 1' >one.gr
	refuses 18 <<-'END'
		--graph=star|--graph=star: no such graph: rmat, mesh, road, *.mtx, *.gr and *.graph are possible
		--graph=none.mtx|--graph=none.mtx: No such file or directory
		--graph=text.gr|--graph=text.gr: line 1: not a graph of DIMACS
		--graph=short.gr|--graph=short.gr: line 3: it ends before its last entry
		--graph=outside.gr|--graph=outside.gr: line 2: not an entry
		--graph=one.gr|--graph=one.gr: it has one vertex
		--edges=63|--edges=63: 64 to 2147483648 are possible
		--batch=0|--batch=0: 1 to 1073741824 are possible
		--pattern=sweep|--pattern=sweep: uniform and focused are possible
		--update=all|--update=all: auto, edges, vertices and sorted are possible
		--reinit=half|--reinit=half: none, move and compact are possible
		--worker=block|--worker=block: auto, thread and warp are possible
		--worker=thread,warp|--worker and --delete take one name
		--graph=road --edges=1000 --vertices=1k|--vertices=1000: more than a quarter of the graph's 359
		--delete=none|--delete=none: same and random are possible
		--rounds=x|--rounds=x: not a number
		fast|fast: takes options alone; --help shows them
		--fast|unrecognized option '--fast'
	END
	ends 2 --way=hornet
	grep -qE '^dyngraph: --way=hornet: aim, faim, malloc, bump, .*, rw-bm and corw are possible$' err
}
