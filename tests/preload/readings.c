/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Readings of the clock by small copies: a preload that reads it twice a copy makes a copy of 1 KiB
 * some hundredths slower. The program's clock_gettime counts the calls.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

#define COPIES 1000
#define FEW (COPIES / 10)

static unsigned readings;

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *out)
{
	readings++;
	return (int)syscall(SYS_clock_gettime, clock, out);
}

static unsigned copies_make(CUdeviceptr device, char *host)
{
	readings = 0;
	for (unsigned i = 0; i < COPIES / 2; i++) {
		MUST(cuMemcpyHtoD(device, host, 1024));
		MUST(cuMemcpyDtoH(host, device, 1024));
	}
	return readings;
}

/* The rate of the processor's counter is known only after some time. */
int main(void)
{
	static char host[1024];
	CUdeviceptr device;
	unsigned seen = FEW;
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&device, sizeof host));
	for (unsigned i = 0; i < 1000 && seen >= FEW; i++) {
		seen = copies_make(device, host);
		usleep(10000);
	}
	printf(seen < FEW ? "few readings\n" : "%u readings in %u copies\n", seen, COPIES);
	return 0;
}
