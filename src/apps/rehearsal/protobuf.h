#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace weft::rehearsal {

// Reads the fields of one protobuf message in the order in which they stand. Where the bytes are none, it ends and is
// broken. A view: the bytes must outlive it.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view bytes) : bytes_(bytes) {}

  struct Field {
    std::uint32_t number = 0;
    std::uint64_t value = 0;  // of a varint or a fixed number, its bits
    std::string_view bytes;   // of a string, a message or packed numbers
    double as_double() const { return std::bit_cast<double>(value); }
    double as_float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }
  };

  std::optional<Field> next() {
    if (bytes_.empty() || broken_) return std::nullopt;
    const auto key = varint();
    if (!key || (*key >> 3) == 0 || (*key >> 3) > 0x1FFFFFFF) return fail();
    Field field{.number = static_cast<std::uint32_t>(*key >> 3)};
    switch (*key & 7) {
      case 0:
        if (const auto value = varint()) {
          field.value = *value;
          return field;
        }
        return fail();
      case 1:
        return fixed(field, 8);
      case 5:
        return fixed(field, 4);
      case 2:
        if (const auto length = varint(); length && *length <= bytes_.size()) {
          field.bytes = bytes_.substr(0, static_cast<std::size_t>(*length));
          bytes_.remove_prefix(static_cast<std::size_t>(*length));
          return field;
        }
        return fail();
      default:
        return fail();
    }
  }
  bool broken() const { return broken_; }

  // A number of 1 to 10 bytes, the lowest seven bits first.
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 10 && i < bytes_.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes_[i]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
      if (byte < 0x80) {
        bytes_.remove_prefix(i + 1);
        return value;
      }
    }
    return std::nullopt;
  }
  bool empty() const { return bytes_.empty(); }
  // The next `length` bytes; nothing where there are fewer.
  std::optional<std::string_view> take(std::uint64_t length) {
    if (length > bytes_.size()) return std::nullopt;
    const std::string_view taken = bytes_.substr(0, static_cast<std::size_t>(length));
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  std::optional<Field> fail() {
    broken_ = true;
    return std::nullopt;
  }
  std::optional<Field> fixed(Field field, std::size_t width) {
    const auto bytes = take(width);
    if (!bytes) return fail();
    std::memcpy(&field.value, bytes->data(), width);
    return field;
  }

  std::string_view bytes_;
  bool broken_ = false;
};

}  // namespace weft::rehearsal
