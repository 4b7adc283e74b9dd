#include "net/link/key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/bootstrap/secret.h"
#include "net/bootstrap/unique_id.h"

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

TEST(Keys, TextsThatCouldBeGuessedAreRefusedAndNotRepeated) {
  for (const std::string bad :
       {"open sesame", "0123456789abcdef0123456789abcde", "correct horse battery staple and more",
        "00000000000000000000000000000000", "0101010101010101010101010101010101010101"}) {
    const auto refused = parse_key("WEFT_KEY", bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_NE(refused.error().message.find("openssl rand -hex 32"), std::string::npos);
    EXPECT_EQ(refused.error().message.find(bad), std::string::npos);
  }
  Key random;
  for (int i = 0; i < 1000; ++i) {
    fill_random(random);
    ASSERT_TRUE(parse_key("WEFT_KEY", hexadecimal(random).substr(0, 32)));
  }
}

TEST(Keys, AUserHasOneKeyOnAHostThatOnlyHeReads) {
  const auto first = user_key();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, user_key().value());
  struct stat info {};
  ASSERT_EQ(stat(user_key_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  EXPECT_EQ(info.st_uid, geteuid());
}

TEST(UniqueIds, AreReadBackAndWhateverElseIsRefusedWithoutRepeatingIt) {
  UniqueId id;
  fill_random(id.key);
  id.addresses[0] = loopback();
  id.addresses[0].port = 4711;
  const auto back = UniqueId::parse("WEFT_JOIN", id.text());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->text(), id.text());
  EXPECT_EQ(id.text().size(), 256u);
  std::string odd = id.text();
  odd[100] = 'x';
  std::string foreign = id.text();
  foreign[0] = '0';
  UniqueId nowhere = id;
  nowhere.addresses[0] = {};
  UniqueId strange = id;
  strange.addresses[2].family = 9;
  for (const std::string& bad : {std::string(), id.text() + "00", odd, foreign, nowhere.text(), strange.text()}) {
    const auto refused = UniqueId::parse("WEFT_JOIN", bad);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("WEFT_JOIN"), std::string::npos);
    if (!bad.empty()) {
      EXPECT_EQ(refused.error().message.find(bad), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace weft::net::link
