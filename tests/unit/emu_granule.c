#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "heap/device/granule.h"
static struct gm_heap heap; static struct gm_mailbox mail;
static unsigned per; static unsigned long nulls, bad;
static void init(void*a,uint32_t t){(void)a; if(t<64) gm_granule_init(&heap,t,64);}
static void trim(void*a,uint32_t t){(void)a; gm_granule_let_go(&heap,t,64);}
static void all_(void*a,uint32_t t){(void)a; if(t==0) gm_granule_retire_all(&heap);}
static size_t sizes[8]={16,24,40,100,777,3000,8192,70000};
static void work(void*a,uint32_t t){ (void)a; uint32_t r=t*2654435761u; unsigned char*p[4]={0}; size_t n[4]; 
 for(unsigned i=0;i<per;i++){ r=r*1664525+1013904223; unsigned k=i%4; if(p[k]){ for(size_t j=0;j<n[k];j++) if(p[k][j]!=(unsigned char)(t+k)) {__atomic_fetch_add(&bad,1,0);break;} gm_granule_free(&heap,p[k]); p[k]=0;}
  n[k]=sizes[(r>>20)%8]; if((r>>28)==15) n[k]=3u<<20; p[k]=gm_granule_malloc(&heap,n[k]); if(!p[k]) __atomic_fetch_add(&nulls,1,0); else { if(((uintptr_t)p[k]&15)) __atomic_fetch_add(&bad,1,0); memset(p[k],(unsigned char)(t+k),n[k]); } }
 for(int k=0;k<4;k++) gm_granule_free(&heap,p[k]); }
int main(int c,char**v){ uint32_t cap=c>1?atoi(v[1]):256; per=c>2?atoi(v[2]):20; unsigned warps=c>3?atoi(v[3]):16;
 char*m=mmap(0,((size_t)cap+1)<<21,PROT_READ|PROT_WRITE,MAP_PRIVATE|MAP_ANONYMOUS|MAP_NORESERVE,-1,0);
 heap.base=((uintptr_t)m+GM_GRANULE-1)&~(GM_GRANULE-1); heap.capacity=cap; heap.summaries=(cap+4095)/4096; heap.mail=&mail;
 heap.policy=calloc(1,gm_granule_bytes(cap)); size_t w=(cap+63)/64; heap.free.word=calloc(w,8); heap.free.summary=calloc(heap.summaries,8);
 mail.grant[0]=cap; mail.have.value=1; mail.refused.value=1;
 gm_simt_launch(2,2,init,0); heap.growing=1; gm_span_collect(&heap); heap.growing=0;
 gm_simt_launch(warps,8,work,0); gm_simt_launch(2,2,trim,0);
 heap.growing=0; gm_simt_launch(1,1,all_,0); printf("nulls %lu bad %lu foreign %lu available %lu of %u\n",nulls,bad,heap.foreign_frees,heap.available,cap);
 unsigned long set=0; for(size_t i=0;i<w;i++) set+=__builtin_popcountll(heap.free.word[i]); printf("free bits %lu\n",set);
 return bad||heap.available!=cap||set!=cap; }
