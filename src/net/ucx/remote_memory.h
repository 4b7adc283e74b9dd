#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace weft::net::ucx {

// Other ranks' memory, which UCX reads and writes without their help: by the network card where there is one, else by
// active messages, which a thread here answers.
// Thread: any number at a time; one request after the other. Owns: UCX's context and worker, the thread; not the
// memory.
class RemoteMemory {
 public:
  static constexpr std::size_t kCardBytes = 4096;

  // `own`: the memory that peers may reach, the same pieces in the same order on all ranks. `has_left`: has the process
  // of a peer ended? Asked while one is waited for. Errors: of ucx::available(); kNoResources, kSystem: what UCX says.
  static Result<std::unique_ptr<RemoteMemory>> open(const std::vector<std::span<std::byte>>& own,
                                                    std::function<bool(Rank)> has_left);
  virtual ~RemoteMemory() = default;

  // The description that peers need: kCardBytes.
  virtual std::span<const std::byte> card() const = 0;
  // `cards`: of all ranks, one behind the other. Errors: kSystem.
  virtual Status connect(std::span<const std::byte> cards) = 0;

  // On return the source may be changed, or the data is here. Errors of all: kPeerDied, kSystem.
  virtual Status put(Rank peer, int piece, Bytes offset, std::span<const std::byte> from) = 0;
  virtual Status get(Rank peer, int piece, Bytes offset, std::span<std::byte> to) = 0;
  // What was put at this peer, or at all, is there.
  virtual Status flush(Rank peer) = 0;
  virtual Status flush_all() = 0;
  // What is put from here on comes behind what was.
  virtual Status fence() = 0;
};

}  // namespace weft::net::ucx
