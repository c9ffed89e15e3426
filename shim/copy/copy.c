/* SPDX-License-Identifier: BSD-3-Clause */
/* Linear copies: both addresses, the bytes, and the direction. */
#include "shim/copy/transfer.h"

#define H2D GM_RECORD_H2D
#define D2H GM_RECORD_D2H
#define D2D GM_RECORD_D2D
#define PEER GM_RECORD_PEER
#define UNKNOWN 0
#define AT(pointer) ((CUdeviceptr)(pointer))
#define ARRAY ((CUdeviceptr)0)

#define LINEAR(to, from, direction)                                           \
	.dst = (to), .src = (from), .dst_span = n, .src_span = n, .bytes = n, \
	.placed = (direction) == PEER
#define COPY(symbol, parameters, arguments, to, from, direction)          \
	GM_TRANSFERS(symbol, parameters, arguments, .flags = (direction), \
		     LINEAR(to, from, direction))
#define COPY_ASYNC(symbol, parameters, arguments, to, from, direction)                            \
	GM_TRANSFERS_ASYNC(symbol, parameters, arguments, .flags = (direction) | GM_RECORD_ASYNC, \
			   LINEAR(to, from, direction))

COPY(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n), dst, src, UNKNOWN)
COPY(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n), (dst, src, n), dst, AT(src),
     H2D)
COPY(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), (dst, src, n), AT(dst), src, D2H)
COPY(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n), (dst, src, n), dst, src, D2D)
COPY(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t at, size_t n), (dst, src, at, n), dst,
     ARRAY, D2D)
COPY(cuMemcpyDtoA_v2, (CUarray dst, size_t at, CUdeviceptr src, size_t n), (dst, at, src, n), ARRAY,
     src, D2D)
COPY(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t at, size_t n), (dst, src, at, n), AT(dst),
     ARRAY, D2H)
COPY(cuMemcpyHtoA_v2, (CUarray dst, size_t at, const void *src, size_t n), (dst, at, src, n), ARRAY,
     AT(src), H2D)
COPY(cuMemcpyAtoA_v2, (CUarray dst, size_t to, CUarray src, size_t at, size_t n),
     (dst, to, src, at, n), ARRAY, ARRAY, D2D)
COPY(cuMemcpyPeer, (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n),
     (dst, to, src, from, n), dst, src, PEER)

COPY_ASYNC(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
	   (dst, src, n, stream), dst, src, UNKNOWN)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream stream),
	   (dst, src, n, stream), dst, AT(src), H2D)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream stream),
	   (dst, src, n, stream), AT(dst), src, D2H)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream stream),
	   (dst, src, n, stream), dst, src, D2D)
COPY_ASYNC(cuMemcpyAtoHAsync_v2, (void *dst, CUarray src, size_t at, size_t n, CUstream stream),
	   (dst, src, at, n, stream), AT(dst), ARRAY, D2H)
COPY_ASYNC(cuMemcpyHtoAAsync_v2,
	   (CUarray dst, size_t at, const void *src, size_t n, CUstream stream),
	   (dst, at, src, n, stream), ARRAY, AT(src), H2D)
COPY_ASYNC(cuMemcpyPeerAsync,
	   (CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n,
	    CUstream stream),
	   (dst, to, src, from, n, stream), dst, src, PEER)

/* Without attributes the driver refuses the call, so it is passed on. */
#define WITH_ATTRIBUTES(symbol, own_stream)                                                  \
	GM_HANDLER_IF(how, symbol,                                                           \
		      (CUdeviceptr dst, CUdeviceptr src, size_t n, CUmemcpyAttributes * how, \
		       CUstream stream),                                                     \
		      (dst, src, n, how, stream), ({                                         \
			      struct gm_transfer t_ = {.hook = GM_HOOK_##symbol,             \
						       .flags = UNKNOWN | GM_RECORD_ASYNC,   \
						       .own = own_stream,                    \
						       .stream = stream,                     \
						       .attributed = true,                   \
						       LINEAR(dst, src, UNKNOWN)};           \
			      GM_TRANSFER_RUN(&t_, real.symbol(dst, src, n, how, stream));   \
		      }))
WITH_ATTRIBUTES(cuMemcpyWithAttributesAsync, false)
WITH_ATTRIBUTES(cuMemcpyWithAttributesAsync_ptsz, true)
