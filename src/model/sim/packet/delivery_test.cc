#include "model/sim/packet/delivery.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

using Recovery = Delivery::Recovery;

std::vector<std::int64_t> sends(Delivery& delivery) {
  std::vector<std::int64_t> all;
  while (const auto packet = delivery.next()) all.push_back(*packet);
  return all;
}

TEST(Delivery, GoesBackToTheFirstMissingPacket) {
  Delivery delivery(5, Recovery::kGoBackN);
  EXPECT_EQ(sends(delivery), (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(delivery.arrives(0).accepted);
  const auto after_gap = delivery.arrives(2);
  EXPECT_FALSE(after_gap.accepted);
  ASSERT_TRUE(after_gap.gap);
  EXPECT_EQ(after_gap.gap->from, 1);
  EXPECT_FALSE(delivery.arrives(3).gap);  // it is reported once
  delivery.reported(*after_gap.gap);
  EXPECT_EQ(sends(delivery), (std::vector<std::int64_t>{1, 2, 3, 4}));
  for (const int packet : {1, 2, 3, 4}) EXPECT_TRUE(delivery.arrives(packet).accepted);
  EXPECT_FALSE(delivery.arrives(4).accepted);  // a copy
}

TEST(Delivery, SelectiveRepeatSendsTheMissingPacketsAlone) {
  Delivery delivery(6, Recovery::kSelective);
  EXPECT_EQ(sends(delivery).size(), 6U);
  EXPECT_TRUE(delivery.arrives(0).accepted);
  const auto after_gap = delivery.arrives(3);
  EXPECT_TRUE(after_gap.accepted);
  ASSERT_TRUE(after_gap.gap);
  delivery.reported(*after_gap.gap);
  EXPECT_EQ(sends(delivery), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(delivery.arrives(1).accepted);
  EXPECT_FALSE(delivery.arrives(1).accepted);
}

TEST(Delivery, ATimeoutSendsWhatTheReceiverMisses) {
  Delivery back(4, Recovery::kGoBackN), selective(4, Recovery::kSelective);
  for (Delivery* d : {&back, &selective}) {
    sends(*d);
    d->arrives(0);
    d->arrives(2);
    d->times_out();
  }
  EXPECT_EQ(sends(back), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(sends(selective), (std::vector<std::int64_t>{1, 3}));
}

TEST(Delivery, OfAGapThatIsLostAgainOnlyATimeoutTells) {
  Delivery delivery(4, Recovery::kGoBackN);
  sends(delivery);
  const auto gap = delivery.arrives(1).gap;
  delivery.reported(*gap);
  EXPECT_EQ(delivery.next(), 0);  // lost again
  EXPECT_FALSE(delivery.arrives(1).gap);
  delivery.times_out();
  EXPECT_EQ(delivery.next(), 0);
}

}  // namespace
}  // namespace weft::sim
