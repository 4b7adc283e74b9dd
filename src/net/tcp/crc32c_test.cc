#include "net/tcp/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace weft::net::tcp {
namespace {

// RFC 3720, appendix B.4, and the check value of the CRC catalogue ("123456789").
TEST(Crc32c, GivesThePublishedValues) {
  const std::vector<std::uint8_t> zeros(32, 0), ones(32, 0xff);
  std::vector<std::uint8_t> rising(32);
  for (std::size_t i = 0; i < 32; ++i) rising[i] = static_cast<std::uint8_t>(i);
  for (auto* f : {&crc32c, &crc32c_portable}) {
    EXPECT_EQ(f(0, zeros.data(), 32), 0x8a9136aau);
    EXPECT_EQ(f(0, ones.data(), 32), 0x62a8ab43u);
    EXPECT_EQ(f(0, rising.data(), 32), 0x46dd794eu);
    EXPECT_EQ(f(0, "123456789", 9), 0xe3069283u);
  }
}

TEST(Crc32c, BothFormsAgreeOnEveryLengthAndContinue) {
  std::mt19937 random(4);
  std::vector<std::uint8_t> data(90000);
  for (auto& b : data) b = static_cast<std::uint8_t>(random());
  for (std::size_t n = 0; n < data.size(); n = n < 1600 ? n + 1 : n * 5 / 4) {
    const std::uint32_t whole = crc32c_portable(0, data.data(), n);
    EXPECT_EQ(crc32c(0, data.data(), n), whole) << n;
    const std::size_t cut = n / 3;
    EXPECT_EQ(crc32c(crc32c(0, data.data(), cut), data.data() + cut, n - cut), whole) << n;
    const std::uint32_t first = crc32c(0, data.data(), cut), second = crc32c(0, data.data() + cut, n - cut);
    EXPECT_EQ(crc32c_joined(first, second, n - cut), whole) << n;
  }
}

}  // namespace
}  // namespace weft::net::tcp
