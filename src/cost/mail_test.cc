#include "cost/mail.h"

#include <gtest/gtest.h>

namespace weft::cost {
namespace {

TEST(Mail, PartsOfOneMessageArriveTogetherAndCostOne) {
  Mail mail(8, 20, 100);
  EXPECT_EQ(mail.filled_by(7, false), 0);
  mail.put(7, {1, 1}, false);
  EXPECT_TRUE(mail.empty(7));  // more of it follows
  EXPECT_EQ(mail.filled_by(7, true), 1);
  mail.put(7, {2, 2}, true);
  EXPECT_EQ(mail.take(7, false).first, 2);  // when the last part was put in
  EXPECT_EQ(mail.take(7, true).last, 2);
  EXPECT_TRUE(mail.empty(7));
}

TEST(Mail, WhatIsLargerThanAMessageGoesAsSeveral) {
  Mail mail(8, 150, 100);
  EXPECT_EQ(mail.filled_by(7, false), 1);
  mail.put(7, {1, 2}, false);
  EXPECT_EQ(mail.filled_by(7, true), 2);  // 300 in three
  mail.put(7, {3, 5}, true);
  EXPECT_EQ(mail.take(7, false).first, 1);  // its first slice filled a message alone
  const auto last = mail.take(7, true);
  EXPECT_EQ(last.first, 3);  // half of the message's bytes between 1 and 5
  EXPECT_EQ(last.last, 5);
}

TEST(Mail, EmptyMessagesAreMessages) {
  Mail mail(8, 0, 100);
  EXPECT_EQ(mail.filled_by(7, true), 1);
  EXPECT_EQ(mail.filled_by(7, false), 0);
}

}  // namespace
}  // namespace weft::cost
