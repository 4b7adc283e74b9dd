#include "tests/conformance/job.h"

#include <cstring>

#include "exec/kernels/fold.h"

namespace weft::conformance {

using protocol::End;
using protocol::Memory;
using protocol::Operation;

namespace {

// Bytes that differ between ranks and between neighbouring places: a message from elsewhere does not look right.
std::byte pattern(Rank rank, Bytes at) {
  auto x =
      static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(at) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 29;
  x *= 0x94d049bb133111ebu;
  return static_cast<std::byte>(x >> 56);
}

std::size_t size(std::int64_t v) { return static_cast<std::size_t>(v); }

}  // namespace

Job::Job(Rank ranks, Bytes bytes) : ranks_(ranks), bytes_(bytes), inputs_(size(ranks)), expected_(size(ranks)) {
  for (Rank r = 0; r < ranks; ++r) {
    inputs_[size(r)].resize(size(bytes));
    expected_[size(r)].resize(size(bytes));
    for (Bytes i = 0; i < bytes; ++i) inputs_[size(r)][size(i)] = pattern(r, i);
  }
}

void Job::begin(protocol::Protocol protocol, bool publishes, int strands) {
  Phase& phase = phases_.emplace_back(Phase{protocol, publishes, false, {}});
  for (Rank r = 0; r < ranks_; ++r) phase.programs.push_back(std::make_shared<schedule::Program>(size(strands)));
}

void Job::add(Rank rank, Operation operation, int strand) {
  (*phases_.back().programs[size(rank)])[size(strand)].push_back(std::move(operation));
}

void Job::message(Rank source, Rank destination, Bytes from, Bytes to, Bytes bytes, int strand) {
  add(source, move(bytes, {in(from)}, {message_of(destination, strand)}), strand);
  add(destination, move(bytes, {message_of(source, strand)}, {out(to)}), strand);
  expect(destination, to, {source}, from, bytes);
}

void Job::signal(Rank rank, Rank peer, int strand) {
  add(rank, {.kind = Operation::Kind::kSignal, .peer = peer, .sources = {}, .destinations = {}}, strand);
}

void Job::wait(Rank rank, Rank peer, int strand) {
  add(rank, {.kind = Operation::Kind::kWait, .peer = peer, .sources = {}, .destinations = {}}, strand);
}

void Job::expect(Rank rank, Bytes to, const std::vector<Rank>& inputs, Bytes from, Bytes bytes) {
  std::byte* target = expected_[size(rank)].data() + to;
  const bool scales = phases_.back().scales;
  if (inputs.size() == 1 && !scales) {
    std::memcpy(target, inputs_[size(inputs[0])].data() + from, size(bytes));
    return;
  }
  for (std::size_t i = 0; i + 4 <= size(bytes); i += 4) {
    std::uint32_t sum = 0;
    for (const Rank r : inputs) {
      std::uint32_t part;
      std::memcpy(&part, inputs_[size(r)].data() + from + i, 4);
      sum += scales ? part * static_cast<std::uint32_t>(scale_of(r).integer) : part;
    }
    std::memcpy(target + i, &sum, 4);
  }
}

void Job::fill(Rank rank, std::byte* in) const { std::memcpy(in, inputs_[size(rank)].data(), size(bytes_)); }

std::string Job::compare(Rank rank, const std::byte* out) const {
  const auto& expected = expected_[size(rank)];
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (out[i] != expected[i])
      return fmt::format("rank {}: byte {} of the output is {:#x} instead of {:#x}", rank, i, static_cast<int>(out[i]),
                         static_cast<int>(expected[i]));
  return "";
}

End in(Bytes offset) { return {.memory = Memory::kIn, .offset = offset}; }
End out(Bytes offset) { return {.memory = Memory::kOut, .offset = offset}; }
End scratch(Bytes offset) { return {.memory = Memory::kScratch, .offset = offset}; }
End message_of(Rank peer, int strand) {
  return {.kind = End::Kind::kMessage, .strand = static_cast<std::int16_t>(strand), .peer = peer};
}
End sum_over(Rank first, Rank count, Rank stride, int strand) {
  return {.kind = End::Kind::kAggregation,
          .strand = static_cast<std::int16_t>(strand),
          .peer = first,
          .count = count,
          .stride = stride};
}
End remote(Rank peer, End local) {
  local.kind = End::Kind::kRemote;
  local.peer = peer;
  return local;
}
Operation move(Bytes bytes, SmallList<End, 2> sources, SmallList<End, 2> destinations) {
  return {.bytes = bytes, .sources = std::move(sources), .destinations = std::move(destinations)};
}

std::string run_rank(exec::Executor& executor, const Job& job) {
  const Rank self = executor.rank();
  const auto input = executor.allocate(job.bytes());
  const auto output = executor.allocate(job.bytes());
  if (!input || !output) return "cannot allocate";
  auto* const in = static_cast<std::byte*>(*input);
  auto* const out = static_cast<std::byte*>(*output);
  job.fill(self, in);
  std::memset(out, 0, size(job.bytes()));
  std::string wrong;
  std::uint64_t number = 0;
  for (const Job::Phase& phase : job.phases()) {
    executor.start(phase.programs[size(self)],
                   {.in = in,
                    .out = out,
                    .protocol = phase.protocol,
                    .fold = exec::fold_for(DataType::kInt32, ReduceOp::kSum),
                    .scale = phase.scales ? std::optional(Job::scale_of(self)) : std::nullopt,
                    .reduction = exec::reduction_number(DataType::kInt32, ReduceOp::kSum),
                    .publishes = phase.publishes,
                    .signature = ++number});
    if (const Status status = executor.wait(); !status) {
      wrong = fmt::format("rank {}: call {}: {}", self, number, status.error().message);
      break;
    }
  }
  if (wrong.empty()) wrong = job.compare(self, out);
  executor.deallocate(*input);
  executor.deallocate(*output);
  return wrong;
}

}  // namespace weft::conformance
