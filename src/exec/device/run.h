#pragma once

#include "exec/device/endpoint.h"
#include "exec/interpreter.h"

namespace weft::exec::device {

struct FlatCursor {
  const FlatOperation* at;
  const FlatOperation* end;
  WEFT_DEVICE constexpr const FlatOperation* next() { return at == end ? nullptr : at++; }
};

// The operations of a strand, in the block's shared memory if they fit. All threads of the block call it.
template <class Machine>
WEFT_DEVICE FlatCursor stage_program(Machine& machine, const std::byte* image, int strand) {
  const auto& header = *reinterpret_cast<const ImageHeader*>(image);
  const auto& mine = *reinterpret_cast<const FlatStrand*>(image + header.strand(strand));
  const std::int64_t first = header.operation(mine.first), first_end = header.end(mine.first_end);
  const std::int64_t operations = std::int64_t{mine.count} * std::int64_t{sizeof(FlatOperation)};
  const std::int64_t bytes = operations + std::int64_t{mine.ends} * std::int64_t{sizeof(FlatEnd)};
  const auto* const there = reinterpret_cast<const FlatOperation*>(image + first);
  if (bytes > Staged::kProgramBytes) return {there, there + mine.count};
  std::byte* const here = machine.staged().program;
  for (std::int64_t at = 8 * machine.thread(); at < bytes; at += 8 * machine.threads())
    *reinterpret_cast<std::uint64_t*>(here + at) =
        *reinterpret_cast<const std::uint64_t*>(image + (at < operations ? first + at : first_end + at - operations));
  machine.barrier();
  auto* const moved = reinterpret_cast<FlatOperation*>(here);
  const auto nearer = static_cast<std::int32_t>(first_end - first - operations);
  for (int o = machine.thread(); o < mine.count; o += machine.threads()) moved[o].ends -= nearer;
  machine.barrier();
  return {moved, moved + mine.count};
}

// Signals between the strands of one rank: blocks of one kernel. As signals between ranks, see BlockEndpoint.
template <class Machine>
class BlockSignals {
 public:
  WEFT_DEVICE BlockSignals(Machine& machine, const Frame& frame) : machine_(machine), frame_(frame) {}

  WEFT_DEVICE static constexpr void require(const BlockSignals*) {}
  WEFT_DEVICE void send(int from, int to) {
    OwnSignal& s = signal(from, to);
    if (machine_.thread() == 0) machine_.store_release(&s.sent, s.sent + 1);
  }
  WEFT_DEVICE bool take(int from, int to) {
    OwnSignal& s = signal(from, to);
    const bool there = machine_.thread() != 0 || machine_.load_acquire(&s.sent) > s.taken;
    if (!machine_.all(there)) return false;
    if (machine_.thread() == 0) ++s.taken;
    return true;
  }

 private:
  WEFT_DEVICE OwnSignal& signal(int from, int to) const {
    return *reinterpret_cast<OwnSignal*>(frame_.regions[frame_.rank] + frame_.geometry.own(to, from));
  }
  Machine& machine_;
  const Frame& frame_;
};

// A block of a rank's kernel: one strand from its first operation to its last, or until it gives up. All threads of
// the block call it. Requires: as many blocks as the image has strands, all of all ranks resident at the same time.
template <class T, class Machine>
WEFT_DEVICE void run_strand(Machine& machine, const Frame& frame, int strand) {
  using Endpoint = BlockEndpoint<T, Machine>;
  Endpoint endpoint(machine, frame, strand);
  BlockSignals<Machine> own(machine, frame);
  Interpreter<Endpoint, FlatCursor, NoTrace, BlockSignals<Machine>> interpreter(
      strand, stage_program(machine, frame.image, strand), &own);
  while (interpreter.advance(endpoint) != Progress::kDone)
    if (endpoint.gives_up(*interpreter.current())) return;
  endpoint.end_call();
}

// The last step of an average of integers: every element divided by `divisor`, towards zero. Threads of all blocks
// share it.
template <class T>
WEFT_DEVICE void divide_elements(std::byte* data, std::int64_t bytes, std::int32_t divisor, std::int64_t thread,
                                 std::int64_t threads) {
  auto* const elements = reinterpret_cast<T*>(data);
  for (std::int64_t i = thread; i < bytes / std::int64_t{sizeof(T)}; i += threads)
    elements[i] = static_cast<T>(elements[i] / static_cast<T>(divisor));
}

// Calls `use` with a value of the C++ type that stands for `type`.
template <class Use>
constexpr void with_type(DataType type, Use&& use) {
  switch (type) {
    case DataType::kInt8:
      return use(std::int8_t{});
    case DataType::kInt16:
      return use(std::int16_t{});
    case DataType::kInt32:
      return use(std::int32_t{});
    case DataType::kInt64:
      return use(std::int64_t{});
    case DataType::kUint8:
      return use(std::uint8_t{});
    case DataType::kUint16:
      return use(std::uint16_t{});
    case DataType::kUint32:
      return use(std::uint32_t{});
    case DataType::kUint64:
      return use(std::uint64_t{});
    case DataType::kFloat16:
      return use(Float16{});
    case DataType::kBfloat16:
      return use(Bfloat16{});
    case DataType::kFloat32:
      return use(float{});
    case DataType::kFloat64:
      return use(double{});
    case DataType::kFloat8E4M3:
      return use(Float8E4M3{});
    case DataType::kFloat8E5M2:
      return use(Float8E5M2{});
  }
}

}  // namespace weft::exec::device
