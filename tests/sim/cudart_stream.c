/* SPDX-License-Identifier: BSD-3-Clause */
/* The small runtime: streams, events, captures, graphs. */
#include "cudart.h"

RT(cudaStreamCreate, (cudaStream_t * out), cu->cuStreamCreate(out, CU_STREAM_DEFAULT))
RT(cudaStreamCreateWithFlags, (cudaStream_t * out, unsigned flags), cu->cuStreamCreate(out, flags))
RT(cudaStreamDestroy, (cudaStream_t stream), cu->cuStreamDestroy(stream))
RT_BOTH(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), cu->cuStreamSynchronize(stream))
RT_BOTH(cudaStreamQuery, _ptsz, (cudaStream_t stream), cu->cuStreamQuery(stream))
RT_BOTH(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
	cu->cuStreamWaitEvent(stream, event, flags))
RT_BOTH(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t run, void *arg),
	cu->cuLaunchHostFunc(stream, run, arg))

RT(cudaEventCreate, (cudaEvent_t * out), cu->cuEventCreate(out, CU_EVENT_DEFAULT))
RT(cudaEventCreateWithFlags, (cudaEvent_t * out, unsigned flags), cu->cuEventCreate(out, flags))
RT(cudaEventDestroy, (cudaEvent_t event), cu->cuEventDestroy(event))
RT(cudaEventQuery, (cudaEvent_t event), cu->cuEventQuery(event))
RT(cudaEventSynchronize, (cudaEvent_t event), cu->cuEventSynchronize(event))
RT(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to),
   cu->cuEventElapsedTime(ms, from, to))
RT_BOTH(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
	cu->cuEventRecord(event, stream))

RT_BOTH(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
	cu->cuStreamBeginCapture(stream, (CUstreamCaptureMode)mode))
RT_BOTH(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *out),
	cu->cuStreamEndCapture(stream, out))
RT_BOTH(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
	cu->cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)status))
RT(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
   cu->cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode))
RT(cudaGraphInstantiate, (cudaGraphExec_t * out, cudaGraph_t graph, unsigned long long flags),
   cu->cuGraphInstantiateWithFlags(out, graph, flags))
RT_BOTH(cudaGraphLaunch, _ptsz, (cudaGraphExec_t exec, cudaStream_t stream),
	cu->cuGraphLaunch(exec, stream))
RT(cudaGraphDestroy, (cudaGraph_t graph), cu->cuGraphDestroy(graph))
RT(cudaGraphExecDestroy, (cudaGraphExec_t exec), cu->cuGraphExecDestroy(exec))
