// The explorer's page and its server: what the page shows is what the core computed, and the server gives it to nobody
// but a browser that asked for this address.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/common.h"
#include "cli/serve_page.h"
#include "explore/ask.h"
#include "explore/explore.h"

namespace weft {
namespace {

report::Explorer answer(Collective collective, Rank ranks, const std::string& algorithm) {
  const auto machine = cli::load_machine("dgx-h100");
  EXPECT_TRUE(machine);
  const auto task = cli::task_of(collective, ranks, machine->view->ranks_per_node(ranks), 1 << 20, DataType::kFloat32);
  auto report = explore::answer(*machine->view, {"dgx-h100", task, algorithm, ""});
  EXPECT_TRUE(report) << report.error().message;
  return report ? *report : report::Explorer{};
}

// What every rank's memory holds after all moves, as the page computes it.
std::map<std::pair<Rank, std::int64_t>, std::set<Rank>> played(const report::Explorer& e) {
  std::map<std::pair<Rank, std::int64_t>, std::set<Rank>> held;
  for (const auto& m : e.moves) {
    if (m.keeps) held[{m.rank, m.chunk}] = {m.holds.begin(), m.holds.end()};
    for (const Rank to : m.to)
      if (held[{to, m.chunk}].size() <= m.holds.size()) held[{to, m.chunk}] = {m.holds.begin(), m.holds.end()};
  }
  return held;
}

TEST(Explorer, AnAllReduceEndsWithEveryContributionInEveryChunkOfEveryRank) {
  for (const char* algorithm : {"ring", "recursive_doubling", "tree"}) {
    const auto e = answer(Collective::kAllReduce, 8, algorithm);
    EXPECT_TRUE(e.proved) << e.verdict;
    const auto held = played(e);
    for (Rank r = 0; r < 8; ++r)
      for (std::int64_t c = 0; c < e.chunks; ++c) {
        const auto at = held.find({r, c});
        ASSERT_NE(at, held.end()) << algorithm << ": rank " << r << " chunk " << c;
        EXPECT_EQ(at->second.size(), 8u) << algorithm << ": rank " << r << " chunk " << c;
      }
  }
}

TEST(Explorer, MovesOfARingHaveSimulatedTimesWithinTheRun) {
  const auto e = answer(Collective::kAllReduce, 4, "ring");
  ASSERT_TRUE(e.timed);
  ASSERT_FALSE(e.moves.empty());
  for (const auto& m : e.moves) {
    EXPECT_LT(m.begin_us, m.end_us);
    EXPECT_LE(m.end_us, e.total_us * 1.000001);
  }
  // Ring all_reduce on n ranks: 2 (n - 1) sends by every rank (Patarasuk and Yuan, 2009).
  std::map<Rank, int> sends;
  for (const auto& m : e.moves) sends[m.rank] += static_cast<int>(m.to.size());
  for (const auto& [rank, n] : sends) EXPECT_EQ(n, 6) << "rank " << rank;
}

TEST(Explorer, ThePageHoldsTheReportAndNoTextCanEndItsElement) {
  auto e = answer(Collective::kAllGather, 4, "");
  e.question = "</script><b>&";
  const std::string html = explore::page(e);
  EXPECT_EQ(html.find("</script><b>"), std::string::npos);
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* mark : {"/*STYLE*/", "/*SCRIPT*/", "/*DATA*/", "/*POLICY*/", "/*WORKER*/", "/*CORE*/"})
    EXPECT_EQ(html.find(mark), std::string::npos);
  const std::string open = "<script type=\"application/json\" id=\"data\">";
  const std::size_t at = html.find(open) + open.size();
  const auto data = nlohmann::json::parse(html.substr(at, html.find("</script>", at) - at), nullptr, false);
  ASSERT_FALSE(data.is_discarded());
  EXPECT_EQ(data, to_json(e));
  EXPECT_EQ(data.at("schema"), "weft.explorer/1");
}

TEST(Explorer, MoreRanksThanTheStepperShowsLeaveTheOtherViews) {
  const auto report = explore::answer({.on = "dgx-h100:nodes=16,net=ib-ndr", .algorithm = "ring"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->played);
  EXPECT_TRUE(report->moves.empty());
  EXPECT_NE(report->verdict.find("at most 64 ranks"), std::string::npos) << report->verdict;
  EXPECT_FALSE(report->links.empty());
  EXPECT_FALSE(report->curves.empty());
}

TEST(Explorer, AskGivesWhatTheCommandGives) {
  const auto there =
      explore::answer({.collective = "all_gather", .on = "dgx-a100", .bytes = "64K", .algorithm = "pat"});
  ASSERT_TRUE(there) << there.error().message;
  const std::string here =
      explore::ask(R"({"ask": "answer", "collective": "all_gather", "on": "dgx-a100", "bytes": "64K", "algo": "pat"})");
  EXPECT_EQ(nlohmann::json::parse(here), to_json(*there));
}

TEST(Explorer, AskRefusesWhatItCannotUnderstandInOneSentence) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON"},
      {"[1]", "JSON"},
      {R"({"ask": "more"})", "'more'"},
      {R"({"ask": "answer", "on": "dgx"})", "dgx-h100"},
      {R"({"ask": "answer", "ranks": 9})", "8 GPUs"},
      {R"({"ask": "answer", "ranks": "9"})", "whole number"},
      {R"({"ask": "answer", "size": "1M"})", "'size'"},
      {R"({"ask": "answer", "bytes": "many"})", "many"},
      {R"({"ask": "answer", "on": "this"})", "modelled"},
      {R"({"ask": "answer", "algo": "ring", "collective": "all_to_all"})", "ring"},
  };
  for (const auto& [question, names] : cases) {
    const auto answer = nlohmann::json::parse(explore::ask(question));
    EXPECT_EQ(answer.at("schema"), "weft.error/1") << question;
    EXPECT_NE(answer.value("message", "").find(names), std::string::npos) << question << ": " << answer.dump();
  }
}

TEST(Explorer, TheWordsThereAreCanAllBeAsked) {
  const auto words = nlohmann::json::parse(explore::ask(R"({"ask": "words"})"));
  EXPECT_EQ(words.at("schema"), "weft.explorer.words/1");
  EXPECT_GE(words.at("machines").size(), 30u);
  for (const auto& collective : words.at("collectives"))
    for (const auto& algorithm : collective.at("algorithms")) {
      const nlohmann::json question = {
          {"ask", "answer"}, {"collective", collective.at("name")}, {"algo", algorithm}, {"ranks", 4}, {"bytes", "4K"}};
      const auto answer = nlohmann::json::parse(explore::ask(question.dump()));
      if (answer.at("schema") == "weft.explorer/1") continue;
      // What an algorithm needs and this machine lacks is said.
      EXPECT_NE(answer.value("message", "").find(algorithm.get<std::string>()), std::string::npos) << answer.dump();
    }
}

std::string asked(const std::string& line, const std::string& host) {
  return cli::http_answer(line + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "127.0.0.1:4711", "<html>");
}

TEST(ServePage, GivesThePageToThisAddressOnly) {
  EXPECT_TRUE(asked("GET /", "127.0.0.1:4711").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(asked("GET /", "localhost:4711").starts_with("HTTP/1.1 200"));
  for (const char* host : {"127.evil.com:4711", "127.0.0.1", "127.0.0.1:4712", "evil.com", ""})
    EXPECT_TRUE(asked("GET /", host).starts_with("HTTP/1.1 403")) << host;
  EXPECT_TRUE(cli::http_answer("GET / HTTP/1.1\r\nHost: 127.0.0.1:4711\r\nHost: evil.com\r\n\r\n", "127.0.0.1:4711", "")
                  .starts_with("HTTP/1.1 403"));
}

TEST(ServePage, RefusesOtherPathsMethodsAndHalfRequests) {
  EXPECT_TRUE(asked("GET /etc/passwd", "127.0.0.1:4711").starts_with("HTTP/1.1 404"));
  EXPECT_TRUE(asked("POST /", "127.0.0.1:4711").starts_with("HTTP/1.1 405"));
  EXPECT_TRUE(
      cli::http_answer("GET / HTTP/1.1\r\nHost: 127.0.0.1:4711", "127.0.0.1:4711", "").starts_with("HTTP/1.1 400"));
  const std::string head = asked("HEAD /", "127.0.0.1:4711");
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
  EXPECT_NE(head.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
}

}  // namespace
}  // namespace weft
