#include "api/session/arguments.h"

#include <utility>

namespace weft::session {

Status check_type(std::string_view call, DataType type) {
  if (is_known(type)) return {};
  return bad_input("{}: type {} is none: there are 0 to {}", call, static_cast<int>(type), kDataTypes - 1);
}

Status check_op(std::string_view call, ReduceOp op) {
  if (is_known(op)) return {};
  return bad_input("{}: operation {} is none: there are 0 to {}", call, static_cast<int>(op), kReduceOps - 1);
}

Status check_timeout(std::string_view call, std::optional<std::chrono::milliseconds> timeout) {
  if (!timeout || (timeout->count() >= 0 && *timeout <= kMostTimeout)) return {};
  return bad_input("{}: a timeout of {} ms: it is 0 (no limit) to {} ms (100 years)", call, timeout->count(),
                   kMostTimeout.count());
}

Status check_ranks(std::string_view call, Rank ranks) {
  if (ranks >= 1 && ranks <= kMostRanks) return {};
  return bad_input("{}: {} ranks: there are 1 to {}", call, ranks, kMostRanks);
}

Status check_place(std::string_view call, Rank rank, Rank ranks) {
  WEFT_CHECK(check_ranks(call, ranks));
  if (rank >= 0 && rank < ranks) return {};
  return bad_input("{}: rank {} is none of {}", call, rank, ranks);
}

Status check_elements(std::string_view call, const void* data, std::size_t count, DataType type) {
  if (count > kAddressSpace / static_cast<std::size_t>(size_of(type)))
    return bad_input("{}: {} elements do not fit into memory", call, count);
  if (count > 0 && data == nullptr) return bad_input("{} of {} elements: null buffer", call, count);
  const std::uintptr_t bytes = count * static_cast<std::uintptr_t>(size_of(type));
  if (reinterpret_cast<std::uintptr_t>(data) + bytes < bytes)
    return bad_input("{}: {} elements at {} end past the last address", call, count, data);
  return {};
}

std::function<bool()> without_throwing(std::function<bool()> interrupted) {
  if (!interrupted) return interrupted;
  return [asked = std::move(interrupted)] {
    try {
      return asked();
    } catch (...) {
      return true;
    }
  };
}

}  // namespace weft::session
