/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exporter whose answers are slow: ipc_slow. It runs without the preload, and starts itself
 * under LIBRARY as an importer, which opens a block. The block has PARTS parts; each is sent after
 * a second, alone. Prints whether the importer gave up before it had all parts, and its result.
 */
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"
#include "rpc/wire.h"
#include "shim/ipc/handle.h"

enum { PARTS = 40 };

static struct gm_ipc_handle handle;

static CUresult import(const char *path)
{
	CUipcMemHandle wire;
	CUdeviceptr block;
	FILE *file = fopen(path, "r");
	if (!file || fread(&wire, sizeof wire, 1, file) != 1)
		exit(3);
	fclose(file);
	MUST(cuInit(0));
	use_device(0);
	return SAY(cuIpcOpenMemHandle(&block, wire, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static int listener_make(void)
{
	struct sockaddr_un name;
	CUuuid uuid;
	MUST(cuDeviceGetUuid(&uuid, 0));
	handle.node = (struct gm_rpc_address){.magic = GM_RPC_MAGIC,
					      .user = geteuid(),
					      .pid = (uint32_t)getpid(),
					      .net = gm_wire_net(),
					      .nonce = 0x77};
	memcpy(handle.node.gpu, &uuid, sizeof handle.node.gpu);
	const socklen_t n = gm_wire_name(&name, &handle.node);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (bind(fd, (struct sockaddr *)&name, n) != 0 || listen(fd, 5) != 0)
		exit(3);
	return fd;
}

/* A descriptor of memory of one part. */
static int memory_make(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .requestedHandleTypes =
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle memory;
	int fd;
	MUST(cuMemCreate(&memory, 2 * MIB, &prop, 0));
	MUST(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
					  0));
	return fd;
}

static bool part_send(int to, int memory, uint64_t first)
{
	static const struct gm_wire_head head = {GM_RPC_MAGIC, GM_RPC_IPC_OPEN, GM_RPC_OK};
	const struct gm_ipc_reply reply = {.size = PARTS * 2 * MIB,
					   .total = PARTS * 2 * MIB,
					   .chunks = PARTS,
					   .first = first,
					   .n = 1,
					   .part = {2 * MIB}};
	struct gm_rpc_message message = {.size = sizeof reply, .n_fds = 1, .fds = {memory}};
	memcpy(message.data, &reply, sizeof reply);
	return gm_wire_send(to, &head, &message);
}

static unsigned parts_serve(int listener, int memory)
{
	char request[2048];
	unsigned sent = 0;
	const int to = accept(listener, NULL, NULL);
	while (recv(to, request, sizeof request, 0) > 0) {
		sleep(1);
		if (part_send(to, memory, sent))
			sent++;
	}
	return sent;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return import(argv[1]) != CUDA_SUCCESS;
	MUST(cuInit(0));
	use_device(0);
	const int listener = listener_make(), memory = memory_make();
	FILE *file = fopen("handle", "w");
	if (!file || fwrite(&handle, sizeof handle, 1, file) != 1 || fclose(file) != 0)
		return 3;
	if (fork() == 0) {
		close(listener);
		setenv("LD_PRELOAD", getenv("LIBRARY"), 1);
		execl(argv[0], argv[0], "handle", NULL);
		_exit(3);
	}
	const unsigned sent = parts_serve(listener, memory);
	wait(NULL);
	printf("some parts were sent: %d, all: %d\n", sent > 0, sent == PARTS);
	return 0;
}
