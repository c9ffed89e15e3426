#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Start N processes at once, with the variables that a launcher gives to each:
#     ranks.sh torchrun|slurm|openmpi N COMMAND [ARGUMENT]...
# RANK in an argument becomes the rank. Status 1 if any of them failed.
launcher=$1
size=$2
shift 2

variables() {
	case $launcher in
	torchrun)
		echo "RANK=$1 LOCAL_RANK=$1 WORLD_SIZE=$size LOCAL_WORLD_SIZE=$size GROUP_RANK=0 ROLE_RANK=$1 ROLE_NAME=default"
		echo "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500"
		;;
	slurm)
		echo "SLURM_JOB_ID=${SLURM_JOB_ID:-4711} SLURM_STEP_ID=0 SLURM_PROCID=$1 SLURM_LOCALID=$1 SLURM_NTASKS=$size"
		echo "SLURM_NNODES=1 SLURM_NODEID=0 PMI_RANK=$1 PMI_SIZE=$size"
		;;
	openmpi)
		echo "OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_LOCAL_RANK=$1 OMPI_COMM_WORLD_SIZE=$size"
		echo "OMPI_COMM_WORLD_LOCAL_SIZE=$size PMIX_RANK=$1 PMIX_NAMESPACE=prterun-host-9@1"
		;;
	*) exit 2 ;;
	esac
}

# All processes wait for one lock, so that they start at once.
gate=$(mktemp) || exit 2
exec {lock}<"$gate"
flock "$lock"
for ((rank = 0; rank < size; rank++)); do
	# shellcheck disable=SC2046 # words
	env $(variables $rank) flock -s "$gate" "${@//RANK/$rank}" {lock}<&- &
	started+=($!)
done
exec {lock}<&-
failed=0
for process in "${started[@]}"; do
	wait "$process" || failed=1
done
rm -f "$gate"
exit $failed
