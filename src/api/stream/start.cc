#include "api/stream/start.h"

#include <algorithm>
#include <map>

#include "plan/schedule/element.h"

namespace weft::stream {
namespace {

struct Ready {
  Call call;
  const Prepared* prepared = nullptr;

  auto place() const { return std::pair(call.member->group().device_of(call.member->rank()), call.stream); }
};

// The first call of every rank, then the second of every rank, …
std::vector<std::vector<Ready>> in_turns(const std::vector<Ready>& all) {
  std::vector<std::vector<Ready>> turns;
  std::map<const Member*, std::size_t> taken;
  for (const Ready& r : all) {
    const std::size_t turn = taken[r.call.member]++;
    if (turn == turns.size()) turns.emplace_back();
    turns[turn].push_back(r);
  }
  return turns;
}

// Can they be one launch?
Status check_alike(std::span<const Ready> together) {
  const Ready& first = together.front();
  if (together.size() > exec::device::kMostTogether)
    return failure(Code::kUnsupported, Blame::kInput, "{} ranks in one stream; at most {}", together.size(),
                   exec::device::kMostTogether);
  for (const Ready& r : together)
    if (&r.call.member->group() != &first.call.member->group() || r.call.request.type != first.call.request.type ||
        r.prepared->program.size() != first.prepared->program.size())
      return bad_input("{} of rank {} and {} of rank {} are in one stream: ranks that share one must call the same",
                       schedule::name(first.call.request.collective), first.call.member->rank(),
                       schedule::name(r.call.request.collective), r.call.member->rank());
  return {};
}

Status launch(std::span<const Ready> together) {
  const Ready& first = together.front();
  Group& group = first.call.member->group();
  exec::device::Kernels& kernels = *group.runtime()->kernels;
  WEFT_TRY(const OnDevice back, OnDevice::use(group.device(), group.device_of(first.call.member->rank())));
  std::vector<exec::device::Frame> frames;
  for (const Ready& r : together) {
    WEFT_CHECK(r.call.member->enter(*r.prepared, r.call.request, r.call.stream));
    frames.push_back(r.call.member->frame(*r.prepared, r.call.request, r.call.scalar));
  }
  WEFT_CHECK(kernels.launch(frames, first.call.request.type, static_cast<int>(first.prepared->program.size()),
                            kernels.threads(), first.call.stream));
  for (const Ready& r : together) WEFT_CHECK(r.call.member->leave(*r.prepared, r.call.request, r.call.stream));
  return {};
}

}  // namespace

Status start(std::span<const Call> calls) {
  std::vector<Ready> all;
  for (const Call& call : calls) {
    Ready ready{.call = call};
    if (call.scalar != nullptr) ready.call.request.scalar = Scalar{};
    WEFT_TRY(ready.prepared, call.member->prepare(ready.call.request, By::kKernels));
    if (call.prepared != nullptr) *call.prepared = ready.prepared;
    all.push_back(ready);
  }
  std::vector<std::vector<Ready>> launches;
  for (std::vector<Ready>& turn : in_turns(all)) {
    std::stable_sort(turn.begin(), turn.end(), [](const Ready& a, const Ready& b) { return a.place() < b.place(); });
    for (auto first = turn.begin(); first != turn.end();) {
      const auto last = std::find_if(first, turn.end(), [&](const Ready& r) { return r.place() != first->place(); });
      WEFT_CHECK(check_alike(launches.emplace_back(first, last)));
      first = last;
    }
  }
  for (const auto& together : launches) WEFT_CHECK(launch(together));
  return {};
}

}  // namespace weft::stream
