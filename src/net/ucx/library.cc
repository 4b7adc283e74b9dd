#include "net/ucx/library.h"

#include <dlfcn.h>
#include <ucs/debug/log_def.h>

namespace weft::net::ucx {
namespace {

// What UCX calls an error is also the status of the call that met it, which weft reports with the rank at fault: a line
// on stderr beside it, of a peer that has ended, says less. With another level than its own, UCX says what it wants.
ucs_log_func_rc_t without_errors(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                                 ucs_log_level_t level, const ucs_log_component_config_t* of, const char* /*message*/,
                                 va_list /*arguments*/) {
  const bool by_default = of == nullptr || of->log_level == UCS_LOG_LEVEL_WARN;
  return level == UCS_LOG_LEVEL_ERROR && by_default ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
}

Result<Library> load() {
  constexpr const char* kName = "libucp.so.0";
  // It stays: UCX's hooks do not survive being unloaded.
  void* const handle = dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) return bad_input("transport ucx: {}; install libucx0", dlerror());
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  Library l{};
  find(l.init_version, "ucp_init_version");
  find(l.cleanup, "ucp_cleanup");
  find(l.worker_create, "ucp_worker_create");
  find(l.worker_destroy, "ucp_worker_destroy");
  find(l.worker_get_address, "ucp_worker_get_address");
  find(l.worker_release_address, "ucp_worker_release_address");
  find(l.worker_get_efd, "ucp_worker_get_efd");
  find(l.worker_arm, "ucp_worker_arm");
  find(l.worker_progress, "ucp_worker_progress");
  find(l.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  find(l.ep_create, "ucp_ep_create");
  find(l.ep_close_nbx, "ucp_ep_close_nbx");
  find(l.am_send_nbx, "ucp_am_send_nbx");
  find(l.am_recv_data_nbx, "ucp_am_recv_data_nbx");
  find(l.stream_send_nbx, "ucp_stream_send_nbx");
  find(l.stream_recv_data_nb, "ucp_stream_recv_data_nb");
  find(l.stream_data_release, "ucp_stream_data_release");
  find(l.mem_map, "ucp_mem_map");
  find(l.mem_unmap, "ucp_mem_unmap");
  find(l.rkey_pack, "ucp_rkey_pack");
  find(l.rkey_buffer_release, "ucp_rkey_buffer_release");
  find(l.ep_rkey_unpack, "ucp_ep_rkey_unpack");
  find(l.rkey_destroy, "ucp_rkey_destroy");
  find(l.put_nbx, "ucp_put_nbx");
  find(l.get_nbx, "ucp_get_nbx");
  find(l.ep_flush_nbx, "ucp_ep_flush_nbx");
  find(l.worker_flush_nbx, "ucp_worker_flush_nbx");
  find(l.worker_fence, "ucp_worker_fence");
  find(l.request_check_status, "ucp_request_check_status");
  find(l.request_free, "ucp_request_free");
  find(l.status_string, "ucs_status_string");
  if (missing != nullptr) return bad_input("transport ucx: {} has no {}; weft needs UCX 1.12 or newer", kName, missing);
  decltype(&::ucs_log_push_handler) push_handler = nullptr;
  find(push_handler, "ucs_log_push_handler");  // it stays as long as the library does
  if (push_handler != nullptr) push_handler(without_errors);
  return l;
}

}  // namespace

Result<const Library*> library() {
  static const Result<Library> loaded = load();
  if (!loaded) return tl::make_unexpected(loaded.error());
  return &*loaded;
}

}  // namespace weft::net::ucx
