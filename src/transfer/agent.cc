#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "net/tcp/crc32c.h"
#include "transfer/server.h"
#include "transfer/work.h"

namespace weft::transfer {
namespace {

constexpr Bytes kMostPages = Bytes{1} << 24;
constexpr std::uint64_t kCount = (std::uint64_t{1} << 48) - 1;  // of a generation; above it stands the owner's tag
constexpr Bytes kPostBudget = 256 << 10;                        // post() returns after about so many bytes …
constexpr Bytes kPollBudget = 2 << 20;                          // … poll() and a round of wait() after so many

std::uint64_t next_generation(PageWord& page, std::uint64_t tag) {
  const std::uint64_t next = tag << 48 | ((page.generation.load() + 1) & kCount);
  page.generation.store(next);
  return next;
}

// "host:port"; port 0: any that is free.
Result<net::bootstrap::Address> address_to_listen_on(const std::string& text) {
  if (text.size() < 3 || text.substr(text.size() - 2) != ":0") return net::bootstrap::parse_address("listen", text);
  std::string host = text.substr(0, text.size() - 2);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return net::bootstrap::resolve("listen", host, 0);
}

}  // namespace

namespace detail {

struct AgentState {
  Options options;
  MeetOptions meeting;
  net::bootstrap::Digest layout{};
  net::bootstrap::UniqueFd control_fd;
  Segment segment;
  FreeList page_words{0, 0, 1};
  Regions regions;
  std::uint32_t next_region = 0;
  std::unique_ptr<Server> server;  // ends before what stands above it
  std::shared_ptr<Peer> self;
  std::map<std::string, std::shared_ptr<Peer>> peers;
  std::vector<std::weak_ptr<Work>> works;
  std::mutex mutex;

  PinWord& pin_of(std::uint32_t slot) const { return segment.slot(slot).pin; }
  bool ended(std::uint32_t slot) const {
    const std::uint64_t owner = segment.slot(slot).owner.load();
    return slot > kOwnSlot && (owner == 0 || process_ended(owner));
  }
  Grace begin_grace(std::uint32_t region) const {
    return Grace::begin(kSlots, region, [this](std::uint32_t slot) -> PinWord& { return pin_of(slot); });
  }
  bool over(Grace& grace) const {
    return grace.over([this](std::uint32_t slot) -> PinWord& { return pin_of(slot); },
                      [this](std::uint32_t slot) { return ended(slot); });
  }
  Result<std::shared_ptr<Region>> region(const Registration& known) const {
    auto found = regions.find(known.region);
    if (found == nullptr) return bad_input("region {} is not registered", known.region);
    return found;
  }
  Result<std::shared_ptr<Peer>> peer(const std::string& name) const {
    if (name.empty()) return self;
    const auto found = peers.find(name);
    if (found == peers.end()) return bad_input("no peer is called '{}': load its metadata first", name);
    return found->second;
  }
  Status check_new(const void* data, Bytes bytes, Bytes page_bytes) const;
  Result<Registration> add(std::shared_ptr<Region> region);
  void drain(Region& region) const;
  void sweep() const;
};

Status AgentState::check_new(const void* data, Bytes bytes, Bytes page_bytes) const {
  if (bytes <= 0 || page_bytes < 0 || (page_bytes > 0 && bytes % page_bytes != 0))
    return bad_input("{} bytes in pages of {}: both must be positive, and the pages whole", bytes, page_bytes);
  if (next_region >= kMostRegions) return bad_input("this agent has registered {} regions", kMostRegions);
  if (data == nullptr) return {};
  const auto begin = reinterpret_cast<std::uintptr_t>(data), end = begin + static_cast<std::uintptr_t>(bytes);
  if (end < begin) return bad_input("{} bytes at {} leave the address space", bytes, data);
  for (const auto& r : regions.all()) {
    const auto first = reinterpret_cast<std::uintptr_t>(r->data), last = first + static_cast<std::uintptr_t>(r->bytes);
    if (r->data != nullptr && begin < last && first < end)
      return bad_input("{} bytes at {} overlap region {} of {} bytes at {}", bytes, data, r->id, r->bytes,
                       static_cast<const void*>(r->data));
  }
  return {};
}

Result<Registration> AgentState::add(std::shared_ptr<Region> r) {
  r->pages = r->fenced() ? static_cast<std::uint64_t>(r->bytes / r->page_bytes) : 1;
  const auto place = page_words.allocate(static_cast<Bytes>(r->pages));
  if (!place)
    return failure(Code::kNoResources, Blame::kInput, "{} pages: this agent has been opened for {} in all regions",
                   r->pages, options.pages);
  r->first_page = static_cast<std::uint64_t>(*place);
  r->id = next_region++;
  if (!r->fenced()) {
    r->generation = next_generation(segment.page(r->first_page), 0xffff);
  } else {
    for (std::uint64_t i = r->pages; i-- > 0;) r->free.push_back(static_cast<std::uint32_t>(i));
  }
  auto target = std::make_shared<Target>();
  target->region = r->id;
  target->path = r->data == nullptr ? Path::kFile : Path::kDirect;
  target->base = r->data;
  target->fd = r->file.get();
  target->bytes = r->bytes;
  target->page_bytes = r->page_bytes;
  target->generation = r->generation;
  target->pages = &segment.page(r->first_page);
  target->why = r->data == nullptr ? "file: pread and pwrite" : "direct: this agent's memory";
  self->targets[r->id] = std::move(target);
  regions.add(r);
  return Registration{r->id, r->data, r->bytes, r->page_bytes};
}

void AgentState::drain(Region& region) const {
  while (!region.draining.empty() && over(region.draining.front().grace)) {
    region.free.push_back(region.draining.front().page);
    region.draining.pop_front();
  }
}

// Places of peers that have left or ended become free again, when their notifications have been taken.
void AgentState::sweep() const {
  for (std::uint32_t i = kOwnSlot + 1; i < kSlots; ++i) {
    Slot& slot = segment.slot(i);
    const std::uint64_t owner = slot.owner.load();
    if (owner == 0 || slot.head.load() != slot.tail.load()) continue;
    if (slot.left.load() == 0 && !process_ended(owner)) continue;
    if (slot.head.load() != slot.tail.load()) continue;  // the last words before it left
    if ((slot.pin.load() & 0xffff) != 0) unpin(slot.pin);
    slot.left.store(0);
    slot.owner.store(0);
  }
}

}  // namespace detail

std::string_view name(State state) {
  constexpr std::string_view kNames[] = {"prepared", "running", "done", "failed", "cancelled", "expired"};
  return kNames[static_cast<int>(state)];
}

std::int64_t Prepared::elements() const { return list_ == nullptr ? 0 : list_->elements; }
State Request::state() const { return work_->state; }
const Error& Request::error() const { return work_->error; }
std::int64_t Request::moved_bytes() const { return work_->moved; }
std::chrono::steady_clock::time_point Request::progressed() const { return work_->progressed; }

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
  if (options.pages < 1 || options.pages > kMostPages)
    return bad_input("{} pages: an agent has 1 to {}", options.pages, kMostPages);
  if (!options.listen.empty() && options.key.empty()) return bad_input("an agent that listens needs a key");
  auto s = std::make_unique<detail::AgentState>();
  s->meeting = {.self = options.name, .process = this_process(), .only_tcp = options.only_tcp};
  if (!options.key.empty()) s->meeting.key = net::bootstrap::sha256("weft transfer key: " + options.key);
  s->layout = net::bootstrap::sha256(options.layout);
  const auto pages = static_cast<std::uint64_t>(options.pages);
  WEFT_TRY(auto memory, make_shared_memory(Segment::bytes_for(pages), false));
  s->control_fd = std::move(memory.fd);
  s->segment = Segment(std::move(memory.mapping));
  Header& header = s->segment.header();
  header.magic = kSegmentMagic;
  header.pages = pages;
  net::bootstrap::fill_random(header.nonce);
  s->page_words = FreeList(0, options.pages, 1);
  s->segment.slot(kOwnSlot).owner.store(s->meeting.process);
  s->self = std::make_shared<Peer>();
  s->self->name = "this agent";
  s->self->is_self = true;
  s->self->control = &s->segment;
  s->self->slot = kOwnSlot;
  if (!options.listen.empty()) {
    WEFT_TRY(const auto at, address_to_listen_on(options.listen));
    WEFT_TRY(s->server, Server::open(at, s->meeting.key, s->regions, s->segment));
  }
  s->options = std::move(options);
  return Agent(std::move(s));
}

Agent::~Agent() {
  if (state_ == nullptr) return;
  for (const auto& weak : state_->works)
    if (const auto work = weak.lock(); work != nullptr && work->state == State::kRunning)
      work->end(State::kCancelled, {Code::kAborted, Blame::kOperation, "the agent has been closed"});
  state_->segment.header().closed.store(1);
  for (const auto& region : state_->regions.all()) (void)deregister({region->id}, std::chrono::milliseconds(500));
  const Error closed{Code::kPeerLeft, Blame::kOperation, "the agent has been closed"};
  for (const auto& [name, peer] : state_->peers) peer->gone = closed;
  state_->self->gone = closed;
}

Result<Registration> Agent::allocate(std::int64_t bytes, std::int64_t page_bytes) {
  const std::lock_guard guard(state_->mutex);
  WEFT_CHECK(state_->check_new(nullptr, bytes, page_bytes));
  auto region = std::make_shared<Region>();
  WEFT_TRY(region->memory, make_shared_memory(bytes, true));
  region->data = region->memory.mapping.data();
  region->bytes = bytes;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

Result<Registration> Agent::add_memory(void* data, std::int64_t bytes, std::int64_t page_bytes) {
  const std::lock_guard guard(state_->mutex);
  if (data == nullptr) return bad_input("memory at address 0");
  WEFT_CHECK(state_->check_new(data, bytes, page_bytes));
  auto region = std::make_shared<Region>();
  region->data = static_cast<std::byte*>(data);
  region->bytes = bytes;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

Result<Registration> Agent::add_file(const std::string& path, std::int64_t page_bytes) {
  const std::lock_guard guard(state_->mutex);
  auto region = std::make_shared<Region>();
  region->file = net::bootstrap::UniqueFd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat known {};
  if (!region->file.open() || fstat(region->file.get(), &known) != 0)
    return bad_input("file {}: {}", path, std::strerror(errno));
  if (!S_ISREG(known.st_mode)) return bad_input("file {} is not a regular file", path);
  WEFT_CHECK(state_->check_new(nullptr, known.st_size, page_bytes));
  region->bytes = known.st_size;
  region->page_bytes = page_bytes;
  return state_->add(std::move(region));
}

Status Agent::deregister(const Registration& registration, std::chrono::milliseconds limit) {
  std::unique_lock guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->closing) {
    for (std::uint64_t i = 0; i < region->pages; ++i) next_generation(state_->segment.page(region->first_page + i), 0);
    region->closing = state_->begin_grace(region->id);
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!state_->over(*region->closing)) {
    if (std::chrono::steady_clock::now() > deadline) {
      const std::uint64_t owner = state_->segment.slot(region->closing->seen().front().slot).owner.load();
      return failure(Code::kTimeout, Blame::kOperation, "region {}: process {} is still copying", region->id,
                     pid_of(owner));
    }
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    guard.lock();
  }
  state_->self->targets.erase(region->id);
  state_->regions.remove(region->id);
  state_->page_words.release(static_cast<Bytes>(region->first_page));
  return {};
}

Result<Rows> Agent::rows_at(const void* data, std::int64_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  for (const auto& r : state_->regions.all()) {
    const auto first = reinterpret_cast<std::uintptr_t>(r->data);
    if (r->data == nullptr || at < first || at - first >= static_cast<std::uintptr_t>(r->bytes)) continue;
    const auto offset = static_cast<std::int64_t>(at - first);
    if (bytes <= 0 || bytes > r->bytes - offset)
      return bad_input("{} bytes at {} end past region {} of {} bytes", bytes, data, r->id, r->bytes);
    return Rows{.region = r->id, .offset = offset, .bytes = bytes};
  }
  return bad_input("the memory at {} is not registered", data);
}

Result<Page> Agent::acquire(const Registration& registration, std::uint16_t tag) {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->fenced() || region->closing || tag == 0)
    return bad_input("region {}: pages are of fenced regions that are open, for owners from 1", region->id);
  if (region->free.empty()) state_->drain(*region);
  if (region->free.empty())
    return failure(Code::kNoResources, Blame::kOperation, "region {}: no page is free, {} are still being copied",
                   region->id, region->draining.size());
  const std::uint32_t index = region->free.back();
  region->free.pop_back();
  PageWord& page = state_->segment.page(region->first_page + index);
  page.sealed.store(0);
  return Page{index, next_generation(page, tag)};
}

Status Agent::release(const Registration& registration, Page page) {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->fenced() || page.index >= region->pages)
    return bad_input("region {} has no page {}", region->id, page.index);
  PageWord& word = state_->segment.page(region->first_page + page.index);
  if (page.generation >> 48 == 0 || word.generation.load() != page.generation)
    return bad_input("page {} of region {} is not out with this generation", page.index, region->id);
  next_generation(word, 0);
  region->draining.push_back({page.index, state_->begin_grace(region->id)});
  state_->drain(*region);
  return {};
}

std::int64_t Agent::free_pages(const Registration& registration) {
  const std::lock_guard guard(state_->mutex);
  const auto region = state_->regions.find(registration.region);
  if (region == nullptr) return 0;
  state_->drain(*region);
  return static_cast<std::int64_t>(region->free.size());
}

Status Agent::seal(const Registration& registration, Page page) {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto region, state_->region(registration));
  if (!region->fenced() || page.index >= region->pages || region->data == nullptr)
    return bad_input("region {} has no page {} in memory", region->id, page.index);
  PageWord& word = state_->segment.page(region->first_page + page.index);
  if (word.generation.load() != page.generation)
    return bad_input("page {} of region {} is not out with this generation", page.index, region->id);
  const auto size = static_cast<std::size_t>(region->page_bytes);
  word.checksum.store(net::tcp::crc32c(0, region->data + size * page.index, size));
  word.sealed.store(1);
  return {};
}

Result<std::string> Agent::metadata() const {
  const std::lock_guard guard(state_->mutex);
  const detail::AgentState& s = *state_;
  Metadata m;
  m.nonce = s.segment.header().nonce;
  m.process = s.meeting.process;
  m.control = s.control_fd.get();
  m.pages = s.segment.header().pages;
  m.header = reinterpret_cast<std::uint64_t>(&s.segment.header());
  if (s.server != nullptr) m.address = s.server->address();
  m.layout = s.layout;
  m.name = s.options.name;
  for (const auto& r : s.regions.all()) {
    if (r->data == nullptr || r->closing) continue;
    m.regions.push_back({r->id, reinterpret_cast<std::uint64_t>(r->data), r->bytes, r->page_bytes, r->memory.fd.get(),
                         r->first_page, r->generation});
  }
  return encode(m, s.meeting.key);
}

Result<std::string> Agent::load(std::string_view bytes) {
  const std::lock_guard guard(state_->mutex);
  detail::AgentState& s = *state_;
  WEFT_TRY(const Metadata m, decode(bytes, s.meeting.key));
  if (m.layout != s.layout)
    return bad_input("peer '{}' has pages of another layout than this agent ('{}')", m.name, s.options.layout);
  if (m.name == s.options.name) return bad_input("peer '{}' has this agent's own name", m.name);
  const auto known = s.peers.find(m.name);
  if (known != s.peers.end() && known->second->metadata.nonce == m.nonce && !known->second->problem()) {
    WEFT_CHECK(add_targets(*known->second, m, s.meeting));
    return m.name;
  }
  WEFT_TRY(auto peer, meet(m, s.meeting));
  if (known != s.peers.end())
    known->second->gone = Error{Code::kPeerDied, Blame::kOperation,
                                fmt::format("{} has restarted since this list was prepared", known->second->name)};
  s.peers[m.name] = std::move(peer);
  return m.name;
}

Status Agent::forget(const std::string& name) {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (peer->is_self) return bad_input("an agent cannot forget itself");
  peer->gone = Error{Code::kPeerLeft, Blame::kOperation, peer->name + " has been forgotten"};
  state_->peers.erase(name);
  return {};
}

Result<std::string> Agent::explain(const std::string& name) const {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  std::string text;
  for (const auto& [region, target] : peer->targets) text += fmt::format("region {}: {}\n", region, target->why);
  return text;
}

Result<Prepared> Agent::prepare(const std::string& name, std::span<const Rows> rows) const {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (const auto problem = peer->problem()) return tl::make_unexpected(*problem);
  if (rows.empty()) return bad_input("a list without rows");
  auto list = std::make_shared<detail::List>();
  list->peer = peer;
  for (const Rows& row : rows) {
    const auto target = peer->targets.find(row.region);
    if (target == peer->targets.end())
      return bad_input("{}: region {} is not registered, or was not when its metadata was loaded", peer->name,
                       row.region);
    WEFT_CHECK(check_row(row, *target->second, peer->name));
    list->rows.push_back(row);
    list->targets.push_back(target->second);
    list->first.push_back(list->elements);
    list->elements += row.count;
  }
  Prepared prepared;
  prepared.list_ = std::move(list);
  return prepared;
}

Result<Request> Agent::make(Op op, const Prepared& local, const Prepared& remote, const RequestOptions& options) {
  const std::lock_guard guard(state_->mutex);
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

Status Agent::post(Request& request) {
  const std::lock_guard guard(state_->mutex);
  if (request.work_ == nullptr) return bad_input("a request that was never made");
  if (request.work_->state == State::kRunning)
    return bad_input("the request is running: it can be posted again after its end");
  start(request.work_);
  step(request.work_, state_->options.name, kPostBudget);
  return {};
}

State Agent::poll(Request& request) {
  const std::lock_guard guard(state_->mutex);
  if (request.work_->state == State::kRunning) step(request.work_, state_->options.name, kPollBudget);
  return request.work_->state;
}

State Agent::wait(Request& request) {
  for (std::int64_t moved = -1; poll(request) == State::kRunning; moved = request.moved_bytes())
    if (request.moved_bytes() == moved) std::this_thread::yield();
  return request.state();
}

Status Agent::cancel(Request& request) {
  const std::lock_guard guard(state_->mutex);
  if (request.work_ == nullptr || request.work_->state != State::kRunning)
    return bad_input("the request is not running");
  request.work_->end(State::kCancelled,
                     {Code::kAborted, Blame::kOperation,
                      fmt::format("{}: cancelled by its caller after {} of {} bytes", request.work_->remote->peer->name,
                                  request.work_->moved, request.work_->total)});
  return {};
}

Status Agent::notify(const std::string& name, std::string_view bytes) {
  const std::lock_guard guard(state_->mutex);
  WEFT_TRY(const auto peer, state_->peer(name));
  if (bytes.size() > kMostNotification)
    return bad_input("a notification of {} bytes; at most {} fit", bytes.size(), kMostNotification);
  if (const auto problem = peer->problem()) return tl::make_unexpected(*problem);
  if (peer->control != nullptr) {
    if (push(peer->control->slot(peer->slot), state_->options.name, bytes)) return {};
    return failure(Code::kNoResources, Blame::kOperation, "{}: its queue of notifications is full", peer->name);
  }
  if (!peer->line->has_room())
    return failure(Code::kNoResources, Blame::kOperation, "{}: its queue of notifications is full", peer->name);
  peer->line->ask({.ask = Ask::kNotify, .bytes = static_cast<std::int64_t>(bytes.size())},
                  std::as_bytes(std::span(bytes.data(), bytes.size())), nullptr, nullptr);
  if (const Status sent = peer->line->advance(); !sent)
    return failure(sent.error().code, Blame::kOperation, "{}: {}", peer->name, sent.error().message);
  return {};
}

std::vector<Notification> Agent::notifications() {
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
