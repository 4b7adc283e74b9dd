#include "plan/schedule/exchange/schedule_json.h"

#include <gtest/gtest.h>

namespace weft::schedule {
namespace {

// Every kind of step and operand there is; not a schedule that works.
Document everything() {
  Schedule s{.shape = {Collective::kBroadcast, 3, 2, 4}, .scratch = 2, .lanes = 2, .strands = {}, .orders = {}};
  s.strands.resize(6);
  s.strands[0] = {move(3, {in(3), scratch(1)}, {out(3), to(1, 1).continued(true)}), signal(2), wait(1)};
  s.strands[1] = {move(0, {at(1, out(0))}, {at(2, scratch(0))}), move(1, {everywhere({0, 2, 1}, in(1))}, {out(1)})};
  s.strands[2] = {move(2, {sum_of({0, 3, 1}, 0)}, {into({0, 3, 1})})};
  s.orders = {{0, 2, 1, 0}, {1, 1, 0, 0}};
  return {.name = "all \"kinds\"", .schedule = s, .out_of_place = false, .in_place = true, .slots = 8, .origins = {}};
}

std::string error_of(std::string text) {
  const auto read = parse_schedule_json("f.json", text);
  return read ? "read" : read.error().message;
}

TEST(ScheduleJson, IsWithoutLoss) {
  const Document d = everything();
  const auto read = parse_schedule_json("f.json", to_schedule_json(d));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->schedule, d.schedule);
  EXPECT_EQ(read->name, d.name);
  EXPECT_EQ(read->slots, 8);
  EXPECT_TRUE(read->in_place && !read->out_of_place);
  EXPECT_EQ(to_schedule_json(*read), to_schedule_json(d));
}

TEST(ScheduleJson, MistakesAreOneLineThatNamesStrandAndStep) {
  const auto changed = [](std::string_view from, std::string_view to) {
    std::string text = to_schedule_json(everything());
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"", "f.json:1:1: no JSON"},
      {"[]", "it is no JSON object"},
      {changed("weft.schedule/1", "weft.schedule/9"), "its schema is not weft.schedule/1"},
      {changed("\"ranks\": 3", "\"ranks\": 1000000000"), "ranks 1000000000 is outside 1 … 1024"},
      {changed("\"chunks\": 4", "\"chunks\": 1000000000"), "chunks 1000000000 is outside"},
      {changed("\"lanes\": 2", "\"lanes\": 3"), "6 strands are not those of 3 ranks with 3 lanes"},
      {changed("{\"signal\":2}", "{\"shout\":2}"), "strand 0 step 1: it is none of move, signal, wait"},
      {changed("{\"in\":3}", "{\"inn\":3}"), "strand 0 step 0: an operand is none of"},
      {changed("{\"in\":3}", "{\"in\":\"3\"}"), "strand 0 step 0: 'in' is no whole number"},
      {changed("[0,2,1,0]", "[0,9,1,0]"), "an order names step 9 of rank 0 lane 0"},
      {changed("[0,2,1,0]", "[0,2,1]"), "order 0 is no [strand, step, lane, after]"},
      {std::string(1000, '['), "nested deeper than 8"},
      {"[" + std::string(5'000'000, ',') + "]", "more than 4194304 values"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of(c.text);
    EXPECT_NE(error.find(c.says), std::string::npos) << error << "\nexpected: " << c.says;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace weft::schedule
