#include "net/ucx/worker.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cstring>

namespace weft::net::ucx {

using messages::FrameKind;

namespace {

constexpr unsigned kMessage = 1;                      // the active message's number
constexpr std::chrono::milliseconds kWatchEvery{5};   // a look at the connections costs a system call each
constexpr std::chrono::milliseconds kLastWords{100};  // that a peer sent before it ended
// How long a failing call waits until UCX has done with its caller's memory: as long as bytes move, and for some time
// where none do. An adapter moves them by itself, everything else only while the peer takes part.
constexpr std::chrono::milliseconds kForCallers{500}, kForNextBytes{20};

}  // namespace

Worker::Worker(WorkerHandle worker, Rank rank, std::vector<bool> near, std::chrono::milliseconds timeout,
               messages::Receiver& receiver, int epoll)
    : rank_(rank),
      near_(std::move(near)),
      timeout_(timeout),
      receiver_(receiver),
      epoll_(epoll),
      links_(near_.size()),
      context_(worker.context()),
      worker_(std::move(worker)) {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessage;
  handler.cb = on_message;
  handler.arg = this;
  const ucs_status_t status = ucp().worker_set_am_recv_handler(worker_->get(), &handler);
  WEFT_ASSERT(status == UCS_OK, "{}", text(status));
  epoll_event event{.events = EPOLLIN, .data = {.ptr = this}};
  epoll_ctl(epoll_, EPOLL_CTL_ADD, worker_->event_descriptor(), &event);
}

void Worker::attach(Rank peer, int, UniqueFd fd, const link::Handshake&) {
  Link& l = link(peer);
  link::end_when_cut(fd.get(), timeout_);
  epoll_event event{.events = EPOLLIN, .data = {.ptr = &l}};
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, fd.get(), &event) != 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, fd.get(), &event);
  l.exchange = std::make_unique<Exchange>(std::move(fd), worker_->address());
  known_.push_back(peer);
  watch(l);
}

void Worker::connect(Link& l) {
  const bool near = near_[static_cast<std::size_t>(rank_of(l))];
  const ucs_status_t status = worker_->connect(l.exchange->address(), near, on_error, this, &l.endpoint);
  if (status != UCS_OK) return suspect(l, text(status));
  for (Outgoing* o : std::exchange(l.waiting, {})) start(*o);
}

void Worker::on_error(void* self, ucp_ep_h endpoint, ucs_status_t status) {
  auto& worker = *static_cast<Worker*>(self);
  for (const Rank r : worker.known_)
    if (Link& l = worker.link(r); l.endpoint == endpoint) worker.suspect(l, worker.text(status));
}

// Looks whether the peer's process is still there.
void Worker::watch(Link& l) {
  if (l.exchange->problem()) return;
  l.exchange->advance();
  if (!l.waiting.empty() && l.exchange->done() && l.endpoint == nullptr && !frozen_) connect(l);
  for (; const auto word = l.exchange->take_word(); l.exchange->advance()) {
    const bool broken = word->kind == static_cast<std::uint64_t>(FrameKind::kBroken);
    receiver_.arrived(rank_of(l), static_cast<ContextId>(word->context),
                      {.kind = broken ? FrameKind::kBroken : FrameKind::kBye,
                       .number = word->number,
                       .offset = static_cast<std::uint32_t>(word->offset)},
                      nullptr);
  }
  if (l.exchange->problem()) epoll_ctl(epoll_, EPOLL_CTL_DEL, l.exchange->fd(), nullptr);
}

void Worker::suspect(Link& l, const std::string& reason) {
  if (l.suspect != Clock::time_point{}) return;
  l.suspect = Clock::now();
  l.reason = reason;
}

// A connection that ends when its peer has left all communicators ends in good order.
void Worker::judge(Link& l, Clock::time_point now) {
  if (l.exchange->problem() && receiver_.expects(rank_of(l))) suspect(l, *l.exchange->problem());
  if (l.ended || l.suspect == Clock::time_point{} || now - l.suspect < kLastWords) return;
  l.ended = true;
  drop_waiting(l);
  receiver_.ended(rank_of(l), l.reason);
}

void Worker::left(Rank peer, ContextId own) {
  Link& l = link(peer);
  for (Outgoing* o : under_way_) o->given_up |= o->to == peer && o->own == own;
  const std::vector<Outgoing*> waiting = std::exchange(l.waiting, {});
  for (Outgoing* o : waiting) o->own == own ? forget(*o) : l.waiting.push_back(o);
  l.parts.erase(own);
}

void Worker::drop_waiting(Link& l) {
  for (Outgoing* o : std::exchange(l.waiting, {})) forget(*o);
}

Block& Worker::part_of(Link& l, ContextId own, std::size_t strand) {
  std::vector<Block>& parts = l.parts[own];
  if (parts.empty()) parts.resize(messages::kStreams);
  return parts[strand];
}

void Worker::send(const Route& route, const Frame& frame, const std::byte* payload, const Block& block, bool) {
  const Rank peer = route.peer;
  Link& l = link(peer);
  if (l.ended) return;
  // A rank that sends BYE or BROKEN stops progressing UCX, so both travel over the TCP connection.
  if (frame.kind == FrameKind::kBye || frame.kind == FrameKind::kBroken)
    return l.exchange->say_last({static_cast<std::uint64_t>(frame.kind), frame.number, frame.offset, route.peers});
  Frame whole = frame;
  Block together = block;
  if (frame.kind == FrameKind::kData && ((frame.flags & messages::kEnd) == 0 || frame.offset > 0)) {
    Block& parts = part_of(l, route.own, frame.strand);
    if (!parts) parts = blocks_.take();
    std::memcpy(parts.data() + frame.offset, payload, frame.length);
    if ((frame.flags & messages::kEnd) == 0) return;
    together = std::exchange(parts, Block());
    payload = together.data();
    whole.offset = 0;
    whole.length = whole.total;
  }
  const std::byte* const callers = together ? nullptr : payload;
  // Until UCX has connected it reads later what it was given now. If the call fails meanwhile, that memory is its
  // caller's again, so UCX gets a copy; where others use the worker, too, always, as it must go on for them. A call
  // that does not fail waits until the frame is sent, as without one.
  if (callers != nullptr && (!l.sent || shared_) && static_cast<Bytes>(whole.length) <= messages::kSlotBytes) {
    together = blocks_.take();
    std::memcpy(together.data(), payload, whole.length);
    payload = together.data();
  }
  if (free_outgoing_.empty()) free_outgoing_.push_back(all_outgoing_.emplace_back(std::make_unique<Outgoing>()).get());
  Outgoing& o = *free_outgoing_.back();
  free_outgoing_.pop_back();
  o = {this, {whole, rank_, route.peers}, peer, payload, std::move(together), callers, route.own, false};
  if (l.endpoint != nullptr) return start(o);
  l.waiting.push_back(&o);
  under_way_.push_back(&o);
  if (l.exchange != nullptr) watch(l);
}

void Worker::start(Outgoing& o) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = on_sent;
  param.user_data = &o;
  Link& l = link(o.to);
  void* const request =
      ucp().am_send_nbx(l.endpoint, kMessage, &o.header, sizeof o.header, o.payload, o.header.frame.length, &param);
  if (UCS_PTR_IS_ERR(request)) suspect(l, text(UCS_PTR_STATUS(request)));
  if (request == nullptr) l.sent = true;
  const bool waited = std::find(under_way_.begin(), under_way_.end(), &o) != under_way_.end();
  if (request == nullptr || UCS_PTR_IS_ERR(request))
    forget(o);
  else if (!waited)
    under_way_.push_back(&o);
}

void Worker::on_sent(void* request, ucs_status_t status, void* outgoing) {
  auto& o = *static_cast<Outgoing*>(outgoing);
  Worker& worker = *o.owner;
  if (status == UCS_OK)
    worker.link(o.to).sent = true;
  else if (status != UCS_ERR_CANCELED)
    worker.suspect(worker.link(o.to), worker.text(status));
  worker.forget(o);
  worker.ucp().request_free(request);
}

void Worker::forget(Outgoing& o) {
  o.block = Block();
  std::erase(under_way_, &o);
  free_outgoing_.push_back(&o);
}

ucs_status_t Worker::on_message(void* self, const void* header, std::size_t header_length, void* data,
                                std::size_t length, const ucp_am_recv_param_t* param) {
  auto& worker = *static_cast<Worker*>(self);
  if (worker.gone_) return UCS_OK;
  Header h;
  if (header_length != sizeof h) return UCS_OK;  // not from a rank of this job
  std::memcpy(&h, header, sizeof h);
  const auto ranks = static_cast<Rank>(worker.links_.size());
  if (h.from < 0 || h.from >= ranks || h.from == worker.rank_) return UCS_OK;
  std::string fault = messages::fault_of(h.frame);
  if (fault.empty() && h.frame.length != length) fault = fmt::format("{} bytes instead of {}", length, h.frame.length);
  if (!fault.empty()) {
    worker.receiver_.damaged(h.from, fault);
    return UCS_OK;
  }
  if (h.frame.kind != FrameKind::kData) {
    worker.receiver_.arrived(h.from, h.context, h.frame, nullptr);
    return UCS_OK;
  }
  const bool large = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  // Where others use the worker, too, it must go on for them, whatever becomes of this communicator and its memory.
  Block block = large && worker.shared_ ? worker.blocks_.take() : Block();
  std::byte* const at = block ? block.data() : worker.receiver_.place(h.from, h.context, h.frame);
  if (at == nullptr) return UCS_OK;
  if (large) {
    worker.fetch(h, data, at, std::move(block));
    return UCS_INPROGRESS;
  }
  if (length > 0) std::memcpy(at, data, length);
  // UCX may have read the bytes after their call had failed.
  if (!worker.receiver_.broken(h.context)) worker.receiver_.arrived(h.from, h.context, h.frame, at);
  return UCS_OK;
}

void Worker::fetch(const Header& header, void* description, std::byte* at, Block block) {
  const auto& [frame, from, context] = header;
  auto* const f = new Fetch{this, from, frame, at, context, std::move(block)};  // on_fetched deletes it
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv_am = on_fetched;
  param.user_data = f;
  fetches_.push_back(f);
  void* const request = ucp().am_recv_data_nbx(worker_->get(), description, at, frame.length, &param);
  if (!UCS_PTR_IS_ERR(request)) return;
  std::erase(fetches_, f);
  suspect(link(from), text(UCS_PTR_STATUS(request)));
  delete f;
}

void Worker::on_fetched(void* request, ucs_status_t status, std::size_t, void* fetch) {
  const std::unique_ptr<Fetch> f(static_cast<Fetch*>(fetch));
  Worker& worker = *f->owner;
  std::erase(worker.fetches_, f.get());
  if (worker.gone_) return worker.ucp().request_free(request);
  if (status != UCS_OK)
    worker.suspect(worker.link(f->from), worker.text(status));
  else
    worker.fetched(*f);
  worker.ucp().request_free(request);
}

// If the communicator is broken, the peer's caller may have changed the bytes before they were read.
void Worker::fetched(Fetch& f) {
  if (receiver_.broken(f.context)) return;
  if (f.block) {
    f.at = receiver_.place(f.from, f.context, f.frame);
    if (f.at == nullptr) return;
    std::memcpy(f.at, f.block.data(), f.frame.length);
  }
  receiver_.arrived(f.from, f.context, f.frame, f.at);
}

bool Worker::pump(Rank peer) {
  if (Link& l = link(peer); !l.exchange->done()) watch(l);
  return progress();
}

void Worker::divert(ContextId own) {
  for (const Rank r : known_) link(r).parts.erase(own);
}

bool Worker::pump_all() {
  const bool moved = progress();
  const auto now = Clock::now();
  if (now - watched_ < kWatchEvery) return moved;
  watched_ = now;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    watch(link(known_[i]));
    judge(link(known_[i]), now);
  }
  return moved;
}

Rank Worker::unsettled(ContextId own) {
  for (const Outgoing* o : under_way_)
    if (o->own == own && !o->given_up && !link(o->to).ended) return o->to;
  return -1;
}

bool Worker::writes(ContextId own) const {
  return std::any_of(fetches_.begin(), fetches_.end(),
                     [own](const Fetch* f) { return f->context == own && !f->block; });
}

Rank Worker::reader_of(ContextId own, const std::byte* begin, const std::byte* end) const {
  for (const Outgoing* o : under_way_)
    if (o->own == own && o->callers != nullptr && o->callers < end && begin < o->callers + o->header.frame.length)
      return o->to;
  return -1;
}

bool Worker::reads_callers(Rank peer, ContextId own) const {
  return std::any_of(under_way_.begin(), under_way_.end(),
                     [&](const Outgoing* o) { return o->to == peer && o->own == own && o->callers != nullptr; });
}

// Of what UCX has been given it goes on reading; the peer's process knows that it must not take it (on_message).
void Worker::drop_callers(ContextId own) {
  for (const Rank r : known_) {
    Link& l = link(r);
    const auto callers = std::stable_partition(l.waiting.begin(), l.waiting.end(), [own](const Outgoing* o) {
      return o->own != own || o->callers == nullptr;
    });
    const std::vector<Outgoing*> dropped(callers, l.waiting.end());
    l.waiting.erase(callers, l.waiting.end());
    for (Outgoing* o : dropped) forget(*o);
  }
  end_turns(own);
}

bool Worker::holds_callers(ContextId own) const {
  return writes(own) || std::any_of(under_way_.begin(), under_way_.end(), [own](const Outgoing* o) {
           return o->own == own && o->callers != nullptr && !o->block;
         });
}

// What has begun cannot be taken back: UCX 1.13 goes on with it whatever becomes of its endpoint. It reads and writes
// memory in its turns only, all of them calls of this thread, so without a turn it does neither.
void Worker::end_turns(ContextId own) {
  const auto begin = Clock::now();
  for (auto moved = begin; holds_callers(own);) {
    const auto now = Clock::now();
    if (progress()) moved = now;
    if (now - begin >= kForCallers || now - moved >= kForNextBytes) break;
  }
  frozen_ = holds_callers(own);
}

bool Worker::may_sleep() { return ucp().worker_arm(worker_->get()) == UCS_OK; }

void Worker::woken(void* what) {
  if (what == this)
    progress();
  else
    watch(*static_cast<Link*>(what));
}

void Worker::progress_until(const std::function<bool()>& reached, Clock::time_point deadline) {
  while (!reached() && Clock::now() < deadline) pump_all();
}

void Worker::leave(Clock::duration longest) {
  const auto deadline = Clock::now() + longest;
  if (!frozen_) {
    progress_until(
        [&] {
          return std::none_of(under_way_.begin(), under_way_.end(),
                              [&](const Outgoing* o) { return !o->given_up && !link(o->to).ended; });
        },
        deadline);
    close_endpoints(deadline);
  }
  for (const Rank r : known_) shutdown(link(r).exchange->fd(), SHUT_WR);
  progress_until(
      [&] {
        return std::all_of(known_.begin(), known_.end(),
                           [&](Rank r) { return link::delivered(link(r).exchange->fd()); });
      },
      deadline);
  const bool flushed = !frozen_ && worker_->flush(deadline, [this] { pump_all(); });
  gone_ = true;
  // UCX ends the process if a worker ends whose large messages are under way: peers that have failed fetch no more.
  const bool settled = under_way_.empty() && fetches_.empty();
  if (!flushed || !settled) worker_->abandon();
  worker_.reset();
}

// Flushed, so that UCX has handed over what was sent. Those of peers that have ended it could only give up, which it
// does when its worker ends.
void Worker::close_endpoints(Clock::time_point deadline) {
  std::vector<void*> closing;
  for (const Rank r : known_) {
    Link& l = link(r);
    if (l.endpoint == nullptr || l.ended || l.suspect != Clock::time_point{}) continue;
    ucp_request_param_t param{};
    void* const request = ucp().ep_close_nbx(std::exchange(l.endpoint, nullptr), &param);
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) closing.push_back(request);
  }
  const auto closed = [&](void* request) {
    if (ucp().request_check_status(request) == UCS_INPROGRESS) return false;
    ucp().request_free(request);
    return true;
  };
  progress_until([&] { return std::erase_if(closing, closed), closing.empty(); }, deadline);
  for (void* request : closing) ucp().request_free(request);  // of peers that died meanwhile; UCX insists on it
}

}  // namespace weft::net::ucx
