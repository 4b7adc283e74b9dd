// Stores of weft/kv.h, as thinly as Python allows. Calls release the GIL.
#include "weft/kv.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <optional>

#include "communicator.h"
#include "failed.h"
#include "transfer.h"

namespace nb = nanobind;

namespace weft::python {
namespace {

using Tokens = nb::ndarray<const kv::Token, nb::shape<-1>, nb::c_contig, nb::device::cpu>;
using Agent = std::shared_ptr<SharedAgent>;

std::span<const kv::Token> span_of(const Tokens& tokens) { return {tokens.data(), tokens.shape(0)}; }
std::string text_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

std::chrono::milliseconds milliseconds(double seconds) { return milliseconds_of(seconds, "kv"); }

// Pages as (number, generation).
nb::list pages_of(const std::vector<transfer::Page>& pages) {
  nb::list list;
  for (const transfer::Page& page : pages) list.append(nb::make_tuple(page.index, page.generation));
  return list;
}

nb::dict dict_of(const kv::Counters& c) {
  nb::dict d;
  const std::pair<const char*, std::int64_t> all[] = {{"pages", c.pages},         {"blocks", c.blocks},
                                                      {"leases", c.leases},       {"writings", c.writings},
                                                      {"asked", c.asked},         {"found", c.found},
                                                      {"committed", c.committed}, {"evicted", c.evicted},
                                                      {"expired", c.expired},     {"tier_blocks", c.tier_blocks},
                                                      {"reloaded", c.reloaded},   {"lost", c.lost},
                                                      {"recovered", c.recovered}, {"damaged", c.damaged}};
  for (const auto& [name, value] : all) d[name] = value;
  return d;
}

// What ends without the GIL, because it may wait for another process. A call that another thread is in keeps it until
// its return.
template <class T>
class Quiet {
 public:
  explicit Quiet(T value) : value_(std::make_shared<T>(std::move(value))) {}
  ~Quiet() { end(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  void end() {
    std::shared_ptr<T> last = std::move(value_);
    const nb::gil_scoped_release without;
    last.reset();
  }
  // Throws where it has ended.
  std::shared_ptr<T> get(const char* what) const {
    if (value_ == nullptr) throw Failed(invalid(std::string(what) + " has been closed"), what);
    return value_;
  }

 private:
  std::shared_ptr<T> value_;
};

struct Lease {
  explicit Lease(kv::Lease l) : lease(std::move(l)) {}
  Quiet<kv::Lease> lease;
};
struct Writing {
  explicit Writing(kv::Writing w) : writing(std::move(w)) {}
  Quiet<kv::Writing> writing;
};
struct Store {
  Store(Agent a, kv::Store s) : agent(std::move(a)), store(std::move(s)) {}
  Agent agent;
  Quiet<kv::Store> store;
  std::shared_ptr<kv::Store> get() const { return store.get("the store"); }
};
struct Server {
  explicit Server(kv::Server s) : server(std::move(s)) {}
  Quiet<kv::Server> server;
  std::shared_ptr<kv::Server> get() const { return server.get("the server"); }
};
struct Client {
  Client(Agent a, kv::Client c) : agent(std::move(a)), client(std::move(c)) {}
  Agent agent;
  Quiet<kv::Client> client;
  std::shared_ptr<kv::Client> get() const { return client.get("the client"); }
};

kv::Policy policy_of(const std::string& text) {
  for (const auto policy : {kv::Policy::kLru, kv::Policy::kLfu, kv::Policy::kS3Fifo})
    if (kv::name(policy) == text) return policy;
  throw Failed(invalid("policy '" + text + "': a store has lru, lfu and s3fifo"), "Store");
}

std::shared_ptr<Store> open_store(const Agent& agent, std::int64_t pages, std::int64_t page_bytes,
                                  const std::string& model, std::int64_t tp, const std::string& type,
                                  std::int64_t block_tokens, const std::string& policy, const std::string& tier,
                                  std::int64_t tier_blocks, const std::string& layout, bool write_back, bool sync,
                                  bool check_tier) {
  const kv::StoreOptions options{.pages = pages,
                                 .page_bytes = page_bytes,
                                 .model = model,
                                 .tp = tp,
                                 .type = type,
                                 .block_tokens = block_tokens,
                                 .policy = policy_of(policy),
                                 .tier = {.file = tier,
                                          .blocks = tier_blocks,
                                          .layout = layout,
                                          .write_back = write_back,
                                          .sync = sync,
                                          .check = check_tier}};
  auto store = released([&] { return kv::Store::open(agent->agent, options); });
  return std::make_shared<Store>(agent, check(std::move(store), "Store"));
}

std::shared_ptr<Client> connect(const Agent& agent, const std::string& address, const std::string& key, double timeout,
                                double lease) {
  const kv::ClientOptions options{.address = address,
                                  .key = key,
                                  .timeout = milliseconds(timeout),
                                  .lease = milliseconds(lease),
                                  .interrupted = signal_raised()};
  auto client = released([&] { return kv::Client::connect(agent->agent, options); });
  return std::make_shared<Client>(agent, check(std::move(client), "Client"));
}

std::shared_ptr<Lease> match(Client& c, const nb::bytes& salt, const Tokens& tokens) {
  const std::string text = text_of(salt);
  const auto client = c.get();
  auto lease = released([&] { return client->match(text, span_of(tokens)); });
  return std::make_shared<Lease>(check(std::move(lease), "match"));
}

template <class From>
std::shared_ptr<Writing> begin(From& from, const nb::bytes& salt, const Tokens& tokens) {
  const std::string text = text_of(salt);
  const auto of = from.get();
  auto writing = released([&] { return of->begin(text, span_of(tokens)); });
  return std::make_shared<Writing>(check(std::move(writing), "begin"));
}

// client.CALL(salt, tokens, memory, offset)
template <auto kCall>
std::int64_t moved(Client& c, const nb::bytes& salt, const Tokens& tokens, std::uint32_t region, std::int64_t offset) {
  const std::string text = text_of(salt);
  const auto client = c.get();
  auto result = released([&] { return ((*client).*kCall)(text, span_of(tokens), {region}, offset); });
  return check(std::move(result), "move");
}

void add_held(nb::module_& m) {
  nb::class_<Lease>(m, "KvLease")
      .def_prop_ro("pages", [](Lease& l) { return pages_of(l.lease.get("the lease")->pages()); })
      .def_prop_ro("tokens", [](Lease& l) { return l.lease.get("the lease")->tokens(); })
      .def("end", [](Lease& l) { l.lease.end(); });
  nb::class_<Writing>(m, "KvWriting")
      .def_prop_ro("pages", [](Writing& w) { return pages_of(w.writing.get("the writing")->pages()); })
      .def_prop_ro("first_block", [](Writing& w) { return w.writing.get("the writing")->first_block(); })
      .def("commit",
           [](Writing& w) {
             const auto writing = w.writing.get("the writing");
             return check(released([&] { return writing->commit(); }), "commit");
           })
      .def("abandon", [](Writing& w) { w.writing.end(); });
}

void add_client(nb::module_& m) {
  nb::class_<Client>(m, "KvClient")
      .def("match", &match)
      .def("begin", &begin<Client>)
      .def("extend_lease",
           [](Client& c, Lease& l) {
             const auto client = c.get();
             const auto lease = l.lease.get("the lease");
             check(released([&] { return client->extend(*lease); }), "extend");
           })
      .def("extend_writing",
           [](Client& c, Writing& w) {
             const auto client = c.get();
             const auto writing = w.writing.get("the writing");
             check(released([&] { return client->extend(*writing); }), "extend");
           })
      .def("read",
           [](Client& c, Lease& l, std::uint32_t region, std::int64_t offset) {
             const auto client = c.get();
             const auto lease = l.lease.get("the lease");
             check(released([&] { return client->read(*lease, {region}, offset); }), "read");
           })
      .def("write",
           [](Client& c, Writing& w, std::uint32_t region, std::int64_t offset) {
             const auto client = c.get();
             const auto writing = w.writing.get("the writing");
             check(released([&] { return client->write(*writing, {region}, offset); }), "write");
           })
      .def("get", &moved<&kv::Client::get>)
      .def("put", &moved<&kv::Client::put>)
      .def("counters",
           [](Client& c) {
             const auto client = c.get();
             return dict_of(check(released([&] { return client->counters(); }), "counters"));
           })
      .def("close", [](Client& c) { c.client.end(); })
      .def_prop_ro("pages",
                   [](Client& c) {
                     return TransferList{c.agent, c.get()->pages()};
                   })
      .def_prop_ro("peer", [](Client& c) { return c.get()->peer(); })
      .def_prop_ro("page_bytes", [](Client& c) { return c.get()->page_bytes(); })
      .def_prop_ro("block_tokens", [](Client& c) { return c.get()->block_tokens(); });
}

}  // namespace

void add_kv(nb::module_& m) {
  add_held(m);
  add_client(m);
  nb::class_<Store>(m, "KvStore")
      .def("match",
           [](Store& s, const nb::bytes& salt, const Tokens& tokens) {
             const std::string text = text_of(salt);
             const auto store = s.get();
             return std::make_shared<Lease>(released([&] { return store->match(text, span_of(tokens)); }));
           })
      .def("begin", &begin<Store>)
      .def("flush",
           [](Store& s) {
             const auto store = s.get();
             check(released([&] { return store->flush(); }), "flush");
           })
      .def("counters",
           [](Store& s) {
             const auto store = s.get();
             return dict_of(released([&] { return store->counters(); }));
           })
      .def("tier_problem",
           [](Store& s) {
             const Status status = s.get()->tier_status();
             return status ? std::string() : status.error().message;
           })
      .def("serve",
           [](Store& s, const std::string& listen, const std::string& key, double most_lease) {
             const auto store = s.get();
             const kv::ServerOptions options{.listen = listen, .key = key, .most_lease = milliseconds(most_lease)};
             return std::make_shared<Server>(
                 check(released([&] { return kv::Server::open(*store, options); }), "serve"));
           })
      .def("close", [](Store& s) { s.store.end(); })
      .def_prop_ro("region",
                   [](Store& s) {
                     const auto& r = s.get()->region();
                     return nb::make_tuple(r.region, reinterpret_cast<std::uint64_t>(r.data), r.bytes, r.page_bytes);
                   })
      .def_prop_ro("page_bytes", [](Store& s) { return s.get()->page_bytes(); })
      .def_prop_ro("block_tokens", [](Store& s) { return s.get()->block_tokens(); });
  nb::class_<Server>(m, "KvServer")
      .def_prop_ro("address", [](Server& s) { return s.get()->address(); })
      .def_prop_ro("clients", [](Server& s) { return s.get()->clients(); })
      .def("close", [](Server& s) { s.server.end(); });
  m.def("open_kv_store", &open_store);
  m.def("connect_kv_client", &connect);
  m.def("kv_block_bytes",
        [](const std::string& config, std::int64_t block_tokens, std::int64_t tp, const std::string& type) {
          return check(kv::block_bytes(config, block_tokens, tp, type), "block_bytes");
        });
}

}  // namespace weft::python
