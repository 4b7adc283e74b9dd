#include "apps/advise/advise.h"

#include <gtest/gtest.h>

#include <string>

#include "apps/advise/machines.h"
#include "apps/serving/answer.h"

namespace weft::advise {
namespace {

const char* const kPrices = R"({"schema": "weft.prices/1", "currency": "EUR",
  "sources": {"list": {"title": "a list", "date": "2026-11-01"}},
  "cards": [{"part": "H200-SXM5", "machine": "hgx-h200", "per_gpu_hour": 3, "price_source": "list", "watts": 1000,
             "power_source": "list"},
            {"part": "B200-SXM6", "machine": "hgx-b200", "per_gpu_hour": 5, "price_source": "list"}]})";

Prices prices() { return *parse_prices("prices.json", kPrices); }

Words serve_small() {
  Words w{.model = "llama-3.1-8b"};
  w.on = {"hgx-h200"}, w.engines = {"vllm"};
  w.rate = 4, w.input = 512, w.output = 64, w.ttft = 500, w.tpot = 20;
  return w;
}

std::string message(const Words& w) {
  const auto found = advise(w, prices());
  return found ? "no error" : found.error().message;
}

TEST(Prices, EveryShippedPriceHasASourceWithADateAndItsMachineExists) {
  const auto shipped = shipped_prices();
  ASSERT_TRUE(shipped);
  for (const CardPrice& c : shipped->cards) {
    EXPECT_NE(c.price_source.find("20"), std::string::npos) << c.part;
    if (c.machine.empty()) continue;
    const auto machine = open(c.machine);
    ASSERT_TRUE(machine) << c.machine;
    EXPECT_EQ(machine->card, c.part);
  }
}

TEST(Prices, AFileThatIsNoneNamesItselfTheCardAndTheKey) {
  const auto bad = [](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    const auto parsed = parse_prices("mine.json", text);
    return parsed ? "no error" : parsed.error().message;
  };
  EXPECT_EQ(bad(kPrices, "\"per_gpu_hour\": 3", "\"per_gpu_hour\": -3"),
            "mine.json: H200-SXM5: per_gpu_hour is no number above 0");
  EXPECT_EQ(bad(kPrices, "\"date\": \"2026-11-01\"", "\"day\": 1"),
            "mine.json: H200-SXM5: price_source 'list' is no source with title and date");
  EXPECT_EQ(bad(kPrices, "B200-SXM6", "H200-SXM5"), "mine.json: H200-SXM5 stands there twice");
  EXPECT_EQ(bad(kPrices, "\"currency\": \"EUR\"", "\"x\": 1"), "mine.json: currency is missing");
  EXPECT_FALSE(parse_prices("mine.json", "[]"));
  EXPECT_FALSE(parse_prices("mine.json", "{\"schema\": 1}"));
}

TEST(Advise, PoolsOfPrefillAndDecodeAreChosenWhereLongPromptsWouldHoldAnswersUp) {
  Words w = serve_small();
  w.model = "llama-3.1-70b", w.rate = 20, w.input = 8000, w.output = 500, w.ttft = 2000, w.largest = 512;
  const auto advice = advise(w, prices());
  ASSERT_TRUE(advice) << advice.error().message;
  EXPECT_NE(advice->rows[0].plan.find("for prefill"), std::string::npos) << advice->rows[0].plan;
  EXPECT_NE(advice->rows[0].command.find(" --prefill "), std::string::npos) << advice->rows[0].command;
}

TEST(Advise, TheWorkIsAskedForOnceAndNumbersMustBeSome) {
  Words w = serve_small();
  w.tokens = 1e9;
  EXPECT_EQ(message(w), "weft advise takes only one of --rate and --tokens");
  w.tokens = 0, w.rate = 0;
  EXPECT_EQ(message(w), "weft advise needs the work: --rate R requests/s to serve, or --tokens N to train on");
  w = serve_small(), w.budget = -1;
  EXPECT_EQ(message(w), "--budget -1: a number above 0");
  w = serve_small(), w.prices = {-2};
  EXPECT_EQ(message(w), "--price -2: of a GPU-hour, not below 0");
  w = serve_small(), w.prices = {1, 2};
  EXPECT_EQ(message(w), "--price: 2 for 1 machine; one for all, or one for each of --on");
  w = serve_small(), w.deadline = 3;
  EXPECT_EQ(message(w), "--deadline has no effect with --rate; it is for --tokens");
  w = serve_small(), w.percentile = 95;
  EXPECT_EQ(message(w), "--percentile 95: 50, 90 or 99");
  w = {.model = "llama3-8b", .tokens = 1e9};
  EXPECT_EQ(message(w),
            "--tokens needs --deadline DAYS, --budget MONEY or machines of a given size (--on NAME:nodes=N)");
}

// The row's figures are those of one engine at its share of the rate, which its command asks for.
TEST(Advise, ServingGoalsHoldInTheAnswerOfTheNamedCommand) {
  const Words w = serve_small();
  const auto found = advise(w, prices());
  ASSERT_TRUE(found);
  const report::AdviceRow& row = found->rows.front();
  ASSERT_TRUE(row.holds) << row.reason;
  EXPECT_LE(row.ttft, w.ttft);
  EXPECT_LE(row.tpot, w.tpot);
  EXPECT_DOUBLE_EQ(row.hourly, 3 * static_cast<double>(row.gpus));
  EXPECT_NEAR(row.money, row.hourly / (4 * 64 * 3600) * 1e6, 1e-9);
  EXPECT_DOUBLE_EQ(row.kilowatts, static_cast<double>(row.gpus));
  EXPECT_TRUE(row.command.starts_with("weft serve llama-3.1-8b --on hgx-h200 --engine vllm")) << row.command;
  EXPECT_TRUE(row.command.ends_with(" --price 3")) << "the command prints the row's money: " << row.command;
  EXPECT_NE(found->fabric_note.find("within one node"), std::string::npos);
  EXPECT_EQ(to_json(*found)["schema"], "weft.advise/1");
}

TEST(Advise, MoreRequestsTakeMoreGpusAndAMissedGoalSaysSo) {
  Words w = serve_small();
  w.rate = 400;
  const auto more = advise(w, prices());
  const auto few = advise(serve_small(), prices());
  ASSERT_TRUE(more && few);
  EXPECT_GT(more->rows.front().gpus, few->rows.front().gpus);
  w.tpot = 0.1;
  const auto none = advise(w, prices());
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->rows.front().holds);
  EXPECT_NE(none->rows.front().reason.find("TPOT"), std::string::npos) << none->rows.front().reason;
}

// At the asked rate the table's first machine is the cheapest, whatever is said of other rates.
TEST(Advise, WhereTheAnswerTurnsAgreesWithTheTable) {
  for (const double rate : {5.0, 20.0, 60.0}) {
    Words w = serve_small();
    w.rate = rate;
    w.on = {"hgx-h200", "hgx-b200", "dgx-a100-80gb"}, w.prices = {6.3, 8.6, 2.7};
    const auto found = advise(w, prices());
    ASSERT_TRUE(found) << found.error().message;
    for (const report::AdviceTurn& turn : found->turns) {
      if (turn.size <= w.rate)
        EXPECT_TRUE(turn.answer.starts_with(found->rows.front().machine)) << rate << ": " << turn.answer;
      else
        EXPECT_FALSE(turn.answer.starts_with(found->rows.front().machine)) << rate << ": " << turn.answer;
    }
  }
}

TEST(Advise, WhatIsThereAlreadyWinsUntilItIsTooSmall) {
  Words w = serve_small();
  w.have = {"hgx-h200"}, w.on = {"hgx-b200"};
  const auto small = advise(w, prices());
  ASSERT_TRUE(small);
  EXPECT_TRUE(small->rows.front().owned);
  EXPECT_EQ(small->rows.front().hourly, 0);
  w.rate = 4000;
  const auto large = advise(w, prices());
  ASSERT_TRUE(large);
  EXPECT_FALSE(large->rows.front().owned);
  EXPECT_NE(large->rows.back().reason.find("8 are there"), std::string::npos) << large->rows.back().reason;
}

TEST(Advise, AMachineThatIsThereIsAskedBackWhereItsNameIsOfSeveralCards) {
  Words w = serve_small();
  w.have = {"a100"};
  const auto unclear = advise(w, prices());
  ASSERT_FALSE(unclear);
  EXPECT_EQ(unclear.error().message,
            "--have a100: which of dgx-a100 (A100-SXM4-40GB), dgx-a100-80gb (A100-SXM4-80GB)?");
  w.have = {"dgx-a100-80gb"};
  EXPECT_TRUE(advise(w, prices()));
}

TEST(Advise, ACardWithoutAPriceIsRefusedByNameAndPricedByTheAsker) {
  Words w = serve_small();
  w.on = {"dgx-a100-80gb"};
  const auto none = advise(w, prices());
  ASSERT_TRUE(none);
  EXPECT_EQ(none->rows.front().reason, "no price: give --price (none is known of A100-SXM4-80GB)");
  EXPECT_NE(report::in_words(*none).find("no price: give --price, and"), std::string::npos);
  w.prices = {2};
  EXPECT_TRUE(advise(w, prices())->rows.front().holds);
}

TEST(Advise, TrainingOnAGivenMachineCountsDaysMoneyAndWhatACheaperNetworkCosts) {
  Words w{.model = "llama3-8b", .on = {"hgx-h200:nodes=2"}, .tokens = 1e10};
  w.global_batch = 64, w.seq = 4096;
  const auto found = advise(w, prices());
  ASSERT_TRUE(found);
  const report::AdviceRow& row = found->rows.front();
  ASSERT_TRUE(row.holds) << row.reason;
  EXPECT_EQ(row.gpus, 16);
  EXPECT_NEAR(row.days, 1e10 / row.tokens_per_second / 86400, 1e-12);
  EXPECT_NEAR(row.money, 16 * 3 * 24 * row.days, 1e-9);
  ASSERT_EQ(found->fabrics.size(), 3u);
  EXPECT_GT(found->fabrics.back().change, 0.0);  // 100 GbE
  w.deadline = row.days / 2;
  EXPECT_FALSE(advise(w, prices())->rows.front().holds);
}

TEST(Advise, ADeadlineDecidesTheNumberOfNodes) {
  Words w{.model = "llama3-8b", .on = {"hgx-h200"}, .tokens = 1e10};
  w.global_batch = 64, w.seq = 4096, w.largest = 32;
  w.deadline = 10;
  const auto slow = advise(w, prices());
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rows.front().nodes, 1);
  w.deadline = slow->rows.front().days * 0.6;
  const auto fast = advise(w, prices());
  ASSERT_TRUE(fast);
  EXPECT_EQ(fast->rows.front().nodes, 2);
  EXPECT_LE(fast->rows.front().days, w.deadline);
}

}  // namespace
}  // namespace weft::advise
