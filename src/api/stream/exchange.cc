#include "api/stream/exchange.h"

#include <algorithm>
#include <map>
#include <set>

#include "api/session/transfers.h"
#include "exec/device/exchange.h"

namespace weft::stream {
namespace {

using exec::device::Message;

bool sends(const Transfer& t) { return t.direction == Transfer::Direction::kSend; }
Bytes bytes_of(const Transfer& t) { return static_cast<Bytes>(t.count) * size_of(t.type); }

Status check(const Exchange& e) {
  const Member& member = *e.member;
  for (const Transfer& t : e.transfers) {
    WEFT_CHECK(session::check_transfer(t, member.rank(), member.group().ranks()));
    if (t.count > 0)
      WEFT_CHECK(member.group().device().check_pointer(t.data, sends(t) ? "what is sent" : "where it is received"));
  }
  return {};
}

using Queue = std::vector<Message>;

// Messages to and from others, a queue for every peer and direction.
std::vector<Queue> queues_of(const Exchange& e) {
  std::map<std::pair<Rank, bool>, Queue> queues;
  for (const Transfer& t : e.transfers)
    if (t.peer != e.member->rank() && t.count > 0)
      queues[{t.peer, sends(t)}].push_back({.data = static_cast<std::byte*>(t.data),
                                            .bytes = bytes_of(t),
                                            .peer = t.peer,
                                            .next = -1,
                                            .tag = static_cast<std::uint16_t>(session::tag_of(t) >> 16 | 1),
                                            .sends = sends(t),
                                            .spare = {}});
  std::vector<Queue> all;
  for (auto& [key, queue] : queues) all.push_back(std::move(queue));
  return all;
}

// What ranks of one communicator, device and stream are launched with.
class Launch {
 public:
  explicit Launch(Group& group) : group_(group) {}

  Status add(const Exchange& e) {
    exchanges_.push_back(&e);
    WEFT_TRY(own_.emplace_back(), session::own_transfers(e.transfers, e.member->rank()));
    const std::vector<Queue> queues = queues_of(e);
    if (queues.empty()) return {};
    std::size_t messages = 0;
    for (const Queue& q : queues) messages += q.size();
    if (kernel_->count == exec::device::kMostTogether || messages_ + messages > exec::device::kMostMessages)
      return failure(Code::kUnsupported, Blame::kInput, "one launch takes {} messages of {} ranks, not more",
                     exec::device::kMostMessages, exec::device::kMostTogether);
    exec::device::ExchangePart& part = kernel_->of[kernel_->count++];
    part = {.frame = {.regions = group_.table(e.member->rank()),
                      .geometry = group_.geometry(),
                      .rank = e.member->rank(),
                      .out = queues.front().front().data,
                      .timeout_ns = group_.timeout().count()},
            .first = static_cast<std::int32_t>(messages_),
            .queues = static_cast<std::int32_t>(queues.size())};
    place(queues);
    return {};
  }

  Status queue() const {
    const Member& first = *exchanges_.front()->member;
    WEFT_TRY(const OnDevice back, OnDevice::use(group_.device(), group_.device_of(first.rank())));
    const Stream stream = exchanges_.front()->stream;
    for (const Exchange* e : exchanges_) WEFT_CHECK(e->member->enter(stream));
    for (const auto& transfers : own_)
      for (const session::OwnTransfer& t : transfers)
        if (t.send.data != t.receive.data && t.send.count > 0)
          WEFT_CHECK(group_.device().copy(t.receive.data, t.send.data, bytes_of(t.send), stream));
    exec::device::Kernels& kernels = *group_.runtime()->kernels;
    if (kernel_->count > 0) WEFT_CHECK(kernels.exchange(*kernel_, kernels.threads(), stream));
    for (const Exchange* e : exchanges_) WEFT_CHECK(e->member->leave(stream));
    return {};
  }

 private:
  // The first messages of all queues, then the others; and a block for every strand that has something to do.
  void place(const std::vector<Queue>& queues) {
    std::int64_t strands = 0;
    std::size_t heads = messages_, behind = messages_ + queues.size();
    for (const Queue& queue : queues) {
      std::int64_t slices = 0;
      std::size_t at = heads++;
      for (std::size_t i = 0; i < queue.size(); ++i) {
        Message& placed = kernel_->messages[at] = queue[i];
        slices = std::max(slices, slices_of(placed, group_.geometry()));
        if (i + 1 < queue.size()) placed.next = static_cast<std::int32_t>(at = behind++);
      }
      strands += std::min<std::int64_t>(slices, channels_of_exchange(group_.geometry()));
    }
    messages_ = behind;
    kernel_->blocks = static_cast<std::int32_t>(
        std::min<std::int64_t>(std::max<std::int64_t>(strands, kernel_->blocks), group_.geometry().strands));
  }

  Group& group_;
  std::vector<const Exchange*> exchanges_;
  std::vector<std::vector<session::OwnTransfer>> own_;
  std::unique_ptr<exec::device::Exchange> kernel_ = std::make_unique<exec::device::Exchange>();
  std::size_t messages_ = 0;
};

}  // namespace

Status start_exchanges(std::span<const Exchange> exchanges) {
  std::map<std::tuple<Group*, int, Stream>, Launch> launches;
  std::set<const Member*> seen;
  for (const Exchange& e : exchanges) {
    Group& group = e.member->group();
    if (!seen.insert(e.member).second) return bad_input("rank {} exchanges twice in one call", e.member->rank());
    WEFT_CHECK(check(e));
    auto& launch = launches.try_emplace({&group, group.device_of(e.member->rank()), e.stream}, group).first->second;
    WEFT_CHECK(launch.add(e));
  }
  for (const auto& [place, launch] : launches) WEFT_CHECK(launch.queue());
  return {};
}

}  // namespace weft::stream
