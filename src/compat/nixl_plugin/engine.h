#pragma once

#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "backend/backend_engine.h"
#include "compat/nixl_plugin/notifications.h"
#include "weft/transfer.h"

namespace weft::nixl {

// NIXL's backend WEFT: memory of this machine's processes, and by TCP of other machines', over transfer::Agent.
// Connection information and the metadata of a registration are weft's metadata: of no region, and of one.
// Thread: any.
class Engine final : public nixlBackendEngine {
 public:
  explicit Engine(const nixlBackendInitParams& init);
  ~Engine() override;

  bool supportsRemote() const override { return true; }
  bool supportsLocal() const override { return true; }
  bool supportsNotif() const override { return true; }
  nixl_mem_list_t getSupportedMems() const override;

  nixl_status_t registerMem(const nixlBlobDesc& memory, const nixl_mem_t& kind, nixlBackendMD*& out) override;
  nixl_status_t deregisterMem(nixlBackendMD* metadata) override;
  nixl_status_t connect(const std::string& remote) override;
  nixl_status_t disconnect(const std::string& remote) override;
  nixl_status_t unloadMD(nixlBackendMD* metadata) override;

  nixl_status_t getPublicData(const nixlBackendMD* metadata, std::string& text) const override;
  nixl_status_t getConnInfo(std::string& text) const override;
  nixl_status_t loadRemoteConnInfo(const std::string& remote, const std::string& info) override;
  nixl_status_t loadRemoteMD(const nixlBlobDesc& memory, const nixl_mem_t& kind, const std::string& remote,
                             nixlBackendMD*& out) override;
  nixl_status_t loadLocalMD(nixlBackendMD* metadata, nixlBackendMD*& out) override;

  nixl_status_t prepXfer(const nixl_xfer_op_t& op, const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                         const std::string& remote_agent, nixlBackendReqH*& handle,
                         const nixl_opt_b_args_t* options) const override;
  nixl_status_t postXfer(const nixl_xfer_op_t& op, const nixl_meta_dlist_t& local, const nixl_meta_dlist_t& remote,
                         const std::string& remote_agent, nixlBackendReqH*& handle,
                         const nixl_opt_b_args_t* options) const override;
  nixl_status_t checkXfer(nixlBackendReqH* handle) const override;
  nixl_status_t releaseReqH(nixlBackendReqH* handle) const override;

  nixl_status_t getNotifs(notif_list_t& list) override;
  nixl_status_t genNotif(const std::string& remote, const std::string& message) const override;

 private:
  struct Region;
  struct Memory;
  struct Transfer;
  std::shared_ptr<Region> region_around(std::uint64_t begin, std::uint64_t bytes) const;
  nixl_status_t refused(const Error& error) const;
  // What the peer that NIXL calls `remote` is to weft: "" is this agent.
  const std::string* peer_of(const std::string& remote) const;
  nixl_status_t advance(Transfer& transfer) const;
  void collect() const;
  void progress(const std::stop_token& stop, std::chrono::microseconds pause);

  mutable std::mutex mutex_;  // guards all below
  mutable std::optional<transfer::Agent> agent_;
  std::string name_;
  std::vector<std::weak_ptr<Region>> regions_;
  std::unordered_map<std::string, std::string> peers_;  // weft's names by NIXL's
  mutable std::list<Transfer*> running_;
  mutable Parts parts_;
  mutable notif_list_t arrived_;
  std::jthread thread_;  // where NIXL's agent asks for progress between calls
};

}  // namespace weft::nixl
