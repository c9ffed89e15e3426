#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#include "heap/device/granule.h"
#define C(x) do{cudaError_t e=(x); if(e){printf("ERR %d %s %s\n",__LINE__,#x,cudaGetErrorString(e)); exit(1);} }while(0)
__device__ struct gm_heap *heap;
extern "C" __device__ __noinline__ void *gm_m(size_t n){return gm_granule_malloc(heap,n);}
extern "C" __device__ __noinline__ void gm_f(void*p){gm_granule_free(heap,p);}
__global__ void k_init(){ gm_granule_init(heap,threadIdx.x,blockDim.x); __syncthreads(); if(threadIdx.x==0){heap->growing=1; gm_span_collect(heap); heap->growing=0;} }
__global__ void k_trim(){ gm_granule_let_go(heap,threadIdx.x,blockDim.x); __syncthreads(); if(threadIdx.x==0) gm_granule_retire_all(heap); }
__global__ void k_malloc(void**p,int n,size_t sz){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n) p[t]=gm_m(sz); }
__global__ void k_mallocv(void**p,int n,size_t hi){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n){ unsigned r=t*2654435761u; r^=r>>15; r*=2246822519u; r^=r>>13; p[t]=gm_m(4+r%(hi-3)); } }
__global__ void k_free(void**p,int n){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n) gm_f(p[t]); }
__global__ void k_freeperm(void**p,int n){ unsigned t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n) gm_f(p[(t*618033ull)%n]); }
__global__ void k_write(void**p,int n,size_t sz){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n&&p[t]){ int*q=(int*)p[t]; for(size_t i=0;i<sz/4;i++) q[i]=t; } }
__global__ void k_check(void**p,int n,size_t sz,unsigned*bad){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n){ if(!p[t]){atomicAdd(bad+1,1);return;} int*q=(int*)p[t]; for(size_t i=0;i<sz/4;i++) if(q[i]!=t){atomicAdd(bad,1);return;} } }
__global__ void k_churn(int n,size_t sz,unsigned*bad){ int t=blockIdx.x*blockDim.x+threadIdx.x; if(t<n) for(int i=0;i<8;i++){ volatile int*q=(volatile int*)gm_m(sz); if(!q){atomicAdd(bad+1,1);continue;} q[0]=t; if(q[0]!=t) atomicAdd(bad,1); gm_f((void*)q);} }
__global__ void k_show(){ printf("available %llu foreign %llu refusals %llu epoch %u\n",(unsigned long long)heap->available,(unsigned long long)heap->foreign_frees,(unsigned long long)heap->refusals,heap->epoch);}
static void *pol; static gm_heap *dh; static gm_heap h; static gm_mailbox*mail; static size_t polbytes;
static char*mem; static void* bitsmem; static size_t bitsbytes;
static void make(size_t mib){ uint32_t cap=mib/2; if(!mem){C(cudaMalloc(&mem,mib<<20)); cudaHostAlloc(&mail,sizeof*mail,0); polbytes=gm_granule_bytes(cap); C(cudaMalloc(&pol,polbytes)); bitsbytes=(cap/64+1)*16; C(cudaMalloc(&bitsmem,bitsbytes)); C(cudaMalloc(&dh,sizeof h)); }
 memset(mail,0,sizeof*mail); mail->grant[0]=cap; mail->have.value=1; mail->refused.value=1; cudaMemset(pol,0,polbytes); cudaMemset(bitsmem,0,bitsbytes); memset(&h,0,sizeof h);
 h.base=(uint64_t)mem; h.capacity=cap; h.summaries=(cap+4095)/4096; h.mail=mail; h.policy=pol; h.free.word=(uint64_t*)bitsmem; h.free.summary=(uint64_t*)bitsmem+(cap+63)/64; C(cudaMemcpy(dh,&h,sizeof h,cudaMemcpyHostToDevice)); C(cudaMemcpyToSymbol(heap,&dh,8)); k_init<<<1,64>>>(); C(cudaDeviceSynchronize()); }
static cudaEvent_t e0,e1; template<class F> static double tm(F f){ cudaEventRecord(e0); f(); cudaEventRecord(e1); C(cudaEventSynchronize(e1)); float ms; cudaEventElapsedTime(&ms,e0,e1); return ms*1e3; }
static double med(std::vector<double>v){ std::sort(v.begin(),v.end()); return v[v.size()/2]; }
int main(int ac,char**av){ size_t mib=16384; int n=1000000; cudaEventCreate(&e0); cudaEventCreate(&e1); void**p; unsigned*bad; C(cudaMalloc(&p,n*8)); C(cudaMalloc(&bad,8)); int B=256,G=(n+B-1)/B;
 { make(mib); k_malloc<<<1,32>>>(p,32,16); k_free<<<1,32>>>(p,32); k_freeperm<<<1,32>>>(p,0); k_mallocv<<<1,32>>>(p,0,64); k_churn<<<1,32>>>(0,16,bad); k_write<<<1,32>>>(p,0,4); k_check<<<1,32>>>(p,0,4,bad); k_trim<<<1,256>>>(); k_show<<<1,1>>>(); C(cudaDeviceSynchronize()); }
 size_t sizes[]={16,24,32,40,64,100,128,256,512,777,1024,2048,3000,4096,8192};
 printf("%8s %9s %9s %9s %9s %9s %9s\n","size","cold","warm","free","wfreeperm","warm2","churn");
 for(size_t s:sizes){ make(mib); cudaMemset(bad,0,8); double cold=0; std::vector<double> w,f,fp,w2,ch; for(int i=0;i<11;i++){ double a=tm([&]{k_malloc<<<G,B>>>(p,n,s);}); if(i==0){ cold=a; k_write<<<G,B>>>(p,n,s); k_check<<<G,B>>>(p,n,s,bad);} else w.push_back(a); f.push_back(tm([&]{k_free<<<G,B>>>(p,n);})); }
  for(int i=0;i<5;i++){ w2.push_back(tm([&]{k_malloc<<<G,B>>>(p,n,s);})); if(i==2){k_write<<<G,B>>>(p,n,s); k_check<<<G,B>>>(p,n,s,bad);} fp.push_back(tm([&]{k_freeperm<<<G,B>>>(p,n);})); }
  for(int i=0;i<5;i++) ch.push_back(tm([&]{k_churn<<<G,B>>>(n,s,bad);}));
  unsigned b[2]; cudaMemcpy(b,bad,8,cudaMemcpyDeviceToHost); k_trim<<<1,1024>>>(); C(cudaDeviceSynchronize()); cudaMemcpy(&h,dh,sizeof h,cudaMemcpyDeviceToHost);
  printf("%8zu %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f bad %u nulls %u avail %llu/%zu foreign %llu\n",s,cold,med(w),med(f),med(fp),med(w2),med(ch),b[0],b[1],(unsigned long long)h.available,mib/2,(unsigned long long)h.foreign_frees); fflush(stdout); }
 for(size_t hi:{64,256,1024,4096,8192}){ make(mib); std::vector<double> w,f; double cold=0; for(int i=0;i<7;i++){ double a=tm([&]{k_mallocv<<<G,B>>>(p,n,hi);}); if(i)w.push_back(a); else cold=a; f.push_back(tm([&]{k_free<<<G,B>>>(p,n);})); } printf("mixed to %zu: cold %.1f warm %.1f free %.1f\n",hi,cold,med(w),med(f)); }
 // out of memory: 2 GiB heap of the same memory, 100000 a round
 for(size_t s:{16,64,512,4096,8192}){ make(mib); h.capacity=1024; /* use first 2 GiB */ memset(mail,0,sizeof*mail); mail->grant[0]=1024; mail->have.value=1; mail->refused.value=1; cudaMemset(pol,0,polbytes); cudaMemset(bitsmem,0,bitsbytes); h.granted=h.grants=h.available=0; h.base=(uint64_t)mem; h.summaries=1; h.mail=mail; h.policy=pol; h.refused=0; h.epoch=0; C(cudaMemcpy(dh,&h,sizeof h,cudaMemcpyHostToDevice)); k_init<<<1,64>>>(); C(cudaDeviceSynchronize());
  double cap=2147483648.0/s; size_t got=0; int m=100000; double worst=0,last=0; for(int r=0;r<(int)(cap/m)+3;r++){ cudaMemset(bad,0,8); double t=tm([&]{k_malloc<<<(m+255)/256,256>>>(p,m,s);}); k_check<<<(m+255)/256,256>>>(p,m,0,bad); unsigned b[2]; cudaMemcpy(b,bad,8,cudaMemcpyDeviceToHost); got+=m-b[1]; worst=std::max(worst,t); last=t; if(b[1]==(unsigned)m) break; } printf("oom %zu: %.4f of the heap, slowest round %.0f us, last %.0f us\n",s,got/cap,worst,last); fflush(stdout); }
 return 0; }
