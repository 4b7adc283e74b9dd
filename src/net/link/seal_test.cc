#include "net/link/seal.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "net/bootstrap/unique_id.h"

namespace weft::net::link {
namespace {

using Side = Sealer::Side;

struct Record {
  std::string bytes;
  std::byte tag[Sealer::kTagBytes];
};

Record sealed(Sealer& sealer, const std::string& text) {
  Record r{text, {}};
  sealer.seal(text.data(), text.size(), r.bytes.data(), r.tag);
  return r;
}

bool opens(Sealer& opener, Record r, const std::string& text) {
  opener.begin();
  opener.next(r.bytes.data(), r.bytes.size());
  return opener.end(r.tag) && r.bytes == text;
}

Key key_of(int n) { return sha256(std::to_string(n)); }

class Sealers : public testing::TestWithParam<Sealing> {};

// 2^20 records are one key's; both sides take the next at the same record.
TEST_P(Sealers, OpenWhatTheOtherSideSealedAlsoBeyondOneKey) {
  Sealer out(GetParam(), key_of(1), Side::kOpener, true), in(GetParam(), key_of(1), Side::kOpener, false);
  for (int i = 0; i < (1 << 20) + 3; ++i) {
    const std::string text(static_cast<std::size_t>(i % 5), static_cast<char>('a' + i % 20));
    ASSERT_TRUE(opens(in, sealed(out, text), text)) << i;
  }
}

TEST_P(Sealers, OfAnotherDirectionKeyOrPlaceInTheOrderDoNotOpen) {
  const auto opens_by = [&](int key, Side side, int skipped) {
    Sealer out(GetParam(), key_of(1), Side::kOpener, true), in(GetParam(), key_of(key), side, false);
    for (int i = 0; i < skipped; ++i) (void)sealed(out, "skipped");
    return opens(in, sealed(out, "text"), "text");
  };
  EXPECT_TRUE(opens_by(1, Side::kOpener, 0));
  EXPECT_FALSE(opens_by(2, Side::kOpener, 0));
  EXPECT_FALSE(opens_by(1, Side::kAcceptor, 0));
  EXPECT_FALSE(opens_by(1, Side::kOpener, 1));
}

// What is authenticated only is the same text; what is encrypted is not, and not the same twice.
TEST_P(Sealers, EncryptedRecordsOfOneTextDiffer) {
  Sealer out(GetParam(), key_of(1), Side::kOpener, true);
  const std::string text(32, 't');
  const Record first = sealed(out, text), second = sealed(out, text);
  EXPECT_NE(std::memcmp(first.tag, second.tag, sizeof first.tag), 0);
  EXPECT_EQ(first.bytes == text, !out.encrypts());
  EXPECT_EQ(first.bytes == second.bytes, !out.encrypts());
}

INSTANTIATE_TEST_SUITE_P(All, Sealers,
                         testing::Values(Sealing{Protection::kMac, true}, Sealing{Protection::kMac, false},
                                         Sealing{Protection::kEncrypt, true}, Sealing{Protection::kEncrypt, false}),
                         [](const auto& i) { return word(i.param.protection) + (i.param.aes ? "Aes" : "ChaCha"); });

}  // namespace
}  // namespace weft::net::link
