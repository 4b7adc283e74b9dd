#include "net/ucx/context.h"

#include "base/check.h"

namespace weft::net::ucx {
namespace {

tl::unexpected<Error> refusal(const Library& library, const char* what, ucs_status_t status) {
  const Code code = status == UCS_ERR_NO_MEMORY || status == UCS_ERR_NO_RESOURCE ? Code::kNoResources : Code::kSystem;
  return failure(code, Blame::kCommunicator, "transport ucx: {}: {}", what, library.status_string(status));
}

}  // namespace

Result<std::shared_ptr<Context>> Context::open(std::uint64_t features) {
  WEFT_TRY(const Library* const ucp, ucx::library());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
  params.features = features | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;  // communicators of one rank may be used from different threads
  params.name = "weft";
  ucp_context_h context = nullptr;
  // No configuration is read here: UCX reads its own variables.
  if (const ucs_status_t status = ucp->init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, nullptr, &context);
      status != UCS_OK)
    return refusal(*ucp, "ucp_init", status);
  return std::make_shared<Context>(*ucp, context);
}

Result<WorkerHandle> WorkerHandle::open(std::shared_ptr<Context> context) {
  const Library& ucp = context->library();
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_EVENTS | UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // one thread at a time: those of communicators that share it
  params.events = UCP_WAKEUP_TX | UCP_WAKEUP_RX;
  ucp_worker_h worker = nullptr;
  if (const ucs_status_t status = ucp.worker_create(context->get(), &params, &worker); status != UCS_OK)
    return refusal(ucp, "ucp_worker_create", status);
  WorkerHandle handle(std::move(context), worker);
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  if (const ucs_status_t status = ucp.worker_get_address(worker, &address, &length); status != UCS_OK)
    return refusal(ucp, "ucp_worker_get_address", status);
  const auto* bytes = reinterpret_cast<const std::byte*>(address);
  handle.address_.assign(bytes, bytes + length);
  ucp.worker_release_address(worker, address);
  return handle;
}

WorkerHandle::~WorkerHandle() {
  if (worker_ != nullptr) context_->library().worker_destroy(worker_);
}

ucs_status_t WorkerHandle::connect(const void* address, bool near, ucp_err_handler_cb_t on_error, void* of_handler,
                                   ucp_ep_h* endpoint) const {
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = static_cast<const ucp_address_t*>(address);
  params.err_mode = near ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_error, .arg = of_handler};
  const ucs_status_t status = context_->library().ep_create(worker_, &params, endpoint);
  if (status != UCS_OK) *endpoint = nullptr;
  return status;
}

bool WorkerHandle::flush(std::chrono::steady_clock::time_point deadline, const std::function<void()>& progress) const {
  const Library& ucp = context_->library();
  ucp_request_param_t param{};
  void* const request = ucp.worker_flush_nbx(worker_, &param);
  if (!UCS_PTR_IS_PTR(request)) return request == nullptr;
  const auto done = [&] { return ucp.request_check_status(request) != UCS_INPROGRESS; };
  while (!done() && std::chrono::steady_clock::now() < deadline) progress();
  const bool flushed = done();
  ucp.request_free(request);
  return flushed;
}

void WorkerHandle::abandon() {
  new std::shared_ptr<Context>(context_);  // for good
  worker_ = nullptr;
}

int WorkerHandle::event_descriptor() const {
  int fd = -1;
  const ucs_status_t status = context_->library().worker_get_efd(worker_, &fd);
  WEFT_ASSERT(status == UCS_OK, "{}", context_->text(status));
  return fd;
}

}  // namespace weft::net::ucx
