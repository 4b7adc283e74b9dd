#include <gtest/gtest.h>

#include "tests/arguments/draws.h"
#include "weft/pgas.h"

namespace weft::tests {
namespace {

using namespace pgas;

void worlds(Draws& d) {
  EXPECT_TRUE(refused(World::threads(d.one_of({std::numeric_limits<int>::min(), -1, 0, (1 << 20) + 1}))));
  World world = std::move(World::threads(1).value().front());
  EXPECT_TRUE(refused(world.allocate(8, d.one_of<std::size_t>({0, 3, 48}))));
  EXPECT_FALSE(world.allocate(std::size_t{1} << 50));
  EXPECT_FALSE(world.allocate_array<double>(std::size_t{1} << 61));
  {
    World::Access access = world.loads(world.allocate_array<int>(8)->data(), 8, 0);
    World::Access moved = std::move(access);
    moved = world.stores(world.allocate_array<int>(8)->data(), 8, 0);  // the first one ends here
  }
  Team team = world.team();
  EXPECT_EQ(team.translate(d.one_of({-1, 1, 99}), team), -1);
  EXPECT_TRUE(refused(world.split(team, d.one_of({-1, 1}), 1, 1)));
  EXPECT_TRUE(refused(world.split(team, 0, 1, d.one_of({-1, 0, 2, std::numeric_limits<int>::max()}))));
  EXPECT_TRUE(refused(team.run({.collective = static_cast<Collective>(99)})));
  EXPECT_TRUE(refused(team.run({.count = 1, .type = static_cast<DataType>(99)})));
  EXPECT_TRUE(refused(team.run({.count = 1})));
  team.set_interrupt([]() -> bool { throw 7; });
  EXPECT_TRUE(team.sync());
  EXPECT_TRUE(world.barrier());
  const World taken = std::move(world);
  EXPECT_EQ(world.rank(), -1);
  EXPECT_EQ(world.ranks(), 0);
  EXPECT_TRUE(refused(world.allocate(8)));
  EXPECT_TRUE(refused(world.allocate_array<int>(8)));
  EXPECT_TRUE(refused(world.free(nullptr)));
  EXPECT_TRUE(refused(world.barrier()));
  EXPECT_TRUE(refused(world.split(team, 0, 1, 1)));
  int place = 0;
  EXPECT_EQ(world.pointer(&place, 0), nullptr);
  Team none = world.team();
  EXPECT_EQ(none.rank(), -1);
  EXPECT_EQ(none.ranks(), 0);
  EXPECT_EQ(none.translate(0, team), -1);
  EXPECT_EQ(team.translate(0, none), -1);
  EXPECT_TRUE(refused(none.run({})));
  EXPECT_TRUE(refused(none.sync()));
  none.set_interrupt({});
}

// Calls without a result end the process, as their header says, with a line that names the call.
void misuse(Draws&) {
  World world = std::move(World::threads(1).value().front());
  std::uint64_t* const word = world.allocate_array<std::uint64_t>(8)->data();
  std::uint64_t own[8] = {};
  const auto wrong = [](int value) { return static_cast<AtomicOp>(value); };
  EXPECT_DEATH(world.put(word, own, 8, 7), "World::put");
  EXPECT_DEATH(world.get(own, own, 8, 0), "World::get");
  EXPECT_DEATH(world.put_strided(word, own, 8, -1, 1, 2, 0), "World::put_strided");
  EXPECT_DEATH(world.get_strided(own, word, 8, 1, -1, 2, 0), "World::get_strided");
  EXPECT_DEATH(world.put_signal(word, own, 8, word + 1, 1, static_cast<SignalOp>(9), 0), "World::put_signal");
  EXPECT_DEATH(world.atomic(wrong(99), word, std::uint64_t{1}, 0), "World::atomic: 99");
  EXPECT_DEATH((void)world.loads(own, 8, 0), "World::loads");
  EXPECT_DEATH((void)world.stores(word, 8, 3), "World::stores");
  EXPECT_DEATH(world.fetch_add(word, std::uint64_t{1}, -1), "World::atomic");
  EXPECT_DEATH(world.wait_until(word, static_cast<Compare>(99), std::uint64_t{1}), "World::wait_until: 99");
  const World taken = std::move(world);
  EXPECT_DEATH(world.put(word, own, 8, 0), "World::put: the world is empty");
  EXPECT_DEATH(world.fence(), "World::fence: the world is empty");
  EXPECT_DEATH(world.quiet(), "World::quiet: the world is empty");
}

void from_environment(Draws&) {
  setenv("WEFT_RANK", "one", 1);
  setenv("WEFT_SIZE", "2", 1);
  setenv("WEFT_ID", "arguments", 1);
  EXPECT_TRUE(refused(World::from_environment()));
  EXPECT_TRUE(refused(Communicator::from_environment()));
  for (const char* name : {"WEFT_RANK", "WEFT_SIZE", "WEFT_ID"}) unsetenv(name);
}

}  // namespace

std::vector<Try> tries_of_pgas() {
  return {
      {{"weft::pgas::World::threads", "weft::pgas::World::allocate", "weft::pgas::World::allocate_array",
        "weft::pgas::World::free", "weft::pgas::World::pointer", "weft::pgas::World::barrier",
        "weft::pgas::World::Access::Access", "weft::pgas::World::Access::~Access",
        "weft::pgas::World::Access::operator=", "weft::pgas::World::split", "weft::pgas::World::team",
        "weft::pgas::World::rank", "weft::pgas::World::ranks", "weft::pgas::Team::translate", "weft::pgas::Team::run",
        "weft::pgas::Team::sync", "weft::pgas::Team::set_interrupt", "weft::pgas::Team::rank",
        "weft::pgas::Team::ranks"},
       worlds,
       12},
      {{"weft::pgas::World::put", "weft::pgas::World::get", "weft::pgas::World::put_strided",
        "weft::pgas::World::get_strided", "weft::pgas::World::put_signal", "weft::pgas::World::atomic",
        "weft::pgas::World::loads", "weft::pgas::World::stores", "weft::pgas::World::fetch_add",
        "weft::pgas::World::wait_until", "weft::pgas::World::fence", "weft::pgas::World::quiet"},
       misuse,
       1},
      {{"weft::pgas::World::from_environment", "weft::Communicator::from_environment"}, from_environment, 1},
  };
}

}  // namespace weft::tests
