#include "compat/nixl_plugin/engine.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace weft::nixl {
namespace {

constexpr std::chrono::seconds kPatience{5};  // for a peer whose queue of notifications is full

nixl_status_t status_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return NIXL_ERR_INVALID_PARAM;
    case Code::kNotFound:
      return NIXL_ERR_NOT_FOUND;
    case Code::kUnsupported:
      return NIXL_ERR_NOT_SUPPORTED;
    case Code::kMismatch:
      return NIXL_ERR_MISMATCH;
    case Code::kPeerDied:
    case Code::kPeerLeft:
      return NIXL_ERR_REMOTE_DISCONNECT;
    case Code::kAborted:
      return NIXL_ERR_CANCELED;
    default:
      return NIXL_ERR_BACKEND;
  }
}

std::string parameter(const nixlBackendInitParams& init, const std::string& name) {
  if (init.customParams == nullptr) return {};
  const auto found = init.customParams->find(name);
  return found == init.customParams->end() ? std::string() : found->second;
}

std::vector<transfer::Extent> extents_of(const nixl_meta_dlist_t& list) {
  std::vector<transfer::Extent> extents;
  extents.reserve(static_cast<std::size_t>(list.descCount()));
  for (const nixlMetaDesc& d : list) extents.push_back({d.addr, static_cast<std::int64_t>(d.len), 0, 1});
  return extents;
}

}  // namespace

struct Engine::Region {
  transfer::Registration registration;
  std::uint64_t begin = 0, bytes = 0;
};

struct Engine::Memory final : nixlBackendMD {
  explicit Memory(std::shared_ptr<Region> own = nullptr) : nixlBackendMD(own != nullptr), region(std::move(own)) {}
  std::shared_ptr<Region> region;  // null: a peer's
};

struct Engine::Transfer final : nixlBackendReqH {
  transfer::Request request;
  std::string peer;
  std::deque<std::string> notify;  // what is to be sent when all data is there
  std::chrono::steady_clock::time_point done{};
  nixl_status_t status = NIXL_ERR_NOT_POSTED;
};

Engine::Engine(const nixlBackendInitParams& init) : nixlBackendEngine(&init), name_(init.localAgent) {
  const std::string network = parameter(init, "network");
  if (!network.empty() && network != "tcp" && network != "ucx") {
    refused({Code::kInvalidArgument, Blame::kInput, "parameter network is tcp or ucx, not " + network});
    initErr = true;
    return;
  }
  auto agent = transfer::Agent::open({.name = name_,
                                      .key = parameter(init, "key"),
                                      .listen = parameter(init, "listen"),
                                      .network = network == "ucx" ? transfer::Network::kUcx : transfer::Network::kTcp});
  if (!agent) {
    refused(agent.error());
    initErr = true;
    return;
  }
  agent_.emplace(std::move(*agent));
  if (init.enableProgTh)
    thread_ = std::jthread([this, pause = std::chrono::microseconds(std::max<std::uint64_t>(init.pthrDelay, 100))](
                               const std::stop_token& stop) { progress(stop, pause); });
}

Engine::~Engine() = default;

nixl_status_t Engine::refused(const Error& error) const {
  std::fprintf(stderr, "weft: agent %s: %s\n", name_.c_str(), error.message.c_str());
  return status_of(error.code);
}

nixl_mem_list_t Engine::getSupportedMems() const {
  if (transfer::gpus() > 0) return {DRAM_SEG, VRAM_SEG};
  return {DRAM_SEG};
}

const std::string* Engine::peer_of(const std::string& remote) const {
  static const std::string kSelf;
  if (remote == name_) return &kSelf;
  const auto found = peers_.find(remote);
  return found == peers_.end() ? nullptr : &found->second;
}

std::shared_ptr<Engine::Region> Engine::region_around(std::uint64_t begin, std::uint64_t bytes) const {
  for (const auto& weak : regions_)
    if (auto r = weak.lock(); r && r->begin <= begin && begin + bytes <= r->begin + r->bytes) return r;
  return nullptr;
}

// What lies within registered memory shares its region: NIXL allows that memory is registered twice.
nixl_status_t Engine::registerMem(const nixlBlobDesc& memory, const nixl_mem_t& kind, nixlBackendMD*& out) {
  const std::lock_guard guard(mutex_);
  auto* const data = reinterpret_cast<void*>(memory.addr);
  const auto bytes = static_cast<std::int64_t>(memory.len);
  if (kind != DRAM_SEG && kind != VRAM_SEG) return NIXL_ERR_NOT_SUPPORTED;
  if (auto around = region_around(memory.addr, memory.len)) {
    out = new Memory(std::move(around));
    return NIXL_SUCCESS;
  }
  const auto added = kind == DRAM_SEG ? agent_->add_memory(data, bytes)
                                      : agent_->add_gpu_memory(data, bytes, 0, static_cast<int>(memory.devId));
  if (!added) return refused(added.error());
  auto region = std::make_shared<Region>(*added, memory.addr, memory.len);
  std::erase_if(regions_, [](const auto& weak) { return weak.expired(); });
  regions_.push_back(region);
  out = new Memory(std::move(region));
  return NIXL_SUCCESS;
}

nixl_status_t Engine::deregisterMem(nixlBackendMD* metadata) {
  const std::lock_guard guard(mutex_);
  const std::unique_ptr<Memory> memory(static_cast<Memory*>(metadata));
  if (memory->region.use_count() > 1) return NIXL_SUCCESS;
  const Status done = agent_->deregister(memory->region->registration);
  return done ? NIXL_SUCCESS : refused(done.error());
}

nixl_status_t Engine::connect(const std::string& remote) {
  const std::lock_guard guard(mutex_);
  return peer_of(remote) != nullptr ? NIXL_SUCCESS : NIXL_ERR_NOT_FOUND;
}

nixl_status_t Engine::disconnect(const std::string& remote) {
  const std::lock_guard guard(mutex_);
  const auto found = peers_.find(remote);
  if (found == peers_.end()) return NIXL_ERR_NOT_FOUND;
  const Status done = agent_->forget(found->second);
  peers_.erase(found);
  return done ? NIXL_SUCCESS : refused(done.error());
}

nixl_status_t Engine::unloadMD(nixlBackendMD* metadata) {
  delete metadata;
  return NIXL_SUCCESS;
}

nixl_status_t Engine::getPublicData(const nixlBackendMD* metadata, std::string& text) const {
  const std::lock_guard guard(mutex_);
  const transfer::Registration region = static_cast<const Memory*>(metadata)->region->registration;
  auto made = agent_->metadata({&region, 1});
  if (!made) return refused(made.error());
  text = std::move(*made);
  return NIXL_SUCCESS;
}

nixl_status_t Engine::getConnInfo(std::string& text) const {
  const std::lock_guard guard(mutex_);
  auto made = agent_->metadata(std::span<const transfer::Registration>());
  if (!made) return refused(made.error());
  text = std::move(*made);
  return NIXL_SUCCESS;
}

nixl_status_t Engine::loadRemoteConnInfo(const std::string& remote, const std::string& info) {
  const std::lock_guard guard(mutex_);
  auto name = agent_->load(info);
  if (!name) return refused(name.error());
  if (*name != remote) return NIXL_ERR_MISMATCH;
  peers_.insert_or_assign(remote, std::move(*name));
  return NIXL_SUCCESS;
}

nixl_status_t Engine::loadRemoteMD(const nixlBlobDesc& memory, const nixl_mem_t& kind, const std::string& remote,
                                   nixlBackendMD*& out) {
  (void)kind;
  const std::lock_guard guard(mutex_);
  if (peer_of(remote) == nullptr) return NIXL_ERR_NOT_FOUND;
  const auto name = agent_->load(memory.metaInfo);
  if (!name) return refused(name.error());
  if (*name != remote) return NIXL_ERR_MISMATCH;
  out = new Memory;
  return NIXL_SUCCESS;
}

nixl_status_t Engine::loadLocalMD(nixlBackendMD* metadata, nixlBackendMD*& out) {
  (void)metadata;  // addresses find the region
  out = new Memory;
  return NIXL_SUCCESS;
}

nixl_status_t Engine::prepXfer(const nixl_xfer_op_t& op, const nixl_meta_dlist_t& local,
                               const nixl_meta_dlist_t& remote, const std::string& remote_agent,
                               nixlBackendReqH*& handle, const nixl_opt_b_args_t*) const {
  const std::lock_guard guard(mutex_);
  const std::string* const peer = peer_of(remote_agent);
  if (peer == nullptr) return NIXL_ERR_NOT_FOUND;
  const auto here = agent_->prepare_addresses("", extents_of(local));
  if (!here) return refused(here.error());
  const auto there = agent_->prepare_addresses(*peer, extents_of(remote));
  if (!there) return refused(there.error());
  auto request = agent_->make(op == NIXL_READ ? transfer::Op::kRead : transfer::Op::kWrite, *here, *there);
  if (!request) return refused(request.error());
  auto made = std::make_unique<Transfer>();
  made->request = std::move(*request);
  made->peer = *peer;
  handle = made.release();
  return NIXL_SUCCESS;
}

nixl_status_t Engine::postXfer(const nixl_xfer_op_t&, const nixl_meta_dlist_t&, const nixl_meta_dlist_t&,
                               const std::string&, nixlBackendReqH*& handle, const nixl_opt_b_args_t* options) const {
  const std::lock_guard guard(mutex_);
  auto& t = *static_cast<Transfer*>(handle);
  if (t.status == NIXL_IN_PROG) return NIXL_ERR_REPOST_ACTIVE;
  t.notify = options != nullptr && options->hasNotif ? parts_of(options->notifMsg) : std::deque<std::string>();
  t.done = {};
  const Status posted = agent_->post(t.request);
  if (!posted) return t.status = refused(posted.error());
  t.status = NIXL_IN_PROG;
  if (advance(t) == NIXL_IN_PROG) running_.push_back(&t);
  return t.status;
}

// A step of a transfer, and of its notification behind the data.
nixl_status_t Engine::advance(Transfer& t) const {
  const transfer::State state = agent_->poll(t.request);
  if (!transfer::is_terminal(state)) return t.status = NIXL_IN_PROG;
  if (state != transfer::State::kDone) return t.status = refused(t.request.error());
  const auto now = std::chrono::steady_clock::now();
  if (t.done == decltype(t.done){}) t.done = now;
  for (; !t.notify.empty(); t.notify.pop_front(), t.done = now) {
    const Status sent = t.peer.empty() ? Status() : agent_->notify(t.peer, t.notify.front());
    if (t.peer.empty()) {
      if (auto whole = parts_.take(name_, std::move(t.notify.front()))) arrived_.emplace_back(name_, std::move(*whole));
      continue;
    }
    if (sent) continue;
    if (sent.error().code != Code::kNoResources || now - t.done > kPatience) return t.status = refused(sent.error());
    collect();  // the peer may be waiting for this side
    return t.status = NIXL_IN_PROG;
  }
  return t.status = NIXL_SUCCESS;
}

nixl_status_t Engine::checkXfer(nixlBackendReqH* handle) const {
  const std::lock_guard guard(mutex_);
  auto& t = *static_cast<Transfer*>(handle);
  if (t.status == NIXL_IN_PROG && advance(t) != NIXL_IN_PROG) running_.remove(&t);
  return t.status;
}

nixl_status_t Engine::releaseReqH(nixlBackendReqH* handle) const {
  const std::lock_guard guard(mutex_);
  auto* const t = static_cast<Transfer*>(handle);
  if (t->status == NIXL_IN_PROG && !transfer::is_terminal(t->request.state())) {
    const Status ended = agent_->cancel(t->request);
    if (!ended && t->request.state() == transfer::State::kRunning) return NIXL_ERR_REPOST_ACTIVE;
  }
  running_.remove(t);
  delete t;
  return NIXL_SUCCESS;
}

void Engine::collect() const {
  for (transfer::Notification& n : agent_->notifications()) {
    auto whole = parts_.take(n.peer, std::move(n.bytes));
    if (whole) arrived_.emplace_back(n.peer, std::move(*whole));
  }
}

nixl_status_t Engine::getNotifs(notif_list_t& list) {
  const std::lock_guard guard(mutex_);
  collect();
  list = std::move(arrived_);
  arrived_.clear();
  return NIXL_SUCCESS;
}

nixl_status_t Engine::genNotif(const std::string& remote, const std::string& message) const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (auto parts = parts_of(message); !parts.empty();) {
    std::unique_lock guard(mutex_);
    const std::string* const peer = peer_of(remote);
    if (peer == nullptr) return NIXL_ERR_NOT_FOUND;
    if (peer->empty()) {
      arrived_.emplace_back(name_, message);
      return NIXL_SUCCESS;
    }
    const Status sent = agent_->notify(*peer, parts.front());
    if (sent) {
      parts.pop_front();
      continue;
    }
    if (sent.error().code != Code::kNoResources || std::chrono::steady_clock::now() > end) return refused(sent.error());
    collect();
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return NIXL_SUCCESS;
}

void Engine::progress(const std::stop_token& stop, std::chrono::microseconds pause) {
  while (!stop.stop_requested()) {
    bool busy = false;
    {
      const std::lock_guard guard(mutex_);
      collect();
      std::erase_if(running_, [&](Transfer* t) { return advance(*t) != NIXL_IN_PROG; });
      busy = !running_.empty();
    }
    if (!busy) std::this_thread::sleep_for(pause);
  }
}

}  // namespace weft::nixl
