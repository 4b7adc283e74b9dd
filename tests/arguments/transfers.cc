#include <gtest/gtest.h>

#include <limits>

#include "tests/arguments/draws.h"
#include "weft/kv.h"
#include "weft/stripe.h"
#include "weft/transfer.h"

namespace weft::tests {
namespace {

using namespace transfer;

Agent agent(const std::string& name) { return Agent::open({.name = name, .pages = 1024}).value(); }

void opening(Draws& d) {
  EXPECT_TRUE(refused(Agent::open({})));
  EXPECT_TRUE(refused(Agent::open({.name = std::string(65, 'x')})));
  EXPECT_TRUE(refused(Agent::open({.name = "a", .pages = d.one_of<std::int64_t>({-1, 0, 1ll << 40})})));
  EXPECT_TRUE(refused(Agent::open({.name = "a", .listen = "127.0.0.1:0"})));
  EXPECT_TRUE(refused(Agent::open({.name = "a", .network = static_cast<Network>(99)})));
}

void memory(Draws& d) {
  Agent a = agent("a");
  std::vector<std::byte> own(8192);
  const std::int64_t bytes = d.size(), page = d.size();
  const auto allocated = a.allocate(d.one_of<std::int64_t>({-4096, -1, 0}), 0);
  EXPECT_TRUE(refused(allocated));
  EXPECT_TRUE(refused(a.allocate(4096, -1)));
  EXPECT_TRUE(refused(a.add_memory(nullptr, 64)));
  EXPECT_TRUE(refused(a.add_memory(own.data(), std::min<std::int64_t>(bytes, 0))));
  EXPECT_FALSE(a.allocate_gpu(bytes, page, -1));
  EXPECT_FALSE(a.add_gpu_memory(own.data(), bytes, page, 1 << 20));
  EXPECT_TRUE(refused(a.add_file("/nowhere/at/all")));
  EXPECT_TRUE(refused(a.add_object(d.one_of<std::string>({"", "s3://", "s3:///key", "http://bucket/key", "\n"}))));
  EXPECT_TRUE(refused(a.add_open_file(d.one_of<int>({-1, 1 << 20, std::numeric_limits<int>::min()}))));
  const auto region = a.add_memory(own.data(), 4096).value();
  EXPECT_TRUE(refused(a.rows_at(own.data(), bytes < 1 || bytes > 4096 ? bytes : 5000)));
  EXPECT_TRUE(refused(a.rows_at(nullptr, 1)));
  EXPECT_TRUE(refused(a.deregister(region, std::chrono::milliseconds::min())));
  EXPECT_TRUE(refused(a.deregister(region, std::chrono::milliseconds::max())));
  EXPECT_TRUE(refused(a.deregister({.region = 99})));
  EXPECT_FALSE(a.hold({.region = 99}));
  EXPECT_FALSE(a.acquire(region, 1));  // not fenced
  EXPECT_FALSE(a.acquire({.region = 99}, 1));
  EXPECT_FALSE(a.release(region, {}));
  EXPECT_FALSE(a.seal(region, {.index = 99}));
  EXPECT_FALSE(a.sealed(region, {.index = 99}));
  EXPECT_EQ(a.free_pages({.region = 99}), 0);
  const auto fenced = a.allocate(8192, 4096).value();
  EXPECT_TRUE(refused(a.acquire(fenced, 0)));
  EXPECT_FALSE(a.release(fenced, {.index = 1u << 31, .generation = ~std::uint64_t{0}}));
  EXPECT_FALSE(a.sealed(fenced, {.index = 1u << 31}));
}

void lists(Draws& d) {
  Agent a = agent("a");
  std::vector<std::byte> own(8192);
  const auto region = a.add_memory(own.data(), 8192).value();
  const Rows row{.region = region.region, .offset = d.size(), .bytes = d.size(), .stride = d.size(), .count = d.size()};
  const bool one =
      row.count == 1 && row.bytes > 0 && row.bytes <= 8192 && row.offset >= 0 && row.offset <= 8192 - row.bytes;
  const auto prepared = a.prepare("", std::span(&row, 1));
  if (one) {
    EXPECT_TRUE(prepared);
  } else if (row.count != 64 || row.bytes > 64) {
    EXPECT_TRUE(refused(prepared));
  }
  EXPECT_TRUE(refused(a.prepare("", {})));
  const auto local = a.prepare("", std::vector{Rows{.region = region.region, .bytes = 64}});
  const transfer::StripeSource source{.name = "s", .list = *local, .elements = {d.one_of<std::int64_t>({1, 1 << 20})}};
  EXPECT_TRUE(refused(read_striped(a, *local, std::min<std::int64_t>(d.size(), 0), std::span(&source, 1))));
  EXPECT_TRUE(refused(read_striped(a, *local, 64, {})));
  EXPECT_TRUE(refused(read_striped(a, *local, 64, std::span(&source, 1))));
  EXPECT_TRUE(refused(read_striped(a, {}, 64, std::span(&source, 1))));
  EXPECT_FALSE(a.prepare("nobody", std::span(&row, 1)));
  const Extent extent{.address = d.coin() ? 0 : ~std::uint64_t{0}, .bytes = d.size(), .count = d.size()};
  EXPECT_TRUE(refused(a.prepare_addresses("", std::span(&extent, 1))));
  EXPECT_TRUE(refused(a.load("")));
  EXPECT_TRUE(refused(a.load(std::string(200, '\xff'))));
  EXPECT_FALSE(a.forget("nobody"));
  EXPECT_FALSE(a.check("nobody"));
  EXPECT_FALSE(a.explain("nobody"));
  EXPECT_FALSE(a.notify("nobody", "x"));
  const Registration unknown{.region = 99};
  EXPECT_TRUE(refused(a.metadata(std::span(&unknown, 1))));
  const Rows whole{.region = region.region, .offset = 0, .bytes = 64};
  const auto list = a.prepare("", std::span(&whole, 1)).value();
  EXPECT_TRUE(refused(a.make(static_cast<Op>(9), list, list)));
  EXPECT_TRUE(refused(a.make(Op::kRead, Prepared(), list)));
  EXPECT_TRUE(refused(a.make(Op::kRead, list, list, {.deadline = std::chrono::milliseconds(-1)})));
  EXPECT_TRUE(refused(a.make(Op::kRead, list, list, {.deadline = std::chrono::milliseconds::max()})));
  const std::uint32_t block = 1u << 31;
  EXPECT_TRUE(refused(a.make(Op::kRead, list, list, {.local_blocks = std::span(&block, 1)})));
  transfer::Request none;
  EXPECT_TRUE(refused(a.post(none)));
  EXPECT_EQ(a.poll(none), State::kFailed);
  EXPECT_EQ(a.wait(none), State::kFailed);
  EXPECT_EQ(a.wait(none, d.some_timeout()), State::kFailed);
  EXPECT_TRUE(refused(a.cancel(none)));
  EXPECT_FALSE(a.estimate(none));
  EXPECT_FALSE(a.explain(none).empty());
}

void empty_agents(Draws& d) {
  Agent a = agent("a");
  Agent b = std::move(a);
  transfer::Request none;
  const Registration region;
  EXPECT_TRUE(refused(a.allocate(64)));
  EXPECT_TRUE(refused(a.add_memory(&none, 8)));
  EXPECT_TRUE(refused(a.allocate_gpu(64)));
  EXPECT_TRUE(refused(a.add_gpu_memory(&none, 8)));
  EXPECT_TRUE(refused(a.add_file("/etc/hostname")));
  EXPECT_TRUE(refused(a.add_object("s3://bucket/key", 8)));
  EXPECT_TRUE(refused(a.add_open_file(0)));
  EXPECT_TRUE(refused(a.deregister(region)));
  EXPECT_TRUE(refused(a.hold(region)));
  EXPECT_TRUE(refused(a.check("b")));
  EXPECT_TRUE(refused(a.rows_at(&none, 8)));
  EXPECT_TRUE(refused(a.acquire(region, 1)));
  EXPECT_TRUE(refused(a.release(region, {})));
  EXPECT_EQ(a.free_pages(region), 0);
  EXPECT_TRUE(refused(a.seal(region, {})));
  EXPECT_FALSE(a.sealed(region, {}));
  EXPECT_TRUE(refused(a.metadata()));
  EXPECT_TRUE(refused(a.metadata(std::span(&region, 1))));
  EXPECT_TRUE(refused(a.load("x")));
  EXPECT_TRUE(refused(a.forget("x")));
  EXPECT_TRUE(refused(a.explain("x")));
  EXPECT_TRUE(refused(a.prepare("", {})));
  EXPECT_TRUE(refused(a.prepare_addresses("", {})));
  EXPECT_TRUE(refused(a.make(Op::kRead, Prepared(), Prepared())));
  a.set_costs({});
  EXPECT_TRUE(refused(a.estimate(none)));
  EXPECT_FALSE(a.explain(none).empty());
  EXPECT_TRUE(refused(a.post(none)));
  EXPECT_EQ(a.poll(none), State::kFailed);
  EXPECT_EQ(a.wait(none, d.some_timeout()), State::kFailed);
  EXPECT_TRUE(refused(a.cancel(none)));
  EXPECT_TRUE(refused(a.notify("x", "y")));
  EXPECT_TRUE(a.notifications().empty());
  a = std::move(b);
  EXPECT_TRUE(a.metadata());
}

void stores(Draws& d) {
  using namespace kv;
  EXPECT_EQ(kv::name(static_cast<Policy>(99)), "unknown");
  EXPECT_TRUE(refused(block_bytes("/nowhere.json", 16)));
  EXPECT_TRUE(refused(block_bytes("/nowhere.json", d.one_of<std::int64_t>({-1, 0, 1ll << 40}))));
  Agent a = agent("a");
  EXPECT_FALSE(Store::open(a, {.pages = d.one_of<std::int64_t>({-1, 0, 1ll << 40}), .page_bytes = 4096}));
  EXPECT_FALSE(Store::open(a, {.pages = 4, .page_bytes = d.one_of<std::int64_t>({-1, 0, 1ll << 60})}));
  EXPECT_FALSE(Store::open(a, {.pages = 4, .page_bytes = 4096, .block_tokens = d.one_of<std::int64_t>({-1, 0})}));
  EXPECT_FALSE(Store::open(a, {.pages = 4, .page_bytes = 4096, .policy = static_cast<Policy>(99)}));
  Store store = Store::open(a, {.pages = 4, .page_bytes = 4096, .block_tokens = 4}).value();
  EXPECT_TRUE(store.bytes({.index = d.one_of<std::uint32_t>({4, 99, 1u << 31})}).empty());
  EXPECT_TRUE(store.tier_status());
  EXPECT_TRUE(store.flush());
  EXPECT_FALSE(Server::open(store, {.listen = "nonsense"}));
  EXPECT_TRUE(refused(Server::open(store, {.most_lease = std::chrono::milliseconds(-1)})));
  EXPECT_TRUE(refused(Client::connect(a, {.address = "127.0.0.1:1", .timeout = std::chrono::milliseconds(-1)})));
  EXPECT_TRUE(refused(Client::connect(a, {.address = "127.0.0.1:1", .timeout = std::chrono::milliseconds::max()})));
  EXPECT_TRUE(refused(Client::connect(a, {.address = "nonsense"})));
  Server server = Server::open(store).value();
  Agent other = agent("b");
  Client client = Client::connect(other, {.address = server.address()}).value();
  EXPECT_FALSE(client.read(Lease(), {.region = 99}, d.size()) && false);
  const std::vector<Token> tokens(4, 1);
  EXPECT_FALSE(client.put("s", tokens, {.region = 99}, d.size()));
  EXPECT_TRUE(client.extend(Lease()));  // nothing is held, so nothing has expired
  EXPECT_FALSE(client.extend(Writing()));
  const Client moved_client = std::move(client);
  EXPECT_TRUE(refused(client.match("s", tokens)));
  EXPECT_TRUE(refused(client.begin("s", tokens)));
  EXPECT_TRUE(refused(client.extend(Lease())));
  EXPECT_TRUE(refused(client.extend(Writing())));
  EXPECT_TRUE(refused(client.read(Lease(), {})));
  EXPECT_TRUE(refused(client.write(Writing(), {})));
  EXPECT_TRUE(refused(client.get("s", tokens, {})));
  EXPECT_TRUE(refused(client.put("s", tokens, {})));
  EXPECT_TRUE(refused(client.counters()));
  EXPECT_EQ(client.pages().elements() + client.page_bytes() + client.block_tokens(), 0);
  EXPECT_TRUE(client.peer().empty());
  const Server moved_server = std::move(server);
  EXPECT_EQ(server.address(), "");
  EXPECT_EQ(server.clients(), 0);
  const Store moved = std::move(store);
  EXPECT_FALSE(store.match("s", tokens).open());
  EXPECT_TRUE(refused(store.begin("s", tokens)));
  EXPECT_TRUE(store.bytes({}).empty());
  EXPECT_TRUE(refused(store.flush()));
  EXPECT_TRUE(refused(store.tier_status()));
  EXPECT_EQ(store.page_bytes() + store.block_tokens() + store.counters().pages + store.region().bytes, 0);
  EXPECT_TRUE(refused(Server::open(store)));
  Lease lease;
  Lease leased = std::move(lease);
  lease = std::move(leased);
  lease.end();
  EXPECT_TRUE(lease.pages().empty() && lease.tokens() == 0);
  Writing writing;
  Writing written = std::move(writing);
  writing = std::move(written);
  writing.abandon();
  EXPECT_TRUE(refused(writing.commit()));
  EXPECT_TRUE(writing.pages().empty() && writing.first_block() == 0 && !writing.open());
}

}  // namespace

std::vector<Try> tries_of_transfers() {
  return {
      {{"weft::transfer::Agent::open"}, opening, 6},
      {{"weft::transfer::Agent::allocate", "weft::transfer::Agent::add_memory", "weft::transfer::Agent::allocate_gpu",
        "weft::transfer::Agent::add_gpu_memory", "weft::transfer::Agent::add_file", "weft::transfer::Agent::add_object",
        "weft::transfer::Agent::add_open_file", "weft::transfer::Agent::deregister", "weft::transfer::Agent::hold",
        "weft::transfer::Agent::check", "weft::transfer::Agent::rows_at", "weft::transfer::Agent::acquire",
        "weft::transfer::Agent::release", "weft::transfer::Agent::seal", "weft::transfer::Agent::sealed",
        "weft::transfer::Agent::free_pages"},
       memory,
       40},
      {{"weft::transfer::read_striped", "weft::transfer::Agent::prepare", "weft::transfer::Agent::prepare_addresses",
        "weft::transfer::Agent::load", "weft::transfer::Agent::forget", "weft::transfer::Agent::explain",
        "weft::transfer::Agent::notify", "weft::transfer::Agent::metadata", "weft::transfer::Agent::make",
        "weft::transfer::Agent::post", "weft::transfer::Agent::poll", "weft::transfer::Agent::wait",
        "weft::transfer::Agent::cancel", "weft::transfer::Agent::estimate"},
       lists,
       100},
      {{"weft::transfer::Agent::Agent", "weft::transfer::Agent::operator=", "weft::transfer::Agent::~Agent",
        "weft::transfer::Agent::set_costs", "weft::transfer::Agent::notifications"},
       empty_agents,
       2},
  };
}

std::vector<Try> tries_of_kv() {
  return {{{"weft::kv::name",
            "weft::kv::block_bytes",
            "weft::kv::Store::open",
            "weft::kv::Store::Store",
            "weft::kv::Store::operator=",
            "weft::kv::Store::~Store",
            "weft::kv::Store::match",
            "weft::kv::Store::begin",
            "weft::kv::Store::bytes",
            "weft::kv::Store::flush",
            "weft::kv::Store::page_bytes",
            "weft::kv::Store::block_tokens",
            "weft::kv::Store::region",
            "weft::kv::Store::counters",
            "weft::kv::Store::tier_status",
            "weft::kv::Server::open",
            "weft::kv::Server::Server",
            "weft::kv::Server::operator=",
            "weft::kv::Server::~Server",
            "weft::kv::Server::address",
            "weft::kv::Server::clients",
            "weft::kv::Client::connect",
            "weft::kv::Client::Client",
            "weft::kv::Client::operator=",
            "weft::kv::Client::~Client",
            "weft::kv::Client::match",
            "weft::kv::Client::begin",
            "weft::kv::Client::extend",
            "weft::kv::Client::read",
            "weft::kv::Client::write",
            "weft::kv::Client::get",
            "weft::kv::Client::put",
            "weft::kv::Client::pages",
            "weft::kv::Client::peer",
            "weft::kv::Client::page_bytes",
            "weft::kv::Client::block_tokens",
            "weft::kv::Client::counters",
            "weft::kv::Lease::Lease",
            "weft::kv::Lease::operator=",
            "weft::kv::Lease::~Lease",
            "weft::kv::Lease::pages",
            "weft::kv::Lease::tokens",
            "weft::kv::Lease::open",
            "weft::kv::Lease::end",
            "weft::kv::Writing::Writing",
            "weft::kv::Writing::operator=",
            "weft::kv::Writing::~Writing",
            "weft::kv::Writing::pages",
            "weft::kv::Writing::first_block",
            "weft::kv::Writing::open",
            "weft::kv::Writing::commit",
            "weft::kv::Writing::abandon"},
           stores,
           12}};
}

}  // namespace weft::tests
