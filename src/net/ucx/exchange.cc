#include "net/ucx/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace weft::net::ucx {
namespace {

constexpr std::uint32_t kLongest = 1 << 16;  // UCX's addresses are some hundred bytes

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.resize(to.size() + bytes.size());
  std::ranges::copy(bytes, to.end() - static_cast<std::ptrdiff_t>(bytes.size()));
}

template <class T>
T value_at(const std::vector<std::byte>& from, std::size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

}  // namespace

Exchange::Exchange(UniqueFd fd, std::span<const std::byte> own_address) : fd_(std::move(fd)) {
  const auto length = static_cast<Length>(own_address.size());
  append(to_say_, std::as_bytes(std::span(&length, 1)));
  append(to_say_, own_address);
}

void Exchange::say_last(const LastWord& word) {
  append(to_say_, std::as_bytes(std::span(&word, 1)));
  advance();
}

std::size_t Exchange::end_of_address() const { return sizeof(Length) + value_at<Length>(heard_, 0); }

std::optional<LastWord> Exchange::take_word() {
  if (!done() || expected() > 0) return std::nullopt;
  const auto word = value_at<LastWord>(heard_, end_of_address());
  heard_.resize(end_of_address());
  return word;
}

std::size_t Exchange::expected() const {
  if (heard_.size() < sizeof(Length)) return sizeof(Length) - heard_.size();
  if (heard_.size() < end_of_address()) return end_of_address() - heard_.size();
  return end_of_address() + sizeof(LastWord) - heard_.size();
}

std::size_t Exchange::outcome(const link::Moved& moved) {
  if (moved.over)
    problem_ = moved.error == 0 ? "its connection was closed"
                                : fmt::format("its connection broke: {}", std::strerror(moved.error));
  return moved.bytes;
}

void Exchange::advance() {
  while (!problem_ && said_ < to_say_.size()) {
    const std::size_t left = to_say_.size() - said_;
    const std::size_t moved = outcome(link::send_now(fd_.get(), &to_say_[said_], left));
    if (moved == 0) break;
    said_ += moved;
  }
  if (silent()) to_say_.clear(), said_ = 0;
  // What the peer said before it went can still be read, whatever sending has met.
  problem_.reset();
  std::byte buffer[1024];
  while (!problem_ && expected() > 0) {  // a word that has come is to be taken first
    const std::size_t moved = outcome(link::receive_now(fd_.get(), buffer, std::min(expected(), sizeof buffer)));
    if (moved == 0) return;
    heard_.insert(heard_.end(), buffer, buffer + moved);
    if (heard_.size() == sizeof(Length) && (end_of_address() == sizeof(Length) || end_of_address() > kLongest))
      problem_ = fmt::format("it says that its UCX address has {} bytes", end_of_address() - sizeof(Length));
  }
}

}  // namespace weft::net::ucx
