#include "net/link/key.h"

#include <gtest/gtest.h>

namespace weft::net::link {
namespace {

std::span<const std::uint8_t> bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// FIPS 180-4, the examples of NIST: "abc" and the empty message.
TEST(Keys, Sha256GivesThePublishedValues) {
  EXPECT_EQ(hexadecimal(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hexadecimal(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

// RFC 4231, test cases 1 and 2; a key is padded with zeros to a block, so shorter ones may be given so.
TEST(Keys, HmacGivesThePublishedValues) {
  Key key{};
  for (int i = 0; i < 20; ++i) key[static_cast<std::size_t>(i)] = 0x0b;
  EXPECT_EQ(hexadecimal(mac(key, {bytes("Hi There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  key = {'J', 'e', 'f', 'e'};
  const Digest whole = mac(key, {bytes("what do ya want for nothing?")});
  EXPECT_EQ(hexadecimal(whole), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_TRUE(equal(whole, mac(key, {bytes("what do ya "), bytes("want for nothing?")})));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Digest other = whole;
    other[i] ^= 1;
    EXPECT_FALSE(equal(whole, other));
  }
}

TEST(Keys, RandomBytesAreNotRepeated) {
  Key a{}, b{};
  fill_random(a);
  fill_random(b);
  EXPECT_NE(a, b);
}

}  // namespace
}  // namespace weft::net::link
