#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include "compat/onesided/collectives.h"
#include "compat/shmem/library.h"

using namespace weft;
using compat::shmem::Library;
using compat::shmem::library;
using compat::shmem::running;

namespace {

void start(const char* call, int thread_level) {
  if (running) return;
  running = std::make_unique<Library>(compat::onesided::join(call), thread_level);
}

void finish(const char* call) {
  compat::onesided::barrier(library(call), call, &library(call).pe->everybody());
  running.reset();
}

// Programs that begin with start_pes need not say when they end.
void finish_at_exit() {
  if (running) finish("exit");
}

}  // namespace

WEFT_SHMEM_DEFINE(void, init, (void)) { start("shmem_init", SHMEM_THREAD_SINGLE); }
WEFT_SHMEM_DEFINE(int, init_thread, (int requested, int* provided)) {
  start("shmem_init_thread", requested);
  *provided = library("shmem_init_thread").thread_level;
  return 0;
}
WEFT_SHMEM_DEFINE(void, query_thread, (int* provided)) { *provided = library("shmem_query_thread").thread_level; }
WEFT_SHMEM_DEFINE(void, finalize, (void)) { finish("shmem_finalize"); }
WEFT_SHMEM_DEFINE(void, global_exit, (int status)) { library("shmem_global_exit").pe->end_job(status); }

WEFT_SHMEM_DEFINE(int, my_pe, (void)) { return library("shmem_my_pe").pe->rank(); }
WEFT_SHMEM_DEFINE(int, n_pes, (void)) { return library("shmem_n_pes").pe->ranks(); }
WEFT_SHMEM_DEFINE(int, pe_accessible, (int pe)) {
  return pe >= 0 && pe < library("shmem_pe_accessible").pe->ranks() ? 1 : 0;
}
WEFT_SHMEM_DEFINE(int, addr_accessible, (const void* addr, int pe)) {
  const Library& l = library("shmem_addr_accessible");
  return pe >= 0 && pe < l.pe->ranks() && l.space().symmetric(addr, 1) ? 1 : 0;
}
WEFT_SHMEM_DEFINE(void*, ptr, (const void* dest, int pe)) {
  return compat::onesided::address_at(library("shmem_ptr"), "shmem_ptr", dest, pe);
}
WEFT_SHMEM_DEFINE(void, info_get_version, (int* major, int* minor)) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}
WEFT_SHMEM_DEFINE(void, info_get_name, (char* name)) { std::strcpy(name, SHMEM_VENDOR_STRING); }
WEFT_SHMEM_DEFINE(int, pcontrol, (int, ...)) { return 0; }  // for tools that replace it

extern "C" void start_pes(int) {
  if (running) return;
  start("start_pes", SHMEM_THREAD_SINGLE);
  std::atexit(finish_at_exit);
}
extern "C" int _my_pe(void) { return library("_my_pe").pe->rank(); }
extern "C" int _num_pes(void) { return library("_num_pes").pe->ranks(); }
