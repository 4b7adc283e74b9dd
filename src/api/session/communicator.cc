#include "weft/communicator.h"

#include <new>
#include <utility>

#include "api/session/session.h"
#include "base/result.h"

namespace weft {

namespace {

tl::unexpected<Error> inherited() { return bad_input("this process was forked after the communicator had connected"); }

// Makes a call of the owner thread, alone in the session. std::bad_alloc breaks the communicator on all ranks: nobody
// knows how far the call has come.
template <class Call>
auto entered(session::Session& session, Call call) -> decltype(call()) {
  if (session.owner.inherited()) [[unlikely]]
    return inherited();
  const session::CallGuard::Turn turn(session.guard);
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return session.out_of_memory();
  }
}

tl::unexpected<Error> no_communicator() {
  return bad_input("the communicator is empty: it was moved from, or split gave this rank no color");
}
tl::unexpected<Error> no_operation() { return bad_input("the work is empty: no operation was started with it"); }

// Errors: that with which it has ended.
Result<bool> has_finished(const session::Pending& pending) {
  if (pending.done && !pending.status) return tl::make_unexpected(pending.status.error());
  return pending.done;
}

}  // namespace

Result<bool> Work::test() {
  if (!pending_) return no_operation();
  return entered(*session_, [&]() -> Result<bool> {
    session_->operations().poll(*pending_);
    return has_finished(*pending_);
  });
}

Status Work::wait() {
  if (!pending_) return no_operation();
  return entered(*session_, [&]() -> Status { return session_->operations().wait(*pending_); });
}

Result<bool> Work::wait_for(std::chrono::nanoseconds limit) {
  if (!pending_) return no_operation();
  return entered(*session_, [&]() -> Result<bool> {
    session_->operations().wait_for(*pending_, limit);
    return has_finished(*pending_);
  });
}

Result<bool> Message::test() {
  if (!operation_) return no_operation();
  return entered(*session_, [&]() -> Result<bool> { return session_->test(operation_); });
}

Result<Received> Message::wait() {
  if (!operation_) return no_operation();
  return entered(*session_, [&]() -> Result<Received> {
    WEFT_CHECK(session_->wait(operation_));
    return operation_->received;
  });
}

Memory::Memory(Memory&& other) noexcept
    : session_(std::move(other.session_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Memory::~Memory() {
  if (data_ != nullptr && !session_->owner.inherited()) session_->executor().deallocate(data_);
}

RegisteredMemory::RegisteredMemory(RegisteredMemory&&) noexcept = default;

RegisteredMemory& RegisteredMemory::operator=(RegisteredMemory&& other) noexcept {
  std::swap(session_, other.session_);
  std::swap(pages_, other.pages_);
  return *this;
}

RegisteredMemory::~RegisteredMemory() = default;

Rank Communicator::rank() const { return !session_ ? -1 : session_->executor().rank(); }
Rank Communicator::ranks() const { return !session_ ? 0 : session_->executor().ranks(); }

Status Communicator::run(const Request& request) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Status { return session_->operations().run(request); });
}

Result<Work> Communicator::start(const Request& request) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Work> {
    Work work;
    WEFT_TRY(work.pending_, session_->operations().start(request));
    work.session_ = session_;
    return work;
  });
}

Result<std::vector<Work>> Communicator::start(std::span<const Request> requests) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<std::vector<Work>> {
    std::vector<Work> works;
    const std::size_t all = requests.size();
    while (!requests.empty()) {
      const std::size_t together = session::fusible(requests, session_->executor().ranks());
      auto started = together == 1 ? session_->operations().start(requests.front())
                                   : session_->operations().start(requests.first(together));
      if (!started && started.error().code == Code::kInvalidArgument && all > 1)
        started.error().message = fmt::format("call {} of {}: {}", works.size() + 1, all, started.error().message);
      WEFT_TRY(const auto pending, std::move(started));
      for (std::size_t i = 0; i < together; ++i) {
        works.emplace_back().pending_ = pending;
        works.back().session_ = session_;
      }
      requests = requests.subspan(together);
    }
    return works;
  });
}

Status Communicator::run(std::span<const Request> requests) {
  WEFT_TRY(std::vector<Work> works, start(requests));
  Status first;
  for (Work& work : works)
    if (Status done = work.wait(); !done && first) first = std::move(done);
  return first;
}

Result<Work> Communicator::start(std::span<const Transfer> transfers,
                                 std::optional<std::chrono::milliseconds> timeout) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Work> {
    Work work;
    WEFT_TRY(work.pending_, session_->operations().start(transfers, timeout));
    work.session_ = session_;
    return work;
  });
}

Status Communicator::exchange(std::span<const Transfer> transfers, std::optional<std::chrono::milliseconds> timeout) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Status { return session_->operations().run(transfers, timeout); });
}

Result<Message> Communicator::start_send(const void* data, std::size_t count, DataType type, Rank peer,
                                         std::int32_t tag, std::optional<std::chrono::milliseconds> timeout) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Message> {
    Message message;
    auto* const bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));  // only read
    WEFT_TRY(
        message.operation_,
        session_->start(session::TaggedOperation{
            .sends = true, .data = bytes, .count = count, .type = type, .peer = peer, .tag = tag, .timeout = timeout}));
    message.session_ = session_;
    return message;
  });
}

Result<Message> Communicator::start_receive(void* data, std::size_t count, DataType type, Rank source, std::int32_t tag,
                                            std::optional<std::chrono::milliseconds> timeout) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Message> {
    Message message;
    WEFT_TRY(message.operation_, session_->start(session::TaggedOperation{.data = static_cast<std::byte*>(data),
                                                                          .count = count,
                                                                          .type = type,
                                                                          .peer = source,
                                                                          .tag = tag,
                                                                          .timeout = timeout}));
    message.session_ = session_;
    return message;
  });
}

Status Communicator::send(const void* data, std::size_t count, DataType type, Rank peer, std::int32_t tag,
                          std::optional<std::chrono::milliseconds> timeout) {
  WEFT_TRY(Message message, start_send(data, count, type, peer, tag, timeout));
  const auto sent = message.wait();
  return sent ? Status{} : tl::make_unexpected(sent.error());
}

Result<Received> Communicator::receive(void* data, std::size_t count, DataType type, Rank source, std::int32_t tag,
                                       std::optional<std::chrono::milliseconds> timeout) {
  WEFT_TRY(Message message, start_receive(data, count, type, source, tag, timeout));
  return message.wait();
}

Result<Memory> Communicator::allocate(std::size_t bytes) {
  if (!session_) return no_communicator();
  if (session_->owner.inherited()) return inherited();
  WEFT_CHECK(session_->check_not_finalized());
  if (bytes > session::kAddressSpace)
    return failure(Code::kNoResources, Blame::kOperation, "allocate: {} bytes are more than a process can have", bytes);
  Memory memory;
  WEFT_TRY(memory.data_, session_->executor().allocate(static_cast<Bytes>(bytes)));
  memory.session_ = session_;
  memory.size_ = bytes;
  return memory;
}

Result<RegisteredMemory> Communicator::register_memory(void* data, std::size_t bytes) {
  if (!session_) return no_communicator();
  if (session_->owner.inherited()) return inherited();
  WEFT_CHECK(session_->check_not_finalized());
  RegisteredMemory memory;
  WEFT_TRY(memory.pages_,
           session::AdoptedPages::adopt(std::shared_ptr<exec::Executor>(session_, &session_->executor()), data, bytes));
  memory.session_ = session_;
  return memory;
}

Status Communicator::barrier() { return run({.collective = Collective::kBarrier}); }

Result<Communicator> Communicator::split(int color, int key) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Communicator> {
    WEFT_TRY(auto session, session_->split(color, key));
    return Communicator(std::move(session));
  });
}

Result<Communicator> Communicator::shrink() { return shrink(std::span<const Rank>()); }

Result<Communicator> Communicator::shrink(std::span<const Rank> without) {
  if (!session_) return no_communicator();
  for (const Rank r : without)
    if (r < 0 || r >= ranks() || r == rank())
      return bad_input("shrink: rank {} cannot go on without rank {} of {}", rank(), r, ranks());
  return entered(*session_, [&]() -> Result<Communicator> {
    WEFT_TRY(auto session, session_->shrink(without));
    return Communicator(std::move(session));
  });
}

Result<Agreement> Communicator::agree(std::uint64_t bits) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Agreement> { return session_->agree(bits); });
}

Result<Communicator> Communicator::grow(const UniqueId& id, Rank ranks) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Result<Communicator> {
    WEFT_TRY(auto session, session_->grow(id, ranks));
    return Communicator(std::move(session));
  });
}

Status Communicator::status() {
  if (!session_) return no_communicator();
  const session::CallGuard::Visit visit(session_->guard);
  return session_->status();
}

Status Communicator::set_timeout(std::chrono::milliseconds timeout) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Status { return session_->set_timeout(timeout); });
}

void Communicator::set_interrupt(std::function<bool()> interrupted) {
  if (!session_) return;
  const session::CallGuard::Turn turn(session_->guard);
  session_->executor().interrupt_by(session::without_throwing(std::move(interrupted)));
}

void Communicator::abort(std::string_view why) {
  if (session_ && !session_->owner.inherited()) session_->abort(why);
}

Status Communicator::monitored_barrier(std::chrono::milliseconds timeout) {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Status { return session_->monitored_barrier(timeout); });
}

Status Communicator::finalize() {
  if (!session_) return no_communicator();
  return entered(*session_, [&]() -> Status { return session_->finalize(); });
}

Communicator::Choice Communicator::last_choice() const {
  const session::Prepared* last = session_ ? session_->last() : nullptr;
  if (last == nullptr) return {};
  return {std::string(last->plan.algorithm->name), std::string(protocol::traits(last->plan.protocol).name),
          last->plan.channels};
}

Status Communicator::size_mismatch(std::size_t in, std::size_t out) {
  return bad_input("input of {} and output of {} elements do not fit each other", in, out);
}

}  // namespace weft
