#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/result.h"

// Transfers of any list of memory between processes and files, without ranks: agents that meet by metadata which the
// caller carries. docs/transfers.md is the guide. weft::Transfer (weft/group.h) is another thing: one send or receive
// of a communicator.
namespace weft::transfer {

enum class Op : std::uint8_t { kRead, kWrite };  // read: from the remote list into the local one

enum class State : std::uint8_t { kPrepared, kRunning, kDone, kFailed, kCancelled, kExpired };
std::string_view name(State state);
constexpr bool is_terminal(State state) { return state >= State::kDone; }

// Memory or a file that an agent has registered. A region's number is never used again by its agent.
struct Registration {
  std::uint32_t region = 0;
  std::byte* data = nullptr;    // null: a file or an object; of a GPU's memory: not for the host
  std::int64_t bytes = 0;       // of the region
  std::int64_t page_bytes = 0;  // 0: not fenced
  int gpu = -1;                 // as CUDA numbers it; -1: not a GPU's memory
};

// `count` elements of `bytes` bytes, `stride` bytes apart, from `offset` in a region. One element: stride is ignored.
struct Rows {
  std::uint32_t region = 0;
  std::int64_t offset = 0, bytes = 0, stride = 0, count = 1;
};

// `count` elements of `bytes` bytes, `stride` bytes apart, from an address in the process that registered the memory.
struct Extent {
  std::uint64_t address = 0;
  std::int64_t bytes = 0, stride = 0, count = 1;
};

// A page of a fenced region, as its owner has given it out. `generation` holds the owner's tag in its upper 16 bits.
struct Page {
  std::uint32_t index = 0;
  std::uint64_t generation = 0;
};

struct Notification {
  std::string peer;  // the name of the agent that sent it
  std::string bytes;
};

// How a region is reached.
enum class Path : std::uint8_t { kDirect, kMapped, kKernel, kGpu, kTcp, kUcx, kFile, kObject };
inline constexpr std::size_t kPaths = 8;
std::string_view name(
    Path path);  // "direct", "shared memory", "process_vm_readv", "gpu memory", "tcp", "ucx", "file", "object"

// What reaches peers whose memory cannot be reached otherwise. kAny: UCX where this machine has adapters that access
// remote memory (/sys/class/infiniband) and the peer offers UCX, else TCP.
enum class Network : std::uint8_t { kAny, kTcp, kUcx };

// What requests cost over one path: measured times of whole requests with one element, between which the bytes are
// interpolated, and what each further element adds. A value.
struct PathCost {
  struct Point {
    std::int64_t bytes = 0;
    double us = 0;
  };
  std::vector<Point> points;  // by growing bytes; empty: not known
  double element_us = 0;
  double error = 0;  // the largest relative distance of a repetition from its point

  bool known() const { return !points.empty(); }
  // 0 where it is not known().
  double us(std::int64_t elements, std::int64_t bytes) const;
};
struct Costs {
  std::array<PathCost, kPaths> paths;  // by Path
  const PathCost& of(Path path) const { return paths[static_cast<std::size_t>(path)]; }
  PathCost& of(Path path) { return paths[static_cast<std::size_t>(path)]; }
};
// Measures this machine's paths, but for GPUs' memory, between two agents of this process: about a second of a core.
// `folder`: where a file of 16 MiB may be for a moment; empty: files are not measured. Errors: kNoResources, the folder
// cannot be written to.
Result<Costs> measure_costs(const std::string& folder = "");

struct Estimate {
  double us = 0;
  double error = 0;  // relative: that of the paths' measurements
};

struct Options {
  std::string name;    // 1 to 64 bytes; how peers name this agent
  std::string key;     // peers must have the same; empty: metadata is not authenticated
  std::string listen;  // "127.0.0.1:0", "10.0.0.5:7000": also serve peers by the network; needs a key. Empty: no
  std::string layout;  // what pages hold (model, type, heads, packing, parallel rank): peers must have the same
  std::int64_t pages = 1 << 20;  // of all fenced regions together
  // UCX is loaded, and offered to peers of an agent that listens, with kUcx, or with kAny where it would be chosen.
  Network network = Network::kAny;
  bool only_network = false;  // reach peers by the network although they are on this machine
  // Costs serve estimates, and the choice between several paths to a region. Where they are unknown, the order is
  // shared memory, the kernel, the network.
  Costs costs = {};
};

// Where an object is kept. Empty fields are those of the environment: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL,
// AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN. The last three are taken from one of both.
struct ObjectPlace {
  std::string endpoint;  // "http://127.0.0.1:9000"; empty in both: Amazon's
  std::string region, key_id, secret, session;
  std::string authorities = {};  // a file of certificates; empty: AWS_CA_BUNDLE's, or the system's
};

// How many GPUs this process may use, by allocate_gpu() and add_gpu_memory(); 0: none, or weft was built without CUDA.
int gpus();

namespace detail {
struct List;
struct Work;
struct AgentState;
}  // namespace detail

// A checked list of elements at one side. A value; a copy costs a pointer.
class Prepared {
 public:
  std::int64_t elements() const;
  // Of each element; 0 where they have several sizes, and of an empty list.
  std::int64_t element_bytes() const;

 private:
  friend class Agent;
  std::shared_ptr<const detail::List> list_;
};

// What a request is besides its lists.
struct RequestOptions {
  // Block tables: which elements of the lists, in this order; empty: all of them. Both lists give as many elements, and
  // each two have the same size.
  std::span<const std::uint32_t> local_blocks = {}, remote_blocks = {};
  // Of the page of every remote element, where the remote region is fenced.
  std::span<const std::uint64_t> generations = {};
  std::string notify = {};                // delivered to the peer after all data; empty: nothing
  std::chrono::milliseconds deadline{0};  // from post(); 0: none
  bool verify = false;                    // reads of fenced regions: compare each page with its writer's checksum
};

// One transfer, that may be posted again after each end. Owns: its part of the agent's state. One that make() did not
// return, or that was moved from, has failed.
class Request {
 public:
  State state() const;
  const Error& error() const;        // why it ended in failed, cancelled or expired, with the peer's name
  std::int64_t moved_bytes() const;  // progress of the last post
  std::chrono::steady_clock::time_point progressed() const;  // when moved_bytes() last grew
  std::chrono::steady_clock::time_point posted() const;      // when it was last posted

 private:
  friend class Agent;
  std::shared_ptr<detail::Work> work_;
};

// Registers memory, exchanges metadata, moves lists. Every request ends in exactly one of done, failed, cancelled and
// expired. Data moves inside post(), poll() and wait(); peers need not call anything, but a peer reached by the
// network serves with a thread of its own. Thread: any; calls of one agent exclude each other. Calls of an agent that
// was moved from, or of one that a process has inherited by fork(), fail with kInvalidArgument, and those that return
// no error do nothing.
class Agent {
 public:
  class Probe;  // of measure_costs()
  // Errors: a bad name, a `listen` without a key or that cannot be bound, no shared memory, Network::kUcx without UCX.
  static Result<Agent> open(Options options);
  Agent(Agent&&) noexcept;
  Agent& operator=(Agent&&) noexcept;
  // Requests that run end as cancelled. Waits for peers' copies that are under way, and up to a second for
  // notifications that have not arrived.
  ~Agent();

  // Memory that peers on this machine map, zeroed. `page_bytes` > 0: fenced, in pages of this size. Errors: sizes,
  // kNoResources. Freed by deregister().
  Result<Registration> allocate(std::int64_t bytes, std::int64_t page_bytes = 0);
  // The caller's memory, which must stay until deregister(). Becomes huge pages where the kernel has them (Linux 6.1,
  // /sys/kernel/mm/transparent_hugepage/enabled is not never; at most 1 GiB at once): peers copy it twice as fast.
  // Errors: it overlaps a region that is registered, or part of it is not mapped.
  Result<Registration> add_memory(void* data, std::int64_t bytes, std::int64_t page_bytes = 0);
  // Memory of a GPU, zeroed; peers on this machine open it. Requests copy it by the GPU's engines, also where their
  // other side is the host's, a file's or a network's. Errors: kNotFound: weft was built without CUDA, or there is no
  // GPU; sizes, kNoResources. Freed by deregister(), when nobody copies it any more; CUDA wants peers to have forgotten
  // it by then.
  Result<Registration> allocate_gpu(std::int64_t bytes, std::int64_t page_bytes = 0, int gpu = 0);
  // The caller's memory of a GPU, which must stay until deregister(). What its kernels write must be done before a
  // request is posted. Peers open memory of cudaMalloc; other memory they reach by the network. Errors: as above; it
  // overlaps a region, or is not memory of a GPU.
  Result<Registration> add_gpu_memory(void* data, std::int64_t bytes, std::int64_t page_bytes = 0, int gpu = 0);
  // A file that exists, for this agent's own requests. The region has the file's bytes, or `bytes` if these are more:
  // writes extend the file, reads beyond its end are errors, so that no byte comes out that nobody wrote. Errors: it
  // cannot be opened for reading and writing. `past_cache`: elements whose memory, size and offset are multiples of
  // 4 KiB go past the page cache, where the file system allows that.
  Result<Registration> add_file(const std::string& path, std::int64_t page_bytes = 0, std::int64_t bytes = 0,
                                bool past_cache = false);
  // The same of an open file, which is read and written as its descriptor allows. The descriptor is duplicated. `name`:
  // for messages.
  Result<Registration> add_open_file(int descriptor, std::int64_t page_bytes = 0, std::int64_t bytes = 0,
                                     bool past_cache = false, const std::string& name = {});
  // An object of S3, "s3://BUCKET/KEY", for this agent's own requests, which threads of the agent run. The region
  // has the object's bytes, or `bytes`, then the object need not exist. Reads are of any part; a write replaces the
  // object by its one element, which begins at offset 0: readers see the old object or the new one. Each request is
  // tried five times. Errors: kUnsupported: weft was built without libcurl; no credentials; with `bytes` 0 what the
  // server says. A write that was sent whole when its request ended may still take place; the error says so.
  Result<Registration> add_object(const std::string& url, std::int64_t bytes = 0, const ObjectPlace& place = {});
  // Memory of allocate() stays mapped here as long as the result lives, beyond deregister() and this agent's end, for a
  // caller that hands out views of it. Errors: no such region.
  Result<std::shared_ptr<void>> hold(const Registration& region) const;
  // From here on no peer begins a copy, and requests of this agent with this region fail; waits for those under way.
  // Errors: kTimeout after `limit`, naming the peer: the region is closed, and the call may be made again; no such
  // region.
  Status deregister(const Registration& region, std::chrono::milliseconds limit = std::chrono::seconds(2));
  // The row of registered memory at this address. Errors: part of it is not registered.
  Result<Rows> rows_at(const void* data, std::int64_t bytes) const;

  // Fenced regions: takes a free page for owner `tag` (1 … 65535). Errors: none is free.
  Result<Page> acquire(const Registration& region, std::uint16_t tag);
  // From here on requests that name the page's generation fail. The page is given out again when no copy that began
  // before is under way. Errors: the page is not out with this generation.
  Status release(const Registration& region, Page page);
  // Pages that can be acquired now.
  std::int64_t free_pages(const Registration& region);
  // Notes the checksum of a page that this agent has written itself, for readers that verify.
  Status seal(const Registration& region, Page page);
  // Whether the page has its writer's checksum: it was sealed, or written whole by a request with `verify`. False also
  // where the page is not out with this generation.
  bool sealed(const Registration& region, Page page) const;

  // Everything a peer needs to reach this agent: bytes for the caller to carry. Call again after registering more.
  Result<std::string> metadata() const;
  // The same with these regions only; who loads it keeps those that it knows besides. Errors: one is not registered.
  Result<std::string> metadata(std::span<const Registration> regions) const;
  // Reads a peer's metadata; returns its name. A peer that has restarted replaces its former self: lists and requests
  // made before fail; so do those of a peer whose connection had broken, which is made anew. Errors: malformed, another
  // key, another layout, another version.
  Result<std::string> load(std::string_view metadata);
  Status forget(const std::string& peer);
  // Whether the peer is there, as far as can be known without asking it. Errors: kNotFound: no such peer; kPeerDied and
  // kPeerLeft.
  Status check(const std::string& peer) const;
  // One line per region of the peer: the path that is taken, and why the others are not.
  Result<std::string> explain(const std::string& peer) const;

  // Checks a list once; costs O(rows). `peer` empty: this agent's own regions. Errors: no such peer or region, a row
  // that ends past its region, elements of a row that overlap, an element across pages of a fenced region.
  Result<Prepared> prepare(const std::string& peer, std::span<const Rows> rows) const;
  // The same from addresses, of memory only; elements at equal distances become one row. Errors: kNotFound where no
  // region has the memory of an element; else as above.
  Result<Prepared> prepare_addresses(const std::string& peer, std::span<const Extent> extents) const;
  // `local`: of this agent's memory. Errors: the lists do not match; bytes would be written twice, by rows that overlap
  // or a block that is named twice (what is only read may repeat).
  Result<Request> make(Op op, const Prepared& local, const Prepared& remote, const RequestOptions& options = {});
  // Instead of Options::costs from here on, and for the paths of peers that are loaded later.
  void set_costs(Costs costs);
  // What the request will take. Errors: kUnsupported where Options::costs has not a path that it uses.
  Result<Estimate> estimate(const Request& request) const;
  // Its path per remote region, and the others: what they would take, or why they are not there.
  std::string explain(const Request& request) const;
  // Starts it, or starts it again after its end. `notify` replaces the notification that it was made with. Errors: it
  // is running; else failures are in the request's state.
  Status post(Request& request, std::optional<std::string_view> notify = {});
  State poll(Request& request);
  // Until it has ended, or for at most `limit`; moves data meanwhile, and sleeps while a connection brings nothing.
  State wait(Request& request);
  State wait(Request& request, std::chrono::milliseconds limit);
  // Ends a running request as cancelled: no byte of it arrives afterwards, here or there. Errors: it is not running;
  // kTimeout: the peer has not confirmed what was written so far, and the request runs on until it has, for at most a
  // second, in which poll() is to be called. Then the connection to the peer is cut; a peer that was stopped in the
  // middle of a copy completes that piece, at most 256 KiB, when it goes on, before anything that is written later.
  Status cancel(Request& request);

  // Notifications of one peer arrive in the order of its sends, each once. What was accepted arrives without another
  // call; docs/transfers.md says what the queue holds. Waits up to 20 ms for a connection. Errors: no such peer, or its
  // queue is full (kNoResources: call again), or it has ended.
  Status notify(const std::string& peer, std::string_view bytes);
  std::vector<Notification> notifications();
  static constexpr std::size_t kMostNotification = 4096;  // bytes of one

 private:
  explicit Agent(std::unique_ptr<detail::AgentState> state);
  void rest(const Request& request);
  Result<std::string> metadata_of(const std::span<const Registration>* some) const;
  std::unique_ptr<detail::AgentState> state_;
};

}  // namespace weft::transfer
