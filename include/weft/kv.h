#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/result.h"
#include "weft/transfer.h"

// A store of blocks of keys and values for inference, in pages of an agent's memory: in this process (Store), and for
// other processes (Server, Client). docs/transfers.md is the guide.
//
// A block is `block_tokens` tokens of a prompt and fills one page. Its key is SHA-256 over the key of the block before
// it and its tokens; the first key follows from the tenant's salt. So equal keys mean equal prefixes of one tenant.
// Tokens behind the last whole block of a prompt are ignored.
//
// Calls of a store, server or client that was moved from, or that a process has inherited by fork(), fail with
// kInvalidArgument; those that return no error find nothing.
namespace weft::kv {

using Token = std::int32_t;

// Which block is given up when a page is needed. kClairvoyant, the optimum, knows the future: `weft kv replay` has it.
enum class Policy : std::uint8_t { kLru, kLfu, kS3Fifo, kClairvoyant };
std::string_view name(Policy policy);  // "lru", "lfu", "s3fifo", "optimum"

// Bytes that one rank keeps of `block_tokens` tokens, from a model's config.json in the form of Hugging Face's
// transformers: grouped heads, latent vectors (MLA), copies where `tp` exceeds the heads. `type`: elements of the cache
// instead of the model's ("float8_e4m3fn"), or empty. Errors (bad input): the file, a field, heads that `tp` ranks
// cannot share.
Result<std::int64_t> block_bytes(const std::string& config, std::int64_t block_tokens, std::int64_t tp = 1,
                                 const std::string& type = "");

// A second tier: blocks in FILE, with FILE.index beside it, which a later store goes on with, also after a crash; or an
// object per block in a bucket, "s3://BUCKET/PREFIX", with the environment's AWS_* (docs/transfers.md).
struct SecondTier {
  std::string file;         // made where it is missing; empty: no second tier
  std::int64_t blocks = 0;  // that fit; 0: as many as the file has now, in a bucket without bound
  std::string layout;       // what blocks hold; a file whose blocks have another is refused
  bool write_back = false;  // blocks are written when their page is given up and by flush(), not by commit
  bool sync = false;        // every write reaches the disk before the call returns
  bool check = false;       // open() compares the checksums of all blocks
};

struct StoreOptions {
  std::int64_t pages = 0;       // 1 to 2^20
  std::int64_t page_bytes = 0;  // of one block; 0: what `model` needs
  std::string model;            // the path of a config.json; empty: page_bytes
  std::int64_t tp = 1;          // with `model`: ranks of tensor parallelism; refused without it, as `type` is
  std::string type;             // with `model`: elements of the cache instead of the model's
  std::int64_t block_tokens = 16;
  Policy policy = Policy::kLru;
  SecondTier tier = {};
};

// What a store has done so far, in blocks unless said otherwise.
struct Counters {
  std::int64_t pages = 0, blocks = 0;  // in memory: room, and blocks that can be found
  std::int64_t leases = 0;             // that are open, each of one match
  std::int64_t writings = 0;           // that are open, each of one begin
  std::int64_t asked = 0, found = 0;   // by match
  std::int64_t committed = 0, evicted = 0;
  std::int64_t expired = 0;                 // leases and writings that ended by their deadline
  std::int64_t tier_blocks = 0;             // in the second tier
  std::int64_t reloaded = 0, lost = 0;      // read back from it; not written to it, or damaged there
  std::int64_t recovered = 0, damaged = 0;  // found there by open(); dropped by it
};

namespace detail {
class Holder;
struct StoreState;
struct ServerState;
struct ClientState;
}  // namespace detail

// Pages that are read: they are neither evicted nor given to another block until the lease ends, at the latest with
// this object. Owns: nothing of the pages. Thread: one at a time.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& o) noexcept;
  Lease& operator=(Lease&& o) noexcept;
  ~Lease();
  const std::vector<transfer::Page>& pages() const { return pages_; }  // of the blocks, in order
  std::int64_t tokens() const { return tokens_; }                      // that they stand for
  bool open() const { return holder_ != nullptr; }
  // Does nothing where it has ended. A client's does not wait for an answer: whether the lease held while pages were
  // read is known from the read's own end.
  void end();

 private:
  friend class Store;
  friend class Client;
  std::shared_ptr<detail::Holder> holder_;
  std::uint64_t id_ = 0;
  std::vector<transfer::Page> pages_;
  std::int64_t tokens_ = 0;
};

// Pages of blocks that are being written, those behind the longest prefix that the store has. Without commit() they are
// given back, at the latest with this object; a writer that still writes is then refused. Thread: one at a time.
class Writing {
 public:
  Writing() = default;
  Writing(Writing&& o) noexcept;
  Writing& operator=(Writing&& o) noexcept;
  ~Writing();
  const std::vector<transfer::Page>& pages() const { return pages_; }
  std::int64_t first_block() const { return first_block_; }  // of the prompt, that pages()[0] is for
  bool open() const { return holder_ != nullptr; }
  // The blocks can be found from here on. Returns how many are new: another writer may have brought some meanwhile.
  // Ends the writing in any case. Errors: kInvalidArgument, it has ended; of a client's, kMismatch: a page was not
  // written whole and with its checksum; kNotFound: its deadline has passed; kPeerDied, kTimeout.
  Result<std::int64_t> commit();
  // Does nothing where it has ended. A client's does not wait for an answer.
  void abandon();

 private:
  friend class Store;
  friend class Client;
  std::shared_ptr<detail::Holder> holder_;
  std::uint64_t id_ = 0;
  std::vector<transfer::Page> pages_;
  std::int64_t first_block_ = 0;
};

// Blocks in pages of a fenced region of `agent`. Thread: any; calls exclude each other.
class Store {
 public:
  // Errors (bad input): sizes, a policy that needs the future, the model's file, a second tier of another layout or
  // size, or one that another store uses; kNoResources: memory, the disk. The agent must outlive the store.
  static Result<Store> open(transfer::Agent& agent, const StoreOptions& options);
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  // Written back: flushes. Leases and writings end; requests of peers fail from here on.
  ~Store();

  // The longest prefix of the prompt that is here. Blocks that only the second tier has are read into memory.
  Lease match(std::string_view salt, std::span<const Token> tokens);
  // Pages for the blocks behind that prefix; evicts what the policy gives up. Errors: kNoResources: more blocks
  // than pages, or than are not leased, being written or still being copied; nothing has been evicted for it.
  Result<Writing> begin(std::string_view salt, std::span<const Token> tokens);
  // The bytes of a page, for this process: to be read under its lease, to be written before its commit(), which makes
  // its checksum. Empty: no page of this store.
  std::span<std::byte> bytes(transfer::Page page) const;
  // Written back: writes to the second tier what it has not. Errors: the first one's, after all were tried.
  Status flush();

  std::int64_t page_bytes() const;
  std::int64_t block_tokens() const;
  const transfer::Registration& region() const;
  Counters counters() const;
  // Why the second tier last lost a block; good: it has lost none.
  Status tier_status() const;

 private:
  friend class Server;
  explicit Store(std::shared_ptr<detail::StoreState> state);
  std::shared_ptr<detail::StoreState> state_;
};

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  std::string key;  // clients must have the same (WEFT_KEY), of at least 16 characters; empty: the loopback only
  // Leases and writings of clients end after this at the latest.
  std::chrono::milliseconds most_lease = std::chrono::seconds(60);
};

// Serves a store to clients in other processes, in a thread of its own. What a client holds ends when the client says
// so, when its deadline passes, or when its connection ends, as it does with its process. At most 256 clients, and 4096
// leases and writings of each. Thread: any.
class Server {
 public:
  // Errors (bad input): no address, an address other than the loopback's without a key; kSystem: it cannot be bound.
  static Result<Server> open(Store& store, const ServerOptions& options = {});
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  ~Server();
  std::string address() const;  // "127.0.0.1:4711"
  std::int64_t clients() const;

 private:
  explicit Server(std::unique_ptr<detail::ServerState> state);
  std::unique_ptr<detail::ServerState> state_;
};

struct ClientOptions {
  std::string address;                                          // of the server
  std::string key;                                              // as the server's
  std::chrono::milliseconds timeout = std::chrono::seconds(5);  // of every question
  std::chrono::milliseconds lease = std::chrono::seconds(10);   // deadline of leases and writings
  // Asked about every 50 ms while a call waits; true: the call ends with kAborted. Empty: nothing interrupts.
  std::function<bool()> interrupted = {};
};

// A store of another process. Questions go over a connection of their own; blocks move between `agent` and the store's
// agent by the cheapest path, and are compared with their writers' checksums. After an error of the connection
// (kPeerDied, kTimeout, kAborted) every call returns this error: connect() anew. All errors name the store.
// Thread: any; questions exclude each other.
class Client {
 public:
  // Errors: kInvalidArgument: no address, another key, another layout; kPeerDied, kTimeout: nobody answers. The agent
  // must outlive the client.
  static Result<Client> connect(transfer::Agent& agent, const ClientOptions& options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // Both do what Store's do; what they return ends ClientOptions::lease later. Errors: kInvalidArgument: a prompt of
  // more than 65,536 blocks; kNoResources: too many leases are open; of begin(): as Store::begin.
  Result<Lease> match(std::string_view salt, std::span<const Token> tokens);
  Result<Writing> begin(std::string_view salt, std::span<const Token> tokens);
  // Sets the deadline anew, ClientOptions::lease from now; of a lease of no pages nothing. Errors: kNotFound: its
  // deadline has passed; kInvalidArgument: end(), commit() or abandon() has ended it.
  Status extend(const Lease& lease);
  Status extend(const Writing& writing);

  // Copies all pages, one behind the other, into or out of `memory` of the client's agent, from `offset` bytes on.
  // Errors: kMismatch: a page's bytes are not those that were written, or the lease has ended and the page is another
  // block's; kTimeout: the copy took longer than ClientOptions::lease; kInvalidArgument: memory that is too small.
  Status read(const Lease& lease, const transfer::Registration& memory, std::int64_t offset = 0);
  Status write(const Writing& writing, const transfer::Registration& memory, std::int64_t offset = 0);
  // The longest prefix that the store has, copied as by read(): returns the tokens whose blocks were read. One
  // question, without a lease; with one where a page has been given to another block meanwhile.
  Result<std::int64_t> get(std::string_view salt, std::span<const Token> tokens, const transfer::Registration& memory,
                           std::int64_t offset = 0);
  // begin(), write() and commit() of a prompt whose blocks stand in `memory`, the first at `offset`; blocks that the
  // store has are not moved. Returns how many blocks are new.
  Result<std::int64_t> put(std::string_view salt, std::span<const Token> tokens, const transfer::Registration& memory,
                           std::int64_t offset = 0);

  // All pages of the store, for requests that the caller makes: element number = page number, on the agent given to
  // connect(). Requests name the pages' generations and set `verify`.
  const transfer::Prepared& pages() const;
  const std::string& peer() const;  // the name of the store's agent
  std::int64_t page_bytes() const;
  std::int64_t block_tokens() const;
  Result<Counters> counters();

 private:
  explicit Client(std::shared_ptr<detail::ClientState> state);
  std::shared_ptr<detail::ClientState> state_;
};

}  // namespace weft::kv
