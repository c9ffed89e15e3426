/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The account of device memory; with SIM_SHARE=FILE, one for all processes with this file. Each
 * process maps the file and has a row in it: its bytes on each device. A row counts while its owner
 * lives. The owner holds a lock on the row's byte, which the kernel releases at any end of the
 * process.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/msg.h"
#include "sim/internal.h"

#define ROWS 64u

struct account {
	uint64_t used[ROWS][SIM_MAX_DEVICES];
};

static struct {
	struct account *account;
	int fd;
	unsigned row; /* of this process */
} share;

/* Byte 0 locks the account, byte 1 + i is locked by the owner of row i. POSIX locks belong to the
 * process, and are not inherited. */
static bool byte_lock(int command, unsigned byte, short type, short *was)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int answer;
	do
		answer = fcntl(share.fd, command, &lock);
	while (answer < 0 && command == F_SETLKW);
	if (was)
		*was = lock.l_type;
	return answer == 0;
}

static void account_lock(short type)
{
	if (share.account)
		byte_lock(F_SETLKW, 0, type, NULL);
}

static bool row_is_alive(unsigned row)
{
	short was = F_UNLCK;
	return byte_lock(F_GETLK, 1 + row, F_WRLCK, &was) && was != F_UNLCK;
}

static size_t rows_used_by_others(unsigned device)
{
	size_t sum = 0;
	for (unsigned i = 0; share.account && i < ROWS; i++)
		if (i != share.row && share.account->used[i][device] && row_is_alive(i))
			sum += share.account->used[i][device];
	return sum;
}

static bool row_take(void)
{
	for (share.row = 0; share.row < ROWS; share.row++)
		if (byte_lock(F_SETLK, 1 + share.row, F_WRLCK, NULL))
			return true;
	return false;
}

void sim_share_open(const char *path)
{
	share.account = NULL;
	share.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;
	if (share.fd >= 0 && ftruncate(share.fd, sizeof *share.account) == 0 && row_take())
		at = mmap(NULL, sizeof *share.account, PROT_READ | PROT_WRITE, MAP_SHARED, share.fd,
			  0);
	if (at == MAP_FAILED) {
		gm_msg(GM_MSG_WARN, "sim: cannot use SIM_SHARE=%s: %m", path);
		return;
	}
	share.account = at;
	account_lock(F_WRLCK);
	memset(share.account->used[share.row], 0, sizeof share.account->used[share.row]);
	account_lock(F_UNLCK);
}

/* A child has no row; the parent keeps its own. */
void sim_share_forget(void)
{
	share.account = NULL;
}

static void row_set_used(unsigned device, size_t used)
{
	sim.devices[device].used = used;
	if (share.account)
		share.account->used[share.row][device] = used;
}

size_t sim_used(unsigned device)
{
	account_lock(F_RDLCK);
	size_t used = sim.devices[device].used + rows_used_by_others(device);
	account_lock(F_UNLCK);
	return used;
}

CUresult sim_charge(unsigned device, size_t bytes)
{
	struct sim_device *d = &sim.devices[device];
	account_lock(F_WRLCK);
	size_t used = d->used + rows_used_by_others(device);
	bool fits = used <= d->memory && bytes <= d->memory - used;
	if (fits)
		row_set_used(device, d->used + bytes);
	account_lock(F_UNLCK);
	return fits ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_uncharge(unsigned device, size_t bytes)
{
	GM_ASSERT(bytes <= sim.devices[device].used);
	account_lock(F_WRLCK);
	row_set_used(device, sim.devices[device].used - bytes);
	account_lock(F_UNLCK);
}
