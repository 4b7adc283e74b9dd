// The explorer's page and its server: what the page shows is what the core computed, and the server gives it to nobody
// but a browser that asked for this address.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/cli/common.h"
#include "apps/cli/serve_page.h"
#include "apps/explore/ask.h"
#include "apps/explore/explore.h"
#include "apps/explore/workload.h"
#include "plan/schedule/exchange/written.h"

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

TEST(Explorer, MoreRanksThanTheStepperFollowsLeaveTheOtherViews) {
  const auto report =
      explore::answer({.collective = "broadcast", .on = "dgx-h100:nodes=256,net=ib-ndr", .bytes = "4K"});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->played);
  EXPECT_TRUE(report->moves.empty());
  EXPECT_NE(report->verdict.find("at most 1024 ranks"), std::string::npos) << report->verdict;
  EXPECT_FALSE(report->links.empty());
  EXPECT_FALSE(report->curves.empty());
}

// What every rank holds of the followed chunk after all moves, as the page computes it: contributions by rank.
std::vector<std::set<Rank>> followed(const report::Explorer& e) {
  std::vector<std::set<Rank>> held(static_cast<std::size_t>(e.ranks));
  for (const auto& m : e.moves) {
    std::set<Rank> now;
    for (const auto& run : m.held)
      for (Rank i = 0; i < run.count; ++i) now.insert(run.first + i);
    if (m.keeps) held[static_cast<std::size_t>(m.rank)] = now;
    for (const Rank to : m.to)
      if (auto& there = held[static_cast<std::size_t>(to)]; there.size() <= now.size()) there = now;
  }
  return held;
}

Rank count(const std::vector<report::Explorer::Ranks>& runs) {
  Rank sum = 0;
  for (const auto& run : runs) sum += run.count;
  return sum;
}

TEST(Explorer, BeyondSixtyFourRanksOneChunkIsFollowedToThePostcondition) {
  struct Case {
    const char *collective, *algorithm;
    Rank starts, ends;
  };
  // Of 72 ranks: whose input, and whose output, holds a chunk.
  for (const auto& [collective, algorithm, starts, ends] : {Case{"all_reduce", "ring", 72, 72},
                                                            {"all_reduce", "recursive_doubling", 72, 72},
                                                            {"reduce_scatter", "ring", 72, 1},
                                                            {"all_gather", "pat", 1, 72},
                                                            {"broadcast", "", 1, 72}}) {
    const auto e = explore::answer(
        {.collective = collective, .on = "dgx-h100:nodes=9,net=ib-ndr", .algorithm = algorithm, .chunk = 0});
    ASSERT_TRUE(e) << collective << " " << algorithm << ": " << e.error().message;
    ASSERT_TRUE(e->played && e->proved && e->follows) << collective << " " << algorithm << ": " << e->verdict;
    EXPECT_EQ(count(e->starts), starts) << collective;
    EXPECT_EQ(count(e->ends), ends) << collective;
    const auto held = followed(*e);
    for (const auto& run : e->ends)
      for (Rank i = 0; i < run.count; ++i) {
        const bool its_own = starts == 1 && run.first + i == e->starts[0].first;  // it may keep its input
        EXPECT_TRUE(its_own || static_cast<Rank>(held[static_cast<std::size_t>(run.first + i)].size()) == starts)
            << collective << " " << algorithm << ": rank " << run.first + i << " of chunk " << *e->follows;
      }
    for (const auto& m : e->moves) {
      EXPECT_EQ(m.chunk, *e->follows);
      EXPECT_LT(m.begin_us, m.end_us);
      EXPECT_LE(m.end_us, e->total_us * 1.000001);
    }
  }
}

TEST(Explorer, ARingsChunkPassesEveryRankTwiceInSimulatedTime) {
  const auto e = explore::answer({.on = "dgx-h100:nodes=9,net=ib-ndr", .algorithm = "ring", .chunk = 5});
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_TRUE(e->timed) << e->verdict;
  // Sends of one chunk: n - 1 while it is summed, n - 1 while it is shared (Patarasuk and Yuan, 2009).
  std::size_t sends = 0;
  for (const auto& m : e->moves) sends += m.to.size();
  EXPECT_EQ(sends, 2u * 71);
  // The sum grows by one contribution with every hop.
  const auto of_whole = std::ranges::count_if(e->moves, [](const auto& m) { return count(m.held) == 72; });
  EXPECT_EQ(of_whole, 72);
  const auto none = explore::answer({.on = "dgx-h100:nodes=9,net=ib-ndr", .algorithm = "ring", .chunk = 72});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("--chunk 72: ring has 72 chunks"), std::string::npos) << none.error().message;
}

TEST(Explorer, AClusterIsAMapOfEqualThingsAndNamesTheNodesThatAreUnlike) {
  // 64 ports of a leaf: 32 down to one NIC of each of 32 nodes, 32 up; 8 rails make 8 leaves a group.
  const auto e = explore::answer(
      {.collective = "broadcast", .on = "dgx-h100:nodes=64,net=ib-ndr", .bytes = "4K", .faults = {"nic:3/2=down"}});
  ASSERT_TRUE(e) << e.error().message;
  ASSERT_TRUE(e->map);
  ASSERT_GE(e->map->levels.size(), 2u);
  EXPECT_EQ(e->map->levels[0].word, "node");
  EXPECT_EQ(e->map->levels[0].count, 64);
  EXPECT_EQ(e->map->levels[0].sizes, std::vector<std::int32_t>{8});
  EXPECT_EQ(e->map->levels[1].count * e->map->levels[1].sizes[0], 64) << e->map->said;
  EXPECT_EQ(e->map->odd, std::vector<std::int32_t>{3}) << e->map->said;
  EXPECT_TRUE(e->map->said.starts_with("512 GPUs: ")) << e->map->said;
  EXPECT_NE(e->map->said.find("1 node is unlike the others"), std::string::npos) << e->map->said;
  const auto one = explore::answer({.on = "dgx-h100"});
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->map);
}

TEST(Explorer, EveryFigureOfALinkOfAPresetHasASourceWithADate) {
  for (const char* machine : {"dgx-h100:nodes=2,net=ib-ndr", "dgx-a100", "mi300x", "pcie-2x4090", "gb200-nvl72"}) {
    const auto e = explore::answer({.on = machine, .bytes = "64K"});
    ASSERT_TRUE(e) << e.error().message;
    for (const auto& l : e->links) {
      ASSERT_EQ(l.origins.size(), 2u);
      for (const auto& o : l.origins)
        EXPECT_FALSE(o.title.empty() || o.date.empty())
            << machine << ": " << l.said << " has no source of its " << o.of;
      EXPECT_TRUE(l.said.starts_with(l.a + " to " + l.b + ": ")) << l.said;
    }
    EXPECT_FALSE(e->machine_said.empty());
    for (const auto& p : e->paths) EXPECT_TRUE(p.said.starts_with(p.from + " to " + p.to + ": ")) << p.said;
  }
}

TEST(Explorer, AskGivesWhatTheCommandGives) {
  const auto there =
      explore::answer({.collective = "all_gather", .on = "dgx-a100", .bytes = "64K", .algorithm = "pat"});
  ASSERT_TRUE(there) << there.error().message;
  const std::string here =
      explore::ask(R"({"ask": "answer", "collective": "all_gather", "on": "dgx-a100", "bytes": "64K", "algo": "pat"})");
  EXPECT_EQ(nlohmann::json::parse(here), to_json(*there));
}

TEST(Explorer, AnEstimateStandsBeforeTheSimulationsAnswer) {
  const auto words = nlohmann::json{{"ask", "estimate"}, {"on", "dgx-h100:nodes=2"}, {"bytes", "1G"}};
  const auto whole = nlohmann::json::parse(explore::ask(words.dump()));
  ASSERT_EQ(whole["schema"], "weft.explorer.estimate/1") << whole;
  EXPECT_NE(whole["answer"].get<std::string>().find("; the simulation follows …"), std::string::npos);
  auto broken = words;
  broken["faults"] = {"nic:0/3=down"};
  const auto half = nlohmann::json::parse(explore::ask(broken.dump()));
  EXPECT_GT(half["time_us"], whole["time_us"]);
  EXPECT_NE(half["answer"].get<std::string>().find(" without the fault;"), std::string::npos) << half;
  broken["faults"] = {"nic:0/99=down"};
  EXPECT_EQ(nlohmann::json::parse(explore::ask(broken.dump()))["schema"], "weft.error/1");
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

TEST(Explorer, AWrongScheduleIsPlayedUpToItsCounterexample) {
  const auto text = [](const char* own) {
    return fmt::format(R"({{"schema": "weft.schedule/1", "name": "lacking", "collective": "all_reduce", "ranks": 2,
      "root": 0, "chunks": 1, "scratch": 0, "lanes": 1, "slots": 2, "in_place": false, "out_of_place": true,
      "strands": [[{{"move": 0, "from": [{{"in": 0}}], "to": [{{"peer": 1}}]}},
                   {{"move": 0, "from": [{{"peer": 1}}], "to": [{{"out": 0}}]}}],
                  [{{"move": 0, "from": [{{"peer": 0}}{}], "to": [{{"out": 0}}, {{"peer": 0}}]}}]], "orders": []}})",
                       own);
  };
  ASSERT_TRUE(schedule::name_schedule("whole.json", text(R"(, {"in": 0})")));
  ASSERT_TRUE(schedule::name_schedule("lacking.json", text("")));
  const auto whole = explore::answer({.algorithm = "whole.json", .ranks = 2});
  const auto lacking = explore::answer({.algorithm = "lacking.json", .ranks = 2});
  ASSERT_TRUE(whole) << whole.error().message;
  ASSERT_TRUE(lacking) << lacking.error().message;
  EXPECT_TRUE(whole->proved);
  EXPECT_FALSE(whole->wrong);
  EXPECT_FALSE(lacking->proved);
  ASSERT_TRUE(lacking->wrong);
  EXPECT_EQ(lacking->wrong->chunk, 0);
  EXPECT_EQ(lacking->wrong->peer, 1);  // whose contribution is missing
  EXPECT_FALSE(lacking->moves.empty());
  EXPECT_NE(lacking->answer.find(lacking->wrong->text), std::string::npos);
}

TEST(Explorer, AFaultKeepsTheOldValueBesideEveryChangedNumber) {
  const explore::Words words{.on = "dgx-h100:nodes=2", .bytes = "64M", .faults = {"nic:0/3=down"}};
  const auto e = explore::answer(words);
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_GT(*e->slowdown, 1.05);
  EXPECT_NEAR(*e->slowdown, e->time_us / *e->healthy_us, 1e-9);
  int gone = 0;
  for (const auto& l : e->links) {
    const bool of_nic = l.a == "node0/nic3" || l.b == "node0/nic3";
    ASSERT_EQ(l.healthy.has_value(), of_nic) << l.a << " to " << l.b;
    if (!of_nic) continue;
    ++gone;
    EXPECT_EQ(l.ab_GBps, 0);
    EXPECT_GT(l.healthy->ab_GBps, 0);
  }
  EXPECT_EQ(gone, 2);  // to its PCIe switch and to the leaf
  EXPECT_NE(e->command.find("--fault nic:0/3=down"), std::string::npos);
  const auto half =
      explore::answer({.on = "dgx-h100:nodes=2", .bytes = "64M", .faults = {"link:node0/nic3-switch0=50%"}});
  ASSERT_TRUE(half) << half.error().message;
  EXPECT_GE(*half->slowdown, 1.0);
  EXPECT_LE(*half->slowdown, *e->slowdown * 1.001);  // half a link is never worse than none
  EXPECT_FALSE(explore::answer({.faults = {"nic:77=down"}}));
}

TEST(Explorer, MeasurementsOfThisCollectiveOnThisMachineAreBesideTheCurves) {
  const auto e = explore::answer({.on = "dgx-a100"});
  ASSERT_TRUE(e) << e.error().message;
  EXPECT_GE(e->measured.size(), 2u);
  for (const auto& m : e->measured) {
    EXPECT_FALSE(m.about.empty());
    for (const auto& [bytes, rate] : m.busbw_GBps) EXPECT_GT(rate, 0) << m.name << " at " << bytes;
  }
  const auto four = explore::answer({.on = "dgx-a100", .ranks = 4});
  ASSERT_TRUE(four);
  for (const auto& m : four->measured) EXPECT_NE(m.name, "a100x8_hgx_40g_1node_allreduce");  // of eight ranks
}

TEST(Explorer, ATrainingStepIsWhatTheTrainingModelSays) {
  const auto asked = [](const std::string& question) { return nlohmann::json::parse(explore::ask_workload(question)); };
  const auto e = asked(R"({"ask": "train", "model": "llama3-8b", "on": "dgx-h100", "pp": 2, "zero": 1})");
  ASSERT_EQ(e.at("schema"), "weft.explorer.train/1") << e.dump();
  ASSERT_EQ(e.at("lanes").size(), 2u);
  const double step = e.at("report").at("rows")[0].at("step_s");
  for (const auto& lane : e.at("lanes")) {
    EXPECT_EQ(lane.at("passes").size(), 2u * 64 / 4);  // forward and backward of every micro-batch of one replica
    for (const auto& pass : lane.at("passes")) EXPECT_LE(pass.at("s")[1].get<double>(), step * 1.000001);
  }
  EXPECT_EQ(asked(R"({"ask": "train", "tp": 3})").at("schema"), "weft.error/1");
  EXPECT_EQ(asked(R"({"ask": "train", "colour": "red"})").at("message"),
            "'colour' is no word of a question about training");
  const auto plans = asked(R"({"ask": "plans", "model": "llama3-8b", "on": "dgx-h100"})");
  ASSERT_EQ(plans.at("schema"), "weft.explorer.plans/1") << plans.dump();
  EXPECT_EQ(plans.at("rows")[0].at("reason"), "");
  EXPECT_NE(plans.at("rows")[1].at("reason"), "");
}

TEST(Explorer, AServedModelIsWhatTheServingModelSaysAndItsFrontierCanBeAskedAgain) {
  const auto asked = [](const nlohmann::json& question) {
    return nlohmann::json::parse(explore::ask_workload(question.dump()));
  };
  const auto e = asked({{"ask", "serve"}, {"model", "llama-3.1-8b"}, {"on", "dgx-h100"}, {"tp", 1}, {"rate", 2}});
  ASSERT_EQ(e.at("schema"), "weft.explorer.serve/1") << e.dump();
  EXPECT_EQ(e.at("command"),
            "weft serve llama-3.1-8b --on dgx-h100 --engine vllm --precision fp8 --isl 1024 --osl 1024 --price 2 "
            "--replicas 2 "
            "--rate 2");
  const auto& lane = e.at("lanes").at("engines").at(0);
  ASSERT_EQ(lane.at("reads").size(), 400u);
  for (std::size_t c = 0; c < 400; ++c)  // no column has more time than it is wide
    EXPECT_LE(lane.at("reads")[c].get<double>() + lane.at("decodes")[c].get<double>(), 1.0002) << "column " << c;
  const auto all = asked({{"ask", "frontier"}, {"model", "llama-3.1-8b"}, {"on", "dgx-h100"}, {"tpot", 20}});
  ASSERT_EQ(all.at("schema"), "weft.explorer.frontier/1") << all.dump();
  nlohmann::json first = all.at("row_words").at(0);
  first["ask"] = "serve";
  const auto again = asked(first);
  ASSERT_EQ(again.at("schema"), "weft.explorer.serve/1") << again.dump();
  EXPECT_EQ(again.at("report").at("rows")[0].at("plan"), all.at("report").at("rows")[0].at("plan"));
  EXPECT_EQ(again.at("report").at("rows")[0].at("output_tokens_per_s_per_gpu"),
            all.at("report").at("rows")[0].at("output_tokens_per_s_per_gpu"));
  EXPECT_EQ(asked({{"ask", "serve"}, {"colour", "red"}}).at("message"),
            "'colour' is no word of a question about serving");
  EXPECT_EQ(asked({{"ask", "serve"}, {"tp", "8"}}).at("message"), "tp: \"8\" is not a whole number");
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
