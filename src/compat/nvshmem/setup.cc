#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "compat/nvshmem/library.h"
#include "compat/onesided/collectives.h"

using namespace weft;
using compat::nvshmem::Library;
using compat::nvshmem::library;
using compat::nvshmem::running;
using compat::nvshmem::Streams;
namespace onesided = compat::onesided;

namespace {

void start(const char* call, int thread_level) {
  if (running) return;
  running = std::make_unique<Library>(onesided::join(call), thread_level);
}

void finish(const char* call) {
  library(call).streams.wait_for_all();
  onesided::barrier(library(call), call, &library(call).pe->everybody());
  running.reset();
}

int refuse(const char* call, const std::string& why) {
  fmt::print(stderr, "weft: {}: {}\n", call, why);
  return NVSHMEMX_ERROR_INVALID_VALUE;
}

// The environment's rank and size are the job's; those of a unique id only confirm them.
int start_with(const char* call, unsigned flags, const nvshmemx_init_attr_t* attributes, int thread_level) {
  constexpr unsigned kKnown =
      NVSHMEMX_INIT_THREAD_PES | NVSHMEMX_INIT_WITH_MPI_COMM | NVSHMEMX_INIT_WITH_SHMEM | NVSHMEMX_INIT_WITH_UNIQUEID;
  if ((flags & ~kKnown) != 0)
    return refuse(call, fmt::format("flags {:#x} has bits that NVSHMEM does not have", flags));
  if ((flags & NVSHMEMX_INIT_THREAD_PES) != 0)
    return refuse(call, "NVSHMEMX_INIT_THREAD_PES: PEs are processes here, not threads");
  const bool by_id = (flags & NVSHMEMX_INIT_WITH_UNIQUEID) != 0;
  if (by_id && attributes == nullptr) return refuse(call, "NVSHMEMX_INIT_WITH_UNIQUEID without attributes");
  start(call, thread_level);
  const api::Pe& pe = *library(call).pe;
  if (!by_id) return NVSHMEMX_SUCCESS;
  const nvshmemx_uniqueid_args_t& id = attributes->args.uid_args;
  if (id.myrank == pe.rank() && id.nranks == pe.ranks()) return NVSHMEMX_SUCCESS;
  return refuse(call, fmt::format("the unique id's arguments say rank {} of {}, and the job was started with this "
                                  "process as rank {} of {}",
                                  id.myrank, id.nranks, pe.rank(), pe.ranks()));
}

std::map<const std::byte*, std::size_t> registered;  // by the thread that registers, as NVSHMEM requires

}  // namespace

// NVIDIA's header calls these functions in place of nvshmem_init and nvshmemx_init_attr, in C++.
struct nvshmemi_version_t {
  int major, minor, patch;
};
int nvshmemi_init_thread(int requested, int* provided, unsigned flags, nvshmemx_init_attr_t* attributes,
                         nvshmemi_version_t);
int nvshmemi_init_thread(int requested, int* provided, unsigned flags, nvshmemx_init_attr_t* attributes,
                         nvshmemi_version_t) {
  const int status = start_with("nvshmem_init", flags, attributes, requested);
  if (status == NVSHMEMX_SUCCESS) *provided = library("nvshmem_init").thread_level;
  return status;
}

extern "C" {

void nvshmem_init(void) { start("nvshmem_init", NVSHMEM_THREAD_SERIALIZED); }
int nvshmem_init_thread(int requested, int* provided) {
  start("nvshmem_init_thread", requested);
  *provided = library("nvshmem_init_thread").thread_level;
  return NVSHMEMX_SUCCESS;
}
int nvshmemx_init_attr(unsigned flags, nvshmemx_init_attr_t* attributes) {
  return start_with("nvshmemx_init_attr", flags, attributes, NVSHMEM_THREAD_SERIALIZED);
}
int nvshmemx_hostlib_init_attr(unsigned flags, nvshmemx_init_attr_t* attributes) {
  return start_with("nvshmemx_hostlib_init_attr", flags, attributes, NVSHMEM_THREAD_SERIALIZED);
}
int nvshmemx_init_status(void) { return running ? NVSHMEM_STATUS_IS_INITIALIZED : NVSHMEM_STATUS_NOT_INITIALIZED; }
int nvshmemx_get_uniqueid(nvshmemx_uniqueid_t* id) {
  *id = NVSHMEMX_UNIQUEID_INITIALIZER;
  std::strcpy(id->internal, "weft: the environment says how ranks meet");
  return NVSHMEMX_SUCCESS;
}
int nvshmemx_set_attr_uniqueid_args(const int rank, const int ranks, const nvshmemx_uniqueid_t* id,
                                    nvshmemx_init_attr_t* attributes) {
  if (id == nullptr || attributes == nullptr || rank < 0 || rank >= ranks)
    return refuse("nvshmemx_set_attr_uniqueid_args", fmt::format("rank {} of {}, or a null pointer", rank, ranks));
  nvshmemx_uniqueid_args_t& args = attributes->args.uid_args;
  args.id = const_cast<nvshmemx_uniqueid_t*>(id);
  args.myrank = rank;
  args.nranks = ranks;
  return NVSHMEMX_SUCCESS;
}
int nvshmemx_set_attr_mpi_comm_args(void* mpi_comm, nvshmemx_init_attr_t* attributes) {
  if (mpi_comm == nullptr || attributes == nullptr) return refuse("nvshmemx_set_attr_mpi_comm_args", "a null pointer");
  attributes->mpi_comm = mpi_comm;
  return NVSHMEMX_SUCCESS;
}
void nvshmem_query_thread(int* provided) { *provided = library("nvshmem_query_thread").thread_level; }
void nvshmem_finalize(void) { finish("nvshmem_finalize"); }
void nvshmemi_finalize(void) { finish("nvshmem_finalize"); }
void nvshmemx_hostlib_finalize(void) { finish("nvshmemx_hostlib_finalize"); }
void nvshmem_global_exit(int status) { library("nvshmem_global_exit").pe->end_job(status); }

int nvshmem_my_pe(void) { return library("nvshmem_my_pe").pe->rank(); }
int nvshmem_n_pes(void) { return library("nvshmem_n_pes").pe->ranks(); }
void nvshmem_info_get_version(int* major, int* minor) {
  *major = NVSHMEM_MAJOR_VERSION;
  *minor = NVSHMEM_MINOR_VERSION;
}
void nvshmem_info_get_name(char* name) { std::strcpy(name, NVSHMEM_VENDOR_STRING); }
void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
  *major = NVSHMEM_VENDOR_MAJOR_VERSION;
  *minor = NVSHMEM_VENDOR_MINOR_VERSION;
  *patch = NVSHMEM_VENDOR_PATCH_VERSION;
}

void* nvshmem_malloc(size_t size) { return onesided::allocate(library("nvshmem_malloc"), "nvshmem_malloc", size, 1); }
void* nvshmem_calloc(size_t count, size_t size) {
  return onesided::allocate_zeros(library("nvshmem_calloc"), "nvshmem_calloc", count, size);
}
void* nvshmem_align(size_t alignment, size_t size) {
  return onesided::allocate_aligned(library("nvshmem_align"), "nvshmem_align", alignment, size);
}
void nvshmem_free(void* ptr) { onesided::release(library("nvshmem_free"), "nvshmem_free", ptr); }
void* nvshmem_ptr(const void* dest, int pe) {
  return onesided::address_at(library("nvshmem_ptr"), "nvshmem_ptr", dest, pe);
}
void* nvshmemx_mc_ptr(nvshmem_team_t, const void*) {
  library("nvshmemx_mc_ptr");
  return nullptr;
}

int nvshmemx_buffer_register(void* address, size_t length) {
  library("nvshmemx_buffer_register");
  if (address == nullptr || length == 0)
    return refuse("nvshmemx_buffer_register", fmt::format("{} bytes at {}", length, address));
  registered[static_cast<std::byte*>(address)] = length;
  return NVSHMEMX_SUCCESS;
}
int nvshmemx_buffer_unregister(void* address) {
  library("nvshmemx_buffer_unregister");
  if (registered.erase(static_cast<std::byte*>(address)) == 1) return NVSHMEMX_SUCCESS;
  return refuse("nvshmemx_buffer_unregister", fmt::format("{} was not registered", address));
}
void nvshmemx_buffer_unregister_all(void) { registered.clear(); }

int weft_nvshmem_stream_create(cudaStream_t* stream) {
  *stream = library("weft_nvshmem_stream_create").streams.make();
  return NVSHMEMX_SUCCESS;
}
int weft_nvshmem_stream_synchronize(cudaStream_t stream) {
  Streams& streams = library("weft_nvshmem_stream_synchronize").streams;
  if (!streams.has(stream)) return refuse("weft_nvshmem_stream_synchronize", "there is no such stream");
  streams.wait(stream);
  return NVSHMEMX_SUCCESS;
}
int weft_nvshmem_stream_destroy(cudaStream_t stream) {
  if (library("weft_nvshmem_stream_destroy").streams.end(stream)) return NVSHMEMX_SUCCESS;
  return refuse("weft_nvshmem_stream_destroy", "the stream is none that weft_nvshmem_stream_create returned");
}

}  // extern "C"
