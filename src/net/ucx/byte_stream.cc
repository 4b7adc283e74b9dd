#include "net/ucx/byte_stream.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <list>
#include <optional>

#include "net/ucx/context.h"

namespace weft::net::ucx {
namespace {

class WorkerStream final : public ByteStream {
 public:
  explicit WorkerStream(WorkerHandle worker) : context_(worker.context()), worker_(std::move(worker)) {}
  ~WorkerStream() override;

  std::span<const std::byte> address() const override { return worker_->address(); }
  Status connect(std::span<const std::byte> peer, bool near) override;
  Status send(std::span<const std::byte> bytes, std::shared_ptr<void> owner) override;
  void progress() override {
    while (ucp().worker_progress(worker_->get()) != 0) {
    }
  }
  std::size_t unsent() const override { return unsent_; }
  Result<std::size_t> receive(std::span<std::byte> into) override;
  int event_descriptor() const override { return worker_->event_descriptor(); }
  // What has come and was not taken brings no event any more.
  bool arm() override { return !fill() && !problem_ && ucp().worker_arm(worker_->get()) == UCS_OK; }

 private:
  // What UCX reads until it calls on_sent().
  struct Sending {
    WorkerStream* stream;
    std::size_t bytes;
    std::shared_ptr<void> owner;
    std::list<Sending>::iterator self;
  };
  static void on_sent(void* request, ucs_status_t status, void* sending);
  static void on_error(void* stream, ucp_ep_h, ucs_status_t status) {
    static_cast<WorkerStream*>(stream)->broken(status);
  }

  const Library& ucp() const { return context_->library(); }
  // Is there something to take?
  bool fill();
  void broken(ucs_status_t status) {
    if (!problem_) problem_ = "UCX says: " + context_->text(status);
  }
  Status check() const {
    if (!problem_) return {};
    return failure(Code::kPeerDied, Blame::kOperation, "{}", *problem_);
  }
  void forget(Sending& sending) {
    unsent_ -= sending.bytes;
    sending_.erase(sending.self);
  }

  std::optional<std::string> problem_;
  std::size_t unsent_ = 0;
  std::list<Sending> sending_;              // ends after the worker, which reads what it owns
  std::shared_ptr<const Context> context_;  // callbacks need it while the worker ends
  std::optional<WorkerHandle> worker_;
  ucp_ep_h endpoint_ = nullptr;
  void* data_ = nullptr;             // UCX's, of what came
  std::span<const std::byte> left_;  // of it, that receive() has not taken
  bool answered_ = false;            // something has come
};

// A peer that ended before it answered may leave UCX messages that are never sent. UCX before 1.14 ends the process
// where a worker ends with such, so that worker is kept instead (README.md).
WorkerStream::~WorkerStream() {
  constexpr std::chrono::milliseconds kForFirstWords{100};
  if (data_ != nullptr) ucp().stream_data_release(endpoint_, data_);
  if (endpoint_ == nullptr || answered_) return;
  if (worker_->flush(std::chrono::steady_clock::now() + kForFirstWords, [this] { progress(); })) return;
  new std::list<Sending>(std::move(sending_));  // for good, as the worker
  worker_->abandon();
}

Status WorkerStream::connect(std::span<const std::byte> peer, bool near) {
  const ucs_status_t status = worker_->connect(peer.data(), near, on_error, this, &endpoint_);
  if (status != UCS_OK) broken(status);
  return check();
}

Status WorkerStream::send(std::span<const std::byte> bytes, std::shared_ptr<void> owner) {
  WEFT_CHECK(check());
  sending_.push_back({this, bytes.size(), std::move(owner), {}});
  Sending& sending = sending_.back();
  sending.self = std::prev(sending_.end());
  unsent_ += bytes.size();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &sending;
  void* const request = ucp().stream_send_nbx(endpoint_, bytes.data(), bytes.size(), &param);
  if (UCS_PTR_IS_ERR(request)) broken(UCS_PTR_STATUS(request));
  if (!UCS_PTR_IS_PTR(request)) forget(sending);
  return check();
}

void WorkerStream::on_sent(void* request, ucs_status_t status, void* sending) {
  auto& s = *static_cast<Sending*>(sending);
  WorkerStream& stream = *s.stream;
  if (status != UCS_OK && status != UCS_ERR_CANCELED) stream.broken(status);
  stream.forget(s);
  stream.ucp().request_free(request);
}

bool WorkerStream::fill() {
  if (!left_.empty()) return true;
  if (data_ != nullptr) ucp().stream_data_release(endpoint_, std::exchange(data_, nullptr));
  progress();
  if (endpoint_ == nullptr) return false;
  std::size_t length = 0;
  void* const data = ucp().stream_recv_data_nb(endpoint_, &length);
  if (UCS_PTR_IS_ERR(data)) broken(UCS_PTR_STATUS(data));
  if (!UCS_PTR_IS_PTR(data)) return false;
  answered_ = true;
  data_ = data;
  left_ = {static_cast<const std::byte*>(data), length};
  return true;
}

Result<std::size_t> WorkerStream::receive(std::span<std::byte> into) {
  if (!fill()) {
    WEFT_CHECK(check());
    return 0;
  }
  const std::size_t n = std::min(into.size(), left_.size());
  std::memcpy(into.data(), left_.data(), n);
  left_ = left_.subspan(n);
  return n;
}

}  // namespace

Result<std::shared_ptr<Context>> open_stream_context() { return Context::open(UCP_FEATURE_STREAM); }

Result<std::unique_ptr<ByteStream>> open_stream(std::shared_ptr<Context> context) {
  WEFT_TRY(WorkerHandle worker, WorkerHandle::open(std::move(context)));
  return std::make_unique<WorkerStream>(std::move(worker));
}

}  // namespace weft::net::ucx
