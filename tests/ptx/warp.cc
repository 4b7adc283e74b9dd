#include <sys/mman.h>

#include <chrono>
#include <new>

#include "tests/ptx/grid.h"

namespace weft::ptx {

Registers::Registers(std::size_t count) {
  // A row more, in front of the first, keeps the size for munmap.
  const std::size_t bytes = (count + 1) * kLanes * sizeof(std::uint64_t);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  *static_cast<std::size_t*>(at) = bytes;
  at_ = static_cast<std::uint64_t*>(at) + kLanes;
}

Registers::~Registers() {
  if (at_ == nullptr) return;
  void* const at = at_ - kLanes;
  munmap(at, *static_cast<std::size_t*>(at));
}

Warp::Warp(Block& block, int first_thread, int threads)
    : block_(block),
      first_thread_(first_thread),
      registers_(block.grid.kernel.registers),
      local_(block.grid.kernel.local_bytes * kLanes) {
  const Mask lanes = threads >= kLanes ? kAllLanes : (Mask{1} << threads) - 1;
  groups_.push_back({0, lanes});
  exited_ = ~lanes;
}

void Warp::run(int instructions) {
  if (groups_.empty()) return;
  keeps_group_ = groups_.size() > 1 && block_.grid.around.random() % 8 == 0;
  if (keeps_group_) std::swap(groups_.front(), groups_[block_.grid.around.random() % groups_.size()]);
  const auto& code = block_.grid.kernel.code;
  for (; instructions > 0 && !groups_.empty() && block_.grid.around.fault.empty(); --instructions) {
    if (groups_.size() > 1 && !keeps_group_) pick();
    const Instruction& in = code[groups_.front().at];
    const Mask lanes = in.guard ? predicate(in.guard, groups_.front().lanes) : groups_.front().lanes;
    if (lanes == 0) {
      ++groups_.front().at;
      if (groups_.size() > 1) merge();
      continue;
    }
    switch (in.op) {
      case Op::kBranch:
        branch(lanes, in.target);
        break;
      case Op::kExit:
        ++groups_.front().at;
        remove(0, lanes);
        exited_ |= lanes;
        try_warp(at_warp_);
        block_.check_barrier();
        break;
      case Op::kBarrier:
      case Op::kBarrierVote:
        at_barrier_ |= lanes;
        park(lanes, groups_.front().at);
        block_.check_barrier();
        break;
      case Op::kWarpBarrier:
      case Op::kVote:
      case Op::kShfl:
        meet_warp(in, lanes);
        break;
      default:
        execute(in, lanes);
        ++groups_.front().at;
        // A load that polls what others change may poll in vain: the turn of the others comes sooner.
        if (in.op == Op::kLoad && in.order != Order::kWeak) instructions -= 8;
    }
    if (groups_.size() > 1) merge();
  }
}

void Warp::pick() {
  std::size_t least = 0;
  for (std::size_t g = 1; g < groups_.size(); ++g)
    if (groups_[g].at < groups_[least].at) least = g;
  std::swap(groups_.front(), groups_[least]);
}

void Warp::merge() {
  for (std::size_t g = 1; g < groups_.size();) {
    if (groups_[g].at == groups_.front().at) {
      groups_.front().lanes |= groups_[g].lanes;
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(g));
    } else {
      ++g;
    }
  }
}

void Warp::remove(std::size_t group, Mask lanes) {
  groups_[group].lanes &= ~lanes;
  if (groups_[group].lanes == 0) groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(group));
}

void Warp::park(Mask lanes, std::uint32_t at) {
  for_lanes(lanes, [&](int lane) { waits_at_[lane] = at; });
  ++groups_.front().at;
  remove(0, lanes);
}

void Warp::go_on(Mask lanes) {
  while (lanes != 0) {
    const std::uint32_t at = waits_at_[__builtin_ctz(lanes)];
    Mask same = 0;
    for_lanes(lanes, [&](int lane) { same |= waits_at_[lane] == at ? Mask{1} << lane : 0; });
    lanes &= ~same;
    groups_.push_back({at + 1, same});
  }
}

void Warp::branch(Mask taken, std::uint32_t target) {
  Group& group = groups_.front();
  if (taken == group.lanes) {
    group.at = target;
    return;
  }
  ++group.at;
  group.lanes &= ~taken;
  groups_.push_back({target, taken});
}

void Warp::votes(bool& all, bool& any) const {
  for_lanes(at_barrier_, [&](int lane) {
    const Instruction& in = block_.grid.kernel.code[waits_at_[lane]];
    if (in.op != Op::kBarrierVote) return;
    const bool yes = predicate(in.a, Mask{1} << lane) != 0;
    all = all && yes;
    any = any || yes;
  });
}

void Warp::leave_barrier(bool all, bool any) {
  for_lanes(at_barrier_, [&](int lane) {
    const Instruction& in = block_.grid.kernel.code[waits_at_[lane]];
    if (in.op == Op::kBarrierVote) registers_.of(in.to.at)[lane] = in.way == Way::kAnd ? all : any;
  });
  const Mask lanes = at_barrier_;
  at_barrier_ = 0;
  go_on(lanes);
}

void Warp::meet_warp(const Instruction& in, Mask lanes) {
  std::uint64_t room[kLanes];
  const auto members = static_cast<Mask>(source(in.d, room)[__builtin_ctz(lanes)]);
  at_warp_ |= lanes;
  park(lanes, groups_.front().at);
  if ((lanes & ~members) != 0)
    return fail(in, __builtin_ctz(lanes & ~members), "a lane that is no member of the mask comes to");
  try_warp(members);
}

// `members`: where nobody knows, those that wait.
void Warp::try_warp(Mask members) {
  if (members == 0) return;
  std::uint64_t room[kLanes];
  const int first = __builtin_ctz(members);
  if ((at_warp_ >> first & 1) != 0)
    members = static_cast<Mask>(source(block_.grid.kernel.code[waits_at_[first]].d, room)[first]);
  members &= ~exited_;
  if (members == 0 || (members & ~at_warp_) != 0) return;
  together(members);
  if (block_.grid.around.options.races) {
    std::vector<Races::Thread> threads;
    const Instruction& in = block_.grid.kernel.code[waits_at_[__builtin_ctz(members)]];
    for_lanes(members, [&](int lane) { threads.push_back(thread(lane)); });
    if (in.op == Op::kWarpBarrier) block_.grid.around.races.meet(threads);  // votes and shuffles order no memory
  }
  at_warp_ &= ~members;
  go_on(members);
}

void Warp::together(Mask members) {
  const auto& code = block_.grid.kernel.code;
  const Op op = code[waits_at_[__builtin_ctz(members)]].op;
  Mask yes = 0;
  std::uint64_t values[kLanes] = {};
  for_lanes(members, [&](int lane) {
    const Instruction& in = code[waits_at_[lane]];
    if (in.op != op) return fail(in, lane, "lanes of a warp wait for each other in different ways:");
    std::uint64_t room[kLanes];
    if (op == Op::kVote) yes |= predicate(in.a, Mask{1} << lane);
    if (op == Op::kShfl) values[lane] = source(in.a, room)[lane];
  });
  for_lanes(members, [&](int lane) {
    const Instruction& in = code[waits_at_[lane]];
    if (op == Op::kVote) {
      const bool holds = in.way == Way::kAnd ? yes == members : yes != 0;
      registers_.of(in.to.at)[lane] = in.way == Way::kBallot ? yes : holds;
    }
    if (op == Op::kShfl) shuffle(in, members, lane, values);
  });
}

void Warp::shuffle(const Instruction& in, Mask members, int lane, const std::uint64_t* values) {
  std::uint64_t room_b[kLanes], room_c[kLanes];
  const auto b = static_cast<int>(source(in.b, room_b)[lane] & 31);
  const auto c = source(in.c, room_c)[lane];
  const int clamp = static_cast<int>(c & 31), segment = static_cast<int>(c >> 8 & 31);
  const int most = (lane & segment) | (clamp & ~segment), least = lane & segment;
  int from = lane;
  bool there = false;
  switch (in.way) {
    case Way::kUp:
      from = lane - b, there = from >= most;
      break;
    case Way::kDown:
      from = lane + b, there = from <= most;
      break;
    case Way::kBfly:
      from = lane ^ b, there = from <= most;
      break;
    default:
      from = least | (b & ~segment), there = from <= most;
  }
  if (!there) from = lane;
  if ((members >> from & 1) == 0) return fail(in, lane, "a value is taken from a lane that does not take part:");
  registers_.of(in.to.at)[lane] = values[from];
  if (in.also_to) registers_.of(in.also_to.at)[lane] = there;
}

Warp::Source Warp::source(const Operand& operand, std::uint64_t (&room)[kLanes]) const {
  if (operand.is_register()) return {registers_.of(operand.at), 1};
  if (operand.kind == Operand::Kind::kSpecial) {
    for (int lane = 0; lane < kLanes; ++lane) room[lane] = special(static_cast<Special>(operand.at), lane);
    return {room, 1};
  }
  room[0] = operand.value;
  return {room, 0};
}

std::uint64_t Warp::special(Special which, int lane) const {
  const Grid& grid = block_.grid;
  const auto thread = static_cast<std::uint32_t>(first_thread_ + lane);
  switch (which) {
    case Special::kTidX:
      return thread % grid.threads.x;
    case Special::kTidY:
      return thread / grid.threads.x % grid.threads.y;
    case Special::kTidZ:
      return thread / grid.threads.x / grid.threads.y;
    case Special::kNtidX:
      return grid.threads.x;
    case Special::kNtidY:
      return grid.threads.y;
    case Special::kNtidZ:
      return grid.threads.z;
    case Special::kCtaidX:
      return block_.at.x;
    case Special::kCtaidY:
      return block_.at.y;
    case Special::kCtaidZ:
      return block_.at.z;
    case Special::kNctaidX:
      return grid.blocks.x;
    case Special::kNctaidY:
      return grid.blocks.y;
    case Special::kNctaidZ:
      return grid.blocks.z;
    case Special::kLane:
      return static_cast<std::uint64_t>(lane);
    case Special::kWarpSize:
      return kLanes;
    case Special::kGlobalTimer:
    case Special::kClock:
      return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                        std::chrono::nanoseconds(1));
  }
  return 0;
}

Mask Warp::predicate(const Operand& operand, Mask lanes) const {
  if (operand.kind == Operand::Kind::kImmediate) return (operand.value != 0) != operand.negated ? lanes : 0;
  const std::uint64_t* const values = registers_.of(operand.at);
  Mask yes = 0;
  for_lanes(lanes, [&](int lane) { yes |= static_cast<Mask>(values[lane] & 1) << lane; });
  return operand.negated ? lanes & ~yes : yes;
}

Races::Thread Warp::thread(int lane) const {
  return block_.first_thread + static_cast<Races::Thread>(first_thread_ + lane);
}

void Warp::fail(const Instruction& in, int lane, const std::string& what) {
  const Grid& grid = block_.grid;
  grid.around.fail(fmt::format("{} {} (block {} of {}, thread {}, {})", what, in.text,
                               block_.at.x + grid.blocks.x * (block_.at.y + grid.blocks.y * block_.at.z),
                               grid.blocks.count(), first_thread_ + lane, grid.kernel.name));
}

}  // namespace weft::ptx
