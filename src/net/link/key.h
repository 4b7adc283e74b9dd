#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/units.h"

namespace weft::net::link {

using Digest = std::array<std::uint8_t, 32>;
using Nonce = std::array<std::uint8_t, 32>;
// The secret of one job's ranks.
using Key = std::array<std::uint8_t, 32>;

std::string hexadecimal(std::span<const std::uint8_t> bytes);
void fill_random(std::span<std::uint8_t> bytes);  // from the system's source
Digest sha256(std::string_view text);
// HMAC-SHA256 over the parts, one after the other. Requires: parts of fixed sizes, so that no two lists look alike.
Digest mac(const Key& key, std::initializer_list<std::span<const std::uint8_t>> parts);
// Takes the same time wherever they differ.
bool equal(const Digest& a, const Digest& b);

}  // namespace weft::net::link
