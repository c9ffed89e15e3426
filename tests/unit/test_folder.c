/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks in a file of a folder (residency/folder.h, window.h): faults of the file system at each
 * transfer in turn; contents that differ; a file that the program closes.
 */
#include "moved.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/sys.h"

/* --- checksums --- */

static void checksums_differ(void)
{
	static uint64_t words[64];
	unsigned same = 0;
	for (unsigned i = 0; i < 64; i++)
		words[i] = i * 77;
	uint64_t sum = gm_checksum(words, sizeof words, 5);
	for (unsigned bit = 0; bit < 64 * 64; bit++) {
		words[bit / 64] ^= (uint64_t)1 << bit % 64;
		same += gm_checksum(words, sizeof words, 5) == sum;
		words[bit / 64] ^= (uint64_t)1 << bit % 64;
	}
	TAP_IS(same, 0, "each bit counts in a checksum");
	for (unsigned i = 1; i < 64; i++) {
		uint64_t first = words[0];
		words[0] = words[i];
		words[i] = first;
		same += gm_checksum(words, sizeof words, 5) == sum;
		words[i] = words[0];
		words[0] = first;
	}
	TAP_IS(same, 0, "the order of words counts in a checksum");
	TAP_OK(gm_checksum(words, sizeof words, 6) != sum &&
		       gm_checksum(words, sizeof words, 5) == sum,
	       "the place of words counts in a checksum");
}

/* --- a file system that fails --- */

/* The failing call, counted from the first one, and its failure: an errno, or fewer bytes. */
static struct {
	atomic_int reserve, write, read; /* calls until one fails; below 0: none does */
	int error;			 /* 0: it moves `most` bytes */
	size_t most;
	bool always;
} faulty;
static atomic_uint transfers;

/* Several threads transfer: each call takes one from the count, and one alone finds it at 0. */
static bool is_due(atomic_int *count)
{
	int before = atomic_load(count), after;
	do {
		if (before < 0)
			return false;
		after = before == 0 && faulty.always ? 0 : before - 1;
	} while (!atomic_compare_exchange_weak(count, &before, after));
	return before == 0;
}

static int reserve_faulty(int fd, uint64_t at, uint64_t size)
{
	if (!is_due(&faulty.reserve))
		return gm_sys_fallocate(fd, at, size);
	errno = faulty.error;
	return -1;
}

static ssize_t write_faulty(int fd, const void *from, size_t n, uint64_t at)
{
	bool due = is_due(&faulty.write);
	atomic_fetch_add(&transfers, 1);
	if (due && faulty.error) {
		errno = faulty.error;
		return -1;
	}
	n = due && faulty.most < n ? faulty.most : n;
	return n ? gm_sys_pwrite(fd, from, n, at) : 0;
}

static ssize_t read_faulty(int fd, void *to, size_t n, uint64_t at)
{
	bool due = is_due(&faulty.read);
	atomic_fetch_add(&transfers, 1);
	if (due && faulty.error) {
		errno = faulty.error;
		return -1;
	}
	n = due && faulty.most < n ? faulty.most : n;
	return n ? gm_sys_pread(fd, to, n, at) : 0;
}

static const struct gm_folder_calls faulty_calls = {reserve_faulty, write_faulty, read_faulty};

static void faults_end(void)
{
	atomic_store(&faulty.reserve, -1);
	atomic_store(&faulty.write, -1);
	atomic_store(&faulty.read, -1);
	faulty.error = 0;
	faulty.always = false;
}

static void folder_set_up(void)
{
	set_up(BY_FOLDER, 0);
	faults_end();
	move.folder.calls = &faulty_calls;
	pool->config.chunk = 70 * MIB; /* three pieces of the window */
	block_make(0, 70 * MIB);
	block_make(1, 3 * MIB);
	block_make(2, 1000);
}

static bool all_is_right(void)
{
	return blocks_wrong() == 0 && stats_now().away == 0 && pool_valid() && stored() == 0;
}

static bool wakes(void)
{
	return gm_move_in(&move, pool, 0).result == CUDA_SUCCESS && all_is_right();
}

static void contents_go_to_a_file(void)
{
	folder_set_up();
	struct gm_moved out = gm_move_out(&move, pool, 0);
	struct stat found;
	TAP_OK(out.result == CUDA_SUCCESS && move.folder.taken == out.bytes &&
		       fstat(move.folder.fd, &found) == 0 && found.st_nlink == 0 &&
		       (uint64_t)found.st_size == out.bytes,
	       "contents are in a file that has no name");
	TAP_OK(move.store.taken == 0 && move.store.kept == GM_WINDOW &&
		       move.store.pinned == GM_WINDOW,
	       "host memory has the window alone, which is registered");
	TAP_OK(fcntl(move.folder.fd, F_GETFD) == FD_CLOEXEC && move.folder.fd > 2,
	       "no program that is executed has the folder's file");
	int fd = move.folder.fd;
	TAP_OK(wakes(), "all chunks return from the folder");
	TAP_OK(fcntl(fd, F_GETFD) == -1 && errno == EBADF, "the file is closed after the wake");
	tear_down("file");
}

/* Short transfers, a signal, and O_DIRECT with other alignment needs have no visible effect. */
static void transfers_go_on(const char *what, int error, size_t most, bool always)
{
	folder_set_up();
	faulty.error = error;
	faulty.most = most;
	faulty.always = always;
	atomic_store(&faulty.write, 2);
	bool good = gm_move_out(&move, pool, 0).result == CUDA_SUCCESS;
	atomic_store(&faulty.write, -1);
	atomic_store(&faulty.read, 2);
	good &= gm_move_in(&move, pool, 0).result == CUDA_SUCCESS;
	TAP_OK(good && all_is_right(), "%s: all chunks leave and return", what);
	tear_down(what);
}

/* Write number `n` fails: the process is awake, all its bytes are intact, and the reason is
 * reported. */
static bool sleep_survives(int n, bool *reached)
{
	folder_set_up();
	faulty.error = ENOSPC;
	atomic_store(&faulty.write, n);
	struct gm_moved out = gm_move_out(&move, pool, 0);
	*reached = atomic_load(&faulty.write) < 0;
	bool good = *reached == (out.result != CUDA_SUCCESS);
	if (*reached)
		good &= move.refusal == GM_REFUSAL_FOLDER &&
			strstr(move.refused_for, folder_path()) &&
			strstr(move.refused_for, "No space left on device");
	good &= pool_valid() && stored() == stats_now().away && wakes();
	all_end();
	return good;
}

/* Read number `n` fails: chunks that were not read back stay away, and the next wake restores all
 * bytes. */
static bool wake_survives(int n, bool *reached)
{
	folder_set_up();
	bool good = gm_move_out(&move, pool, 0).result == CUDA_SUCCESS;
	faulty.error = EIO;
	atomic_store(&faulty.read, n);
	struct gm_moved in = gm_move_in(&move, pool, 0);
	*reached = atomic_load(&faulty.read) < 0;
	good &= *reached == (in.result != CUDA_SUCCESS);
	if (*reached)
		good &= move.refusal == GM_REFUSAL_FOLDER && stats_now().away > 0 &&
			strstr(move.refused_for, "Input/output error");
	good &= pool_valid() && stored() == stats_now().away && wakes();
	all_end();
	return good;
}

static void each_transfer_fails(const char *what, bool (*survives)(int, bool *))
{
	unsigned bad = 0, tried = 0;
	bool reached = true;
	for (int n = 0; reached; n += n < 4 ? 1 : 7) {
		bad += !survives(n, &reached);
		tried += reached;
	}
	TAP_OK(bad == 0 && tried > 5, "%s: one of many fails, %u times, and no byte is lost", what,
	       tried);
}

static void no_room(void)
{
	folder_set_up();
	faulty.error = ENOSPC;
	atomic_store(&faulty.reserve, 1);
	TAP_OK(gm_move_out(&move, pool, 0).result != CUDA_SUCCESS &&
		       move.refusal == GM_REFUSAL_FOLDER &&
		       strstr(move.refused_for, "No space left on device"),
	       "a file system that is full is named");
	TAP_OK(wakes(), "chunks that had left return");
	faulty.error = EOPNOTSUPP;
	faulty.always = true;
	atomic_store(&faulty.reserve, 0);
	TAP_OK(gm_move_out(&move, pool, 0).result == CUDA_SUCCESS && wakes(),
	       "a file system that cannot reserve room is used without");
	move.folder.path = "/nowhere/at/all";
	TAP_OK(gm_move_out(&move, pool, 0).result != CUDA_SUCCESS &&
		       !strcmp(move.refused_for, "/nowhere/at/all: No such file or directory"),
	       "a folder that is not there is named");
	TAP_IS(gm_move_find_room(&move, 1), GM_REFUSAL_FOLDER,
	       "a folder that is not there is noticed before anything moves");
	move.folder.path = folder_path();
	TAP_OK(gm_move_find_room(&move, 1) == GM_REFUSAL_NONE &&
		       gm_move_find_room(&move, UINT64_MAX / 2) == GM_REFUSAL_FOLDER,
	       "a folder with too little room is found before any move");
	move.folder.path = "/proc";
	TAP_OK(gm_move_out(&move, pool, 0).result != CUDA_SUCCESS &&
		       move.refusal == GM_REFUSAL_FOLDER && all_is_right(),
	       "a file system without such files is refused");
	move.folder.path = folder_path();
	tear_down("no room");
}

/* --- no host memory --- */

static bool without_memory; /* for parcels */

struct gm_parcel *__real_gm_store_take(struct gm_store *store, uint64_t size);
struct gm_parcel *__wrap_gm_store_take(struct gm_store *store, uint64_t size);

struct gm_parcel *__wrap_gm_store_take(struct gm_store *store, uint64_t size)
{
	return without_memory ? NULL : __real_gm_store_take(store, size);
}

static void no_window(void)
{
	folder_set_up();
	without_memory = true;
	TAP_OK(gm_move_out(&move, pool, 0).result != CUDA_SUCCESS &&
		       move.refusal == GM_REFUSAL_HOST_MEMORY && all_is_right(),
	       "a sleep into a folder without host memory for the window names the reason");
	without_memory = false;
	gm_move_out(&move, pool, 0);
	without_memory = true;
	TAP_OK(gm_move_in(&move, pool, 0).result != CUDA_SUCCESS &&
		       move.refusal == GM_REFUSAL_HOST_MEMORY && stats_now().away > 0,
	       "a wake without host memory for the window names the reason");
	without_memory = false;
	TAP_OK(wakes(), "the next wake has host memory for the window");
	tear_down("no window");
}

/* --- contents that change --- */

/* Of the file. */
static void byte_change(uint64_t at, unsigned char by)
{
	static _Alignas(4096) unsigned char page[4096];
	uint64_t begin = at / sizeof page * sizeof page;
	if (gm_sys_pread(move.folder.fd, page, sizeof page, begin) != sizeof page)
		exit(1);
	page[at % sizeof page] ^= by;
	if (gm_sys_pwrite(move.folder.fd, page, sizeof page, begin) != sizeof page)
		exit(1);
}

static void contents_that_differ(void)
{
	folder_set_up();
	gm_move_out(&move, pool, 0);
	uint64_t away = stats_now().away, at = move.folder.taken / 2 + 12345;
	char named[64];
	snprintf(named, sizeof named, "%s: 2 MiB at %llu of its file", folder_path(),
		 (unsigned long long)(at / (2 * MIB) * (2 * MIB)));
	byte_change(at, 0x10);
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_ERROR_UNKNOWN && move.refusal == GM_REFUSAL_CONTENTS,
	       "one byte that differs ends the wake");
	TAP_STR(move.refused_for, named, "the place of the differing byte is named: %s",
		move.refused_for);
	TAP_OK(stats_now().away > 0 && stats_now().away <= away && pool_valid(),
	       "a chunk with a byte that differs stays away");
	in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_ERROR_UNKNOWN && move.refusal == GM_REFUSAL_CONTENTS,
	       "each wake fails on a byte that differs");
	byte_change(at, 0x10);
	TAP_OK(wakes(), "the wake succeeds when the byte is right again");
	tear_down("contents that differ");
}

static void file_is_closed(void)
{
	folder_set_up();
	gm_move_out(&move, pool, 0);
	int fd = move.folder.fd, kept = dup(fd), other = open("/dev/null", O_RDWR);
	dup2(other, fd); /* the program opens another file under that number */
	struct gm_moved in = gm_move_in(&move, pool, 0);
	TAP_OK(in.result == CUDA_ERROR_UNKNOWN && move.refusal == GM_REFUSAL_FOLDER &&
		       strstr(move.refused_for, "the program closed its file"),
	       "a file that the program closed is named");
	TAP_OK(fcntl(fd, F_GETFD) != -1, "the program's file under that number stays open");
	dup2(kept, fd);
	close(kept);
	close(other);
	TAP_OK(wakes(), "no byte was lost by that");
	tear_down("closed file");
}

static void child_has_no_file(void)
{
	folder_set_up();
	gm_move_out(&move, pool, 0);
	int fd = move.folder.fd, status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		gm_folder_forget(&move.folder);
		_exit(fcntl(fd, F_GETFD) != -1 || move.folder.taken);
	}
	waitpid(pid, &status, 0);
	TAP_IS(status, 0, "a forked child closes the folder's file");
	TAP_OK(wakes(), "the parent of a forked child has the folder's file");
	tear_down("fork");
}

int main(void)
{
	checksums_differ();
	contents_go_to_a_file();
	transfers_go_on("transfers cut at a block", 0, 4096, false);
	transfers_go_on("all transfers cut at a third", 0, 704512, true);
	transfers_go_on("a signal", EINTR, 0, false);
	transfers_go_on("O_DIRECT that wants other places", EINVAL, 0, false);
	each_transfer_fails("sleep", sleep_survives);
	each_transfer_fails("wake", wake_survives);
	no_room();
	no_window();
	contents_that_differ();
	file_is_closed();
	child_has_no_file();
	return tap_done();
}
