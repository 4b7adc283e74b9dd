#include <algorithm>

#include "move/kv/line.h"
#include "move/kv/state.h"

namespace weft::kv {
namespace {

using namespace std::chrono_literals;
using transfer::Op;
using transfer::State;

std::uint32_t milliseconds(std::chrono::milliseconds time) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(time.count(), 1, 24 * 3600 * 1000));
}

}  // namespace

// Shared by the client and what it has given out.
struct detail::ClientState final : Holder {
  // The error behind the name of the store.
  tl::unexpected<Error> failed(const Error& error) const {
    Error named = error;
    named.message = fmt::format("{}: {}", name, error.message);
    return tl::make_unexpected(std::move(named));
  }
  Result<Reply> ask(const Question& question, std::span<const BlockKey> keys = {}) {
    const std::lock_guard guard(mutex);
    auto reply = line->ask(question, keys);
    if (!reply) return failed(reply.error());
    return reply;
  }
  void post(Ask what, std::uint64_t id) {
    const std::lock_guard guard(mutex);
    line->post({.ask = what, .id = id});
  }
  void end(std::uint64_t lease) override { post(Ask::kEnd, lease); }
  void abandon(std::uint64_t writing) override { post(Ask::kAbandon, writing); }
  Result<std::int64_t> commit(std::uint64_t writing) override {
    WEFT_TRY(const Reply reply, ask({.ask = Ask::kCommit, .id = writing}));
    return reply.answer.number;
  }
  Result<Reply> hold(Ask what, std::string_view salt, std::span<const Token> tokens, bool holds = true) {
    const auto keys = block_keys(salt, tokens, block_tokens);
    if (keys.size() > kMostKeys)
      return bad_input("{}: a prompt of {} blocks; a question has at most {}", name, keys.size(), kMostKeys);
    return ask({.ask = what,
                .count = static_cast<std::uint32_t>(keys.size()),
                .milliseconds = holds ? milliseconds(lease) : 0},
               keys);
  }
  Status extend(std::uint64_t id) {
    WEFT_TRY(const Reply reply, ask({.ask = Ask::kExtend, .id = id, .milliseconds = milliseconds(lease)}));
    return {};
  }
  Status move(Op op, std::span<const transfer::Page> pages, const transfer::Registration& memory, std::int64_t offset);

  // Constant after connect().
  transfer::Agent* agent = nullptr;
  std::chrono::milliseconds lease{0};
  std::function<bool()> interrupted;
  std::string peer, name;  // of the store's agent; "store 'NAME' at ADDRESS"
  std::int64_t page_bytes = 0, block_tokens = 0;
  transfer::Prepared all;

  std::mutex mutex;
  std::unique_ptr<Line> line;  // by the mutex
};

Status detail::ClientState::move(Op op, std::span<const transfer::Page> pages, const transfer::Registration& memory,
                                 std::int64_t offset) {
  if (pages.empty()) return {};
  const auto count = static_cast<std::int64_t>(pages.size());
  const std::vector<transfer::Rows> here{{memory.region, offset, page_bytes, page_bytes, count}};
  WEFT_TRY(const auto local, agent->prepare("", here));
  std::vector<std::uint32_t> blocks;
  std::vector<std::uint64_t> generations;
  for (const transfer::Page& page : pages) {
    blocks.push_back(page.index);
    generations.push_back(page.generation);
  }
  WEFT_TRY(auto request,
           agent->make(op, local, all,
                       {.remote_blocks = blocks, .generations = generations, .deadline = lease, .verify = true}));
  WEFT_CHECK(agent->post(request));
  while (agent->wait(request, 50ms) == State::kRunning)
    if (interrupted && interrupted()) (void)agent->cancel(request);
  if (request.state() != State::kDone) return failed(request.error());
  return {};
}

Result<Client> Client::connect(transfer::Agent& agent, const ClientOptions& options) {
  constexpr std::chrono::milliseconds kMost = 24h * 365 * 100;
  if (options.timeout < 1ms || options.lease < 1ms || options.timeout > kMost || options.lease > kMost)
    return bad_input("a timeout of {} ms and leases of {} ms: both are 1 to {} ms (100 years)", options.timeout.count(),
                     options.lease.count(), kMost.count());
  WEFT_TRY(const auto address, net::link::parse_address("address", options.address));
  WEFT_CHECK(check_key(options.key));
  WEFT_CHECK(check_not_secure());
  auto state = std::make_shared<detail::ClientState>();
  state->name = fmt::format("store at {}", address.text());
  auto line = Line::open(address, connection_key(options.key), options.timeout, options.interrupted);
  if (!line) return state->failed(line.error());
  state->line = std::move(*line);
  WEFT_TRY(const Reply hello, state->ask({.ask = Ask::kHello, .milliseconds = kStoreVersion}));
  Description description;
  if (hello.text.size() > sizeof description) std::memcpy(&description, hello.text.data(), sizeof description);
  if (hello.text.size() <= sizeof description || description.version != kStoreVersion)
    return state->failed({Code::kInternal, Blame::kOperation, "it describes itself in no way that is known"});
  auto loaded = agent.load(std::string_view(hello.text).substr(sizeof description));
  if (!loaded) return state->failed(loaded.error());
  state->peer = std::move(*loaded);
  state->name = fmt::format("store '{}' at {}", state->peer, address.text());
  const std::vector<transfer::Rows> there{
      {description.region, 0, description.page_bytes, description.page_bytes, description.pages}};
  auto all = agent.prepare(state->peer, there);
  if (description.block_tokens < 1) all = bad_input("blocks of {} tokens", description.block_tokens);
  if (!all) return state->failed(all.error());
  state->all = std::move(*all);
  state->agent = &agent;
  state->lease = options.lease;
  state->interrupted = options.interrupted;
  state->page_bytes = description.page_bytes;
  state->block_tokens = description.block_tokens;
  return Client(std::move(state));
}

Client::Client(std::shared_ptr<detail::ClientState> state) : state_(std::move(state)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() {
  if (state_ != nullptr && state_->owner.inherited()) leave(state_);
}

Result<Lease> Client::match(std::string_view salt, std::span<const Token> tokens) {
  WEFT_CHECK(detail::usable(state_, "client"));
  WEFT_TRY(Reply reply, state_->hold(Ask::kMatch, salt, tokens));
  Lease lease;
  if (reply.answer.id == 0) return lease;
  lease.holder_ = state_;
  lease.id_ = reply.answer.id;
  lease.tokens_ = static_cast<std::int64_t>(reply.pages.size()) * state_->block_tokens;
  lease.pages_ = std::move(reply.pages);
  return lease;
}

Result<Writing> Client::begin(std::string_view salt, std::span<const Token> tokens) {
  WEFT_CHECK(detail::usable(state_, "client"));
  WEFT_TRY(Reply reply, state_->hold(Ask::kBegin, salt, tokens));
  Writing writing;
  writing.holder_ = state_;
  writing.id_ = reply.answer.id;
  writing.pages_ = std::move(reply.pages);
  writing.first_block_ = reply.answer.number;
  return writing;
}

Status Client::extend(const Lease& lease) {
  WEFT_CHECK(detail::usable(state_, "client"));
  if (lease.pages_.empty()) return {};
  if (lease.holder_ == nullptr) return bad_input("this lease has ended");
  return state_->extend(lease.id_);
}
Status Client::extend(const Writing& writing) {
  WEFT_CHECK(detail::usable(state_, "client"));
  if (writing.holder_ == nullptr) return bad_input("this writing has ended");
  return state_->extend(writing.id_);
}

Status Client::read(const Lease& lease, const transfer::Registration& memory, std::int64_t offset) {
  WEFT_CHECK(detail::usable(state_, "client"));
  if (!lease.pages_.empty() && lease.holder_ == nullptr) return bad_input("this lease has ended");
  return state_->move(Op::kRead, lease.pages_, memory, offset);
}
Status Client::write(const Writing& writing, const transfer::Registration& memory, std::int64_t offset) {
  WEFT_CHECK(detail::usable(state_, "client"));
  if (!writing.pages_.empty() && writing.holder_ == nullptr) return bad_input("this writing has ended");
  return state_->move(Op::kWrite, writing.pages_, memory, offset);
}

Result<std::int64_t> Client::get(std::string_view salt, std::span<const Token> tokens,
                                 const transfer::Registration& memory, std::int64_t offset) {
  WEFT_CHECK(detail::usable(state_, "client"));
  // Without a lease first, whose end would be another question: where a page has been given to another
  // block meanwhile, its generation makes the read fail.
  WEFT_TRY(const Reply reply, state_->hold(Ask::kMatch, salt, tokens, false));
  const Status read_at_once = state_->move(Op::kRead, reply.pages, memory, offset);
  if (read_at_once) return static_cast<std::int64_t>(reply.pages.size()) * state_->block_tokens;
  if (read_at_once.error().code != Code::kMismatch) return tl::make_unexpected(read_at_once.error());
  WEFT_TRY(const Lease lease, match(salt, tokens));
  WEFT_CHECK(read(lease, memory, offset));
  return lease.tokens();
}

Result<std::int64_t> Client::put(std::string_view salt, std::span<const Token> tokens,
                                 const transfer::Registration& memory, std::int64_t offset) {
  WEFT_CHECK(detail::usable(state_, "client"));
  WEFT_TRY(Writing writing, begin(salt, tokens));
  WEFT_CHECK(write(writing, memory, offset + writing.first_block() * state_->page_bytes));
  return writing.commit();
}

const transfer::Prepared& Client::pages() const {
  static const transfer::Prepared none;
  return state_ ? state_->all : none;
}
const std::string& Client::peer() const {
  static const std::string none;
  return state_ ? state_->peer : none;
}
std::int64_t Client::page_bytes() const { return state_ ? state_->page_bytes : 0; }
std::int64_t Client::block_tokens() const { return state_ ? state_->block_tokens : 0; }

Result<Counters> Client::counters() {
  WEFT_CHECK(detail::usable(state_, "client"));
  WEFT_TRY(const Reply reply, state_->ask({.ask = Ask::kCounters}));
  Counters counters;
  if (reply.text.size() != sizeof counters)
    return state_->failed({Code::kInternal, Blame::kOperation, "its counters have another form"});
  std::memcpy(&counters, reply.text.data(), sizeof counters);
  return counters;
}

}  // namespace weft::kv
