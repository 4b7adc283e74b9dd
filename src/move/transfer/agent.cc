#include <poll.h>

#include <algorithm>
#include <thread>

#include "base/env.h"
#include "move/transfer/state.h"

namespace weft::transfer {
namespace {

constexpr Bytes kMostPages = Bytes{1} << 24;
constexpr Bytes kPostBudget = 256 << 10;  // post() returns after about this many bytes …
constexpr Bytes kPollBudget = 2 << 20;    // … poll() and a round of wait() after this many

// What notify() has accepted arrives, unless the peers' servers do not answer within a second.
void deliver_notifications(const std::vector<std::shared_ptr<Peer>>& peers) {
  constexpr std::chrono::seconds kMost{1};
  const auto undelivered = [](const auto& peer) {
    return peer->line != nullptr && !peer->line->over() && peer->line->advance() &&
           !peer->line->notifications_arrived();
  };
  const auto until = std::chrono::steady_clock::now() + kMost;
  while (std::ranges::count_if(peers, undelivered) > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

}  // namespace

std::string_view name(State state) {
  constexpr std::string_view kNames[] = {"prepared", "running", "done", "failed", "cancelled", "expired"};
  const auto at = static_cast<std::size_t>(state);
  return at < std::size(kNames) ? kNames[at] : "unknown";
}

std::int64_t Prepared::elements() const { return list_ == nullptr ? 0 : list_->elements; }

std::int64_t Prepared::element_bytes() const {
  if (list_ == nullptr || list_->rows.empty()) return 0;
  const std::int64_t bytes = list_->rows.front().bytes;
  return std::ranges::all_of(list_->rows, [&](const Rows& r) { return r.bytes == bytes; }) ? bytes : 0;
}
State Request::state() const { return work_ ? work_->state : State::kFailed; }
const Error& Request::error() const {
  static const Error none = bad_input("the request is empty: make() did not return it").value();
  return work_ ? work_->error : none;
}
std::int64_t Request::moved_bytes() const { return work_ ? work_->moved : 0; }
std::chrono::steady_clock::time_point Request::progressed() const {
  return work_ ? work_->progressed : std::chrono::steady_clock::time_point();
}
std::chrono::steady_clock::time_point Request::posted() const {
  return work_ ? work_->started : std::chrono::steady_clock::time_point();
}

Agent::Agent(std::unique_ptr<detail::AgentState> state) : state_(std::move(state)) {}
Agent::Agent(Agent&&) noexcept = default;
Agent& Agent::operator=(Agent&& o) noexcept {
  Agent replaced(std::move(*this));  // ends as by its destructor
  state_ = std::move(o.state_);
  return *this;
}

Result<Agent> Agent::open(Options options) {
  if (options.name.empty() || options.name.size() > 64)
    return bad_input("an agent's name has 1 to 64 bytes, not {}", options.name.size());
  const auto unprintable = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(options.name, unprintable))
    return bad_input("an agent's name has no control characters: byte {} is one",
                     std::ranges::find_if(options.name, unprintable) - options.name.begin());
  if (options.only_network && options.key.empty()) return bad_input("an agent that uses the network only needs a key");
  if (options.network > Network::kUcx)
    return bad_input("network {} is none: there are 0 to {}", static_cast<int>(options.network),
                     static_cast<int>(Network::kUcx));
  if (options.pages < 1 || options.pages > kMostPages)
    return bad_input("{} pages: an agent has 1 to {}", options.pages, kMostPages);
  if (!options.listen.empty() && options.key.empty()) return bad_input("an agent that listens needs a key");
  WEFT_TRY(const env::Settings settings, env::read());
  if (!settings.secure.empty() && !options.listen.empty())
    return bad_input("WEFT_SECURE={}: an agent that listens sends and receives in the clear; unset one of the two",
                     settings.secure);
  auto s = std::make_unique<detail::AgentState>();
  s->meeting = {.self = options.name,
                .process = this_process(),
                .network = options.network,
                .only_network = options.only_network,
                .costs = options.costs,
                .secure = settings.secure};
  WEFT_CHECK(open_ucx(s->meeting));
  s->meeting.gpus = [state = s.get()] { return state->gpus(); };
  if (!options.key.empty()) s->meeting.key = net::link::sha256("weft transfer key: " + options.key);
  s->layout = net::link::sha256(options.layout);
  const auto pages = static_cast<std::uint64_t>(options.pages);
  WEFT_TRY(auto memory, make_shared_memory(Segment::bytes_for(pages), false));
  s->control_fd = std::move(memory.fd);
  s->segment = Segment(std::move(memory.mapping));
  Header& header = s->segment.header();
  header.magic = kSegmentMagic;
  header.pages = pages;
  net::link::fill_random(header.nonce);
  s->page_words = FreeList(0, options.pages, 1);
  s->segment.slot(kOwnSlot).owner.store(s->meeting.process);
  s->self = std::make_shared<Peer>();
  s->self->name = "this agent";
  s->self->is_self = true;
  s->self->control = &s->segment;
  s->self->slot = kOwnSlot;
  if (!options.listen.empty()) {
    WEFT_TRY(const auto at, net::link::parse_listener("listen", options.listen));
    const std::string text = at.text();
    if (text.starts_with("0.0.0.0:") || text.starts_with("[::]:"))
      return bad_input("listen {}: metadata gives peers this address; name one that they can connect to",
                       options.listen);
    WEFT_TRY(s->server, Server::open(at, s->meeting.key, s->regions, s->segment, s->meeting.ucx));
  }
  s->options = std::move(options);
  return Agent(std::move(s));
}

Agent::~Agent() {
  if (state_ == nullptr) return;
  if (state_->owner.inherited()) {
    leave(state_);
    return;
  }
  for (const auto& weak : state_->works) {
    const auto work = weak.lock();
    if (work == nullptr || work->state != State::kRunning) continue;
    work->stop(State::kCancelled, {Code::kAborted, Blame::kOperation, "the agent has been closed"});
    while (work->state == State::kRunning) {
      step(work, state_->options.name, 0);
      std::this_thread::yield();
    }
  }
  std::vector<std::shared_ptr<Peer>> peers;
  for (const auto& [name, peer] : state_->peers) peers.push_back(peer);
  deliver_notifications(peers);
  state_->segment.header().closed.store(1);
  for (const auto& region : state_->regions.all()) (void)deregister({region->id}, std::chrono::milliseconds(500));
  const Error closed{Code::kPeerLeft, Blame::kOperation, "the agent has been closed"};
  for (const auto& [name, peer] : state_->peers) peer->leave(closed);
  state_->self->leave(closed);
}

Result<std::string> Agent::metadata() const { return metadata_of(nullptr); }
Result<std::string> Agent::metadata(std::span<const Registration> regions) const { return metadata_of(&regions); }

Result<std::string> Agent::metadata_of(const std::span<const Registration>* some) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  const detail::AgentState& s = *state_;
  Metadata m;
  m.nonce = s.segment.header().nonce;
  m.process = s.meeting.process;
  m.control = s.control_fd.get();
  m.pages = s.segment.header().pages;
  m.header = reinterpret_cast<std::uint64_t>(&s.segment.header());
  if (s.server != nullptr) m.address = s.server->address();
  m.ucx = s.server != nullptr && s.meeting.ucx != nullptr;
  m.layout = s.layout;
  m.name = s.options.name;
  m.partial = some != nullptr;
  if (some != nullptr)
    for (const Registration& one : *some) WEFT_CHECK(s.region(one));
  const auto asked = [&](std::uint32_t id) {
    return some == nullptr ||
           std::any_of(some->begin(), some->end(), [&](const auto& one) { return one.region == id; });
  };
  for (const auto& r : s.regions.all()) {
    if (r->data == nullptr || r->closing || !asked(r->id)) continue;
    RegionRecord& record = m.regions.emplace_back(r->id, reinterpret_cast<std::uint64_t>(r->data), r->bytes,
                                                  r->page_bytes, r->memory.fd.get(), r->first_page, r->generation);
    if (r->copier != nullptr) record.gpu = r->copier->record_of(r->gpu, r->data);
  }
  return encode(m, s.meeting.key);
}

Result<std::string> Agent::load(std::string_view bytes) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  detail::AgentState& s = *state_;
  WEFT_TRY(const Metadata m, decode(bytes, s.meeting.key));
  if (m.layout != s.layout)
    return bad_input("peer '{}' has pages of another layout than this agent ('{}')", m.name, s.options.layout);
  if (m.name == s.options.name) return bad_input("peer '{}' has this agent's own name", m.name);
  const auto known = s.peers.find(m.name);
  const auto serves = [](const Peer& peer) {
    return !peer.problem() && (peer.line == nullptr || (!peer.line->over() && peer.line->advance()));
  };
  if (known != s.peers.end() && known->second->metadata.nonce == m.nonce && serves(*known->second)) {
    WEFT_CHECK(add_targets(*known->second, m, s.meeting));
    return m.name;
  }
  WEFT_TRY(auto peer, meet(m, s.meeting));
  if (known != s.peers.end())
    known->second->leave({Code::kNotFound, Blame::kOperation,
                          fmt::format("{} has {} since this list was prepared", known->second->name,
                                      known->second->metadata.nonce == m.nonce ? "been connected anew" : "restarted")});
  s.peers[m.name] = std::move(peer);
  return m.name;
}

Status Agent::forget(const std::string& name) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (peer->is_self) return bad_input("an agent cannot forget itself");
  deliver_notifications({peer});
  peer->leave({Code::kNotFound, Blame::kOperation, peer->name + " has been forgotten"});
  state_->peers.erase(name);
  return {};
}

Status Agent::check(const std::string& name) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (auto problem = peer->problem()) return tl::make_unexpected(std::move(*problem));
  if (peer->line == nullptr) return {};
  if (const Status there = peer->line->advance(); !there)
    return failure(there.error().code, Blame::kOperation, "{}: {}", peer->name, there.error().message);
  return {};
}

Result<std::string> Agent::explain(const std::string& name) const {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  std::string text;
  for (const auto& [region, target] : peer->targets) text += fmt::format("region {}: {}\n", region, target->why);
  return text;
}

Result<Request> Agent::make(Op op, const Prepared& local, const Prepared& remote, const RequestOptions& options) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  if (op != Op::kRead && op != Op::kWrite)
    return bad_input("make: operation {} is neither kRead nor kWrite", static_cast<int>(op));
  constexpr std::chrono::milliseconds kMostDeadline = std::chrono::hours(24 * 365 * 100);
  if (options.deadline.count() < 0 || options.deadline > kMostDeadline)
    return bad_input("make: a deadline of {} ms: it is 0 (none) to {} ms (100 years)", options.deadline.count(),
                     kMostDeadline.count());
  if (local.list_ == nullptr || remote.list_ == nullptr) return bad_input("a list that was never prepared");
  if (local.list_->peer != state_->self) return bad_input("the local list must be of this agent's own regions");
  WEFT_CHECK(check_lists(*local.list_, *remote.list_, options, op));
  Request request;
  request.work_ = std::make_shared<detail::Work>();
  detail::Work& w = *request.work_;
  w.op = op;
  w.local = local.list_;
  w.remote = remote.list_;
  w.local_blocks.assign(options.local_blocks.begin(), options.local_blocks.end());
  w.remote_blocks.assign(options.remote_blocks.begin(), options.remote_blocks.end());
  w.generations.assign(options.generations.begin(), options.generations.end());
  w.notify = options.notify;
  w.deadline = options.deadline;
  w.verify = options.verify;
  w.elements = !w.local_blocks.empty()    ? static_cast<std::int64_t>(w.local_blocks.size())
               : !w.remote_blocks.empty() ? static_cast<std::int64_t>(w.remote_blocks.size())
                                          : w.local->elements;
  if (w.local_blocks.empty()) {
    for (const Rows& row : w.local->rows) w.total += row.bytes * row.count;
  } else {
    for (std::int64_t i = 0; i < w.elements; ++i) w.total += w.local_at(i).bytes;
  }
  std::erase_if(state_->works, [](const auto& weak) { return weak.expired(); });
  state_->works.push_back(request.work_);
  return request;
}

Status Agent::post(Request& request, std::optional<std::string_view> notify) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  if (request.work_ == nullptr) return bad_input("a request that was never made");
  if (request.work_->local->peer != state_->self) return bad_input("the request was made by another agent");
  if (request.work_->state == State::kRunning)
    return bad_input("the request is running: it can be posted again after its end");
  if (notify && notify->size() > kMostNotification)
    return bad_input("a notification of {} bytes; at most {} fit", notify->size(), kMostNotification);
  if (notify) request.work_->notify = *notify;
  start(request.work_);
  step(request.work_, state_->options.name, kPostBudget);
  return {};
}

State Agent::poll(Request& request) {
  if (state_ == nullptr || request.work_ == nullptr) return request.state();
  if (state_->owner.inherited()) [[unlikely]] {  // the parent carries on with its own copy
    if (request.work_->state == State::kRunning) request.work_->end(State::kFailed, detail::forked_agent().value());
    return request.work_->state;
  }
  const std::lock_guard guard(state_->mutex);
  if (request.work_->state == State::kRunning) step(request.work_, state_->options.name, kPollBudget);
  return request.work_->state;
}

State Agent::wait(Request& request) { return wait(request, std::chrono::milliseconds::max()); }

State Agent::wait(Request& request, std::chrono::milliseconds limit) {
  constexpr std::chrono::microseconds kLookFor{100};  // then it sleeps, and has to be woken
  const auto begin = std::chrono::steady_clock::now();
  auto last = begin;
  std::int64_t moved = -1;
  while (poll(request) == State::kRunning) {
    const auto now = std::chrono::steady_clock::now();
    if (std::chrono::duration_cast<std::chrono::milliseconds>(now - begin) >= limit) break;
    const bool moves = request.moved_bytes() != moved;
    moved = request.moved_bytes();
    if (moves)
      last = now;
    else if (now - last > kLookFor)
      rest(request);
    else
      std::this_thread::yield();
  }
  return request.state();
}

// A core that looks in vain may be the one that the peer needs.
void Agent::rest(const Request& request) {
  if (state_ == nullptr) return;
  thread_local std::vector<pollfd> list;
  list.clear();
  {
    const std::lock_guard guard(state_->mutex);
    if (!request.work_->jobs.empty()) list.push_back({.fd = -1, .events = 0, .revents = 0});
    const auto& line = request.work_->remote->peer->line;
    if (list.empty() && (line == nullptr || !line->watch(list))) return std::this_thread::yield();
  }
  ::poll(list.data(), list.size(), 1);
}

Status Agent::cancel(Request& request) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  if (request.work_ == nullptr || request.work_->state != State::kRunning)
    return bad_input("the request is not running");
  if (request.work_->local->peer != state_->self) return bad_input("the request was made by another agent");
  detail::Work& w = *request.work_;
  w.stop(State::kCancelled,
         {Code::kAborted, Blame::kOperation,
          fmt::format("{}: cancelled by its caller after {} of {} bytes", w.remote->peer->name, w.moved, w.total)});
  constexpr std::chrono::milliseconds kAtOnce{20};  // a peer that serves has confirmed by then
  const auto begin = std::chrono::steady_clock::now();
  while (w.state == State::kRunning && std::chrono::steady_clock::now() - begin < kAtOnce) {
    step(request.work_, state_->options.name, 0);
    std::this_thread::yield();
  }
  if (w.state != State::kRunning) return {};
  return failure(Code::kTimeout, Blame::kOperation,
                 "{}: has not confirmed what was written so far; the request runs until it has, {} s at most",
                 w.remote->peer->name, kConfirm.count());
}

namespace {

// Nobody sends what is left behind in this process until the agent's next call: at most one notification.
Status notify_by_line(const Peer& peer, std::string_view bytes) {
  constexpr std::chrono::milliseconds kToLeave{20};
  Line& line = *peer.line;
  const auto broken = [&](const Error& why) {
    return failure(why.code, Blame::kOperation, "{}: {}", peer.name, why.message);
  };
  const auto left = [&] { return line.notifications_left(); };
  const auto accepted = [&] { return left() && line.notify(bytes); };
  if (!accepted()) {
    if (const Status moved = line.advance(); !moved) return broken(moved.error());
    if (!accepted())
      return failure(Code::kNoResources, Blame::kOperation, "{}: its queue of notifications is full", peer.name);
  }
  const auto moved = line.advance_until(std::chrono::steady_clock::now() + kToLeave, left);
  return moved ? Status() : broken(moved.error());
}

}  // namespace

Status Agent::notify(const std::string& name, std::string_view bytes) {
  WEFT_CHECK(detail::usable(state_));
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (bytes.size() > kMostNotification)
    return bad_input("a notification of {} bytes; at most {} fit", bytes.size(), kMostNotification);
  if (const auto problem = peer->problem()) return tl::make_unexpected(*problem);
  if (peer->control != nullptr) {
    if (push(peer->control->slot(peer->slot), state_->options.name, bytes)) return {};
    return failure(Code::kNoResources, Blame::kOperation, "{}: its queue of notifications is full", peer->name);
  }
  return notify_by_line(*peer, bytes);
}

std::vector<Notification> Agent::notifications() {
  if (state_ == nullptr) return {};
  const std::lock_guard guard(state_->mutex);
  std::vector<Notification> list;
  if (state_->server != nullptr) list = state_->server->take_notifications();
  Notification next;
  for (std::uint32_t i = kOwnSlot; i < kSlots; ++i)
    while (state_->segment.slot(i).owner.load() != 0 && pop(state_->segment.slot(i), next.peer, next.bytes))
      list.push_back(next);
  state_->sweep();
  return list;
}

}  // namespace weft::transfer
