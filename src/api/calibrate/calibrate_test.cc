#include "api/calibrate/calibrate.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "api/calibrate/ucx.h"
#include "net/ucx/ucx.h"

namespace weft::calibrate {
namespace {

TEST(Rates, AreTheSameAfterTheyWereText) {
  Rates rates = typical();
  rates.plain_slots = BytesPerSecond::gigabytes(30);
  rates.streamed_slots = BytesPerSecond::gigabytes(20);
  rates.tcp = Duration::microseconds(4);
  rates.tcp_connection = BytesPerSecond::gigabytes(3);
  rates.ucx = Duration::microseconds(1);
  rates.ucx_connection = BytesPerSecond::gigabytes(7);
  rates.ucx_across = Duration::microseconds(8);
  rates.ucx_across_connection = BytesPerSecond::gigabytes(2);
  const auto read = from_text(to_text(rates));
  ASSERT_TRUE(read) << read.error().message;
  for (const auto trip : {&Rates::core_to_core, &Rates::tcp, &Rates::ucx, &Rates::ucx_across})
    EXPECT_EQ(*read.*trip, rates.*trip);
  for (const auto rate : {&Rates::core, &Rates::shared, &Rates::memory, &Rates::plain_slots, &Rates::streamed_slots,
                          &Rates::tcp_connection, &Rates::ucx_connection, &Rates::ucx_across_connection})
    EXPECT_DOUBLE_EQ((*read.*rate).value(), (rates.*rate).value());
  EXPECT_EQ(read->own_cache, rates.own_cache);
  EXPECT_EQ(read->source, rates.source);
}

TEST(Rates, AsReadAreThoseOfTheirTextToTheLastBit) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> some(1e8, 1e12);
  for (int i = 0; i < 1000; ++i) {
    Rates rates = typical();
    for (const auto rate : {&Rates::core, &Rates::shared, &Rates::memory, &Rates::plain_slots, &Rates::streamed_slots,
                            &Rates::tcp_connection, &Rates::ucx_connection, &Rates::ucx_across_connection})
      rates.*rate = BytesPerSecond(some(random));
    for (const auto time : {&Rates::core_to_core, &Rates::tcp, &Rates::ucx, &Rates::ucx_across})
      rates.*time = Duration::seconds(some(random) * 1e-18);
    const auto read = from_text(to_text(rates));
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_EQ(as_read(rates), *read) << to_text(rates);
  }
}

TEST(Rates, OfUcxAreUnknownWhereATextDoesNotSayThem) {
  std::string text = to_text(typical());
  text.replace(text.find("\"ucx_us\""), 8, "\"other\"");
  const auto read = from_text(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->ucx, Duration());
}

TEST(Rates, OfUcxAreMeasuredWithinAMachineAndAcross) {
  if (const Status s = net::ucx::available(); !s) GTEST_SKIP() << s.error().message;
  // Ranks that yield to a crowd of other processes make no round trip within the time of a measurement.
  double load = 0;
  const auto cores = static_cast<double>(std::thread::hardware_concurrency());
  if (getloadavg(&load, 1) == 1 && load > 3 * cores) GTEST_SKIP() << load << " processes want " << cores << " cores";
  Rates rates = typical();
  measure_ucx(rates);
  for (const Duration trip : {rates.ucx, rates.ucx_across}) EXPECT_GT(trip, Duration());
  for (const BytesPerSecond rate : {rates.ucx_connection, rates.ucx_across_connection}) EXPECT_GT(rate.value(), 0);
}

}  // namespace
}  // namespace weft::calibrate
