#include "net/bootstrap/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/bootstrap/unique_id.h"

namespace weft::net::bootstrap {
namespace {

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
}  // namespace weft::net::bootstrap
