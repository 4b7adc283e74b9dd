#include "apps/cli/bench_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <random>

#include "apps/cli/common.h"
#include "base/report/transfer.h"
#include "base/text.h"
#include "base/unique_fd.h"

namespace weft::cli {
namespace {

constexpr int kRounds = 7;
constexpr Bytes kUnit = 4096;  // of offsets and sizes past the cache

// The next run would take a file with a part of its bytes for the user's own.
tl::unexpected<Error> unfinished(const std::string& path) {
  const int error = errno;
  unlink(path.c_str());
  return bad_input("--file {}: {}", path, std::strerror(error));
}

// Makes the file with bytes in all its blocks: a hole would be read without the disk. False: it was there.
Result<bool> make(const std::string& path, Bytes bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.open() && errno == EEXIST) return false;
  if (!fd.open()) return bad_input("--file {}: {}", path, std::strerror(errno));
  const std::vector<char> block(1 << 20, 'w');
  for (Bytes at = 0; at < bytes;) {
    const ssize_t n =
        pwrite(fd.get(), block.data(), static_cast<std::size_t>(std::min<Bytes>(bytes - at, 1 << 20)), at);
    if (n < 0) return unfinished(path);
    at += n;
  }
  if (fsync(fd.get()) != 0) return unfinished(path);
  return true;
}

Result<report::TransferRow> measure(transfer::Agent& agent, transfer::Op op, const transfer::Registration& mine,
                                    const transfer::Registration& file, const FileCase& c) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(file.bytes / c.block));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  order.resize(static_cast<std::size_t>(c.blocks));
  const auto row = [&](const transfer::Registration& region, std::int64_t blocks) {
    return std::vector<transfer::Rows>{{region.region, 0, c.block, c.block, blocks}};
  };
  WEFT_TRY(const auto local, agent.prepare("", row(mine, c.blocks)));
  WEFT_TRY(const auto remote, agent.prepare("", row(file, file.bytes / c.block)));
  WEFT_TRY(auto request, agent.make(op, local, remote, {.remote_blocks = order}));
  std::vector<double> times, posts;
  for (int round = 0; round < kRounds; ++round) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    WEFT_CHECK(agent.post(request));
    posts.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    if (agent.wait(request) != transfer::State::kDone) return tl::make_unexpected(request.error());
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  std::sort(posts.begin(), posts.end());
  return report::TransferRow{.block = c.block,
                             .blocks = c.blocks,
                             .post = Duration::seconds(posts[kRounds / 2]),
                             .time = Duration::seconds(times[kRounds / 2])};
}

}  // namespace

Result<int> bench_file(const BenchSpec& spec, const std::string& name, transfer::Op op,
                       const std::vector<FileCase>& cases, Bytes most) {
  for (const FileCase& c : cases)
    if (c.block % kUnit != 0)
      return bad_input("--file: blocks past the page cache are multiples of 4K, not {}", format_bytes(c.block));
  WEFT_TRY(const bool made, make(name, most));
  if (!made && op == transfer::Op::kWrite)
    return bad_input("--file {}: is there already, and would be overwritten", name);
  WEFT_TRY(auto agent, transfer::Agent::open({.name = "bench"}));
  WEFT_TRY(const auto file, agent.add_file(name, 0, 0, true));
  WEFT_TRY(const auto mine, agent.allocate(most));
  WEFT_TRY(std::string path, agent.explain(""));
  path = path.substr(path.find(": ") + 2);
  path = path.substr(0, path.find('\n'));
  report::TransferReport report{.operation = op == transfer::Op::kRead ? "read" : "write", .path = path};
  const bool prints = spec.json != "-";
  if (prints)
    fmt::print("# {} of {} in blocks, in random order; {}\n# {:>8} {:>9} {:>12} {:>12} {:>12} {:>9} {:>12}\n",
               report.operation, name, path, "block (B)", "blocks", "size (B)", "post (us)", "time (us)", "GB/s",
               "blocks/s");
  for (const FileCase& c : cases) {
    if (c.block * c.blocks > file.bytes)
      return bad_input("--file {}: has {}, less than {}", name, format_bytes(file.bytes),
                       format_bytes(c.block * c.blocks));
    WEFT_TRY(const auto r, measure(agent, op, mine, file, c));
    if (prints)
      fmt::print("{:>10} {:>9} {:>12} {:>12.3f} {:>12.3f} {:>9.2f} {:>12.0f}\n", r.block, r.blocks, r.bytes(),
                 r.post.us(), r.time.us(), r.gb_per_second(), static_cast<double>(r.blocks) / r.time.s());
    report.rows.push_back(r);
  }
  if (!spec.json.empty()) WEFT_CHECK(write_json(spec.json, to_json(report)));
  return 0;
}

}  // namespace weft::cli
