// Measures oneCCL on the CPU; Intel MPI starts its processes and carries the address.
#include <mpi.h>

#include <array>
#include <memory>
#include <oneapi/ccl.hpp>

#include "harness.h"

namespace {

class OneCcl final : public peers::Peer {
 public:
  OneCcl() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    ccl::init();
    ccl::kvs::address_type address;
    std::shared_ptr<ccl::kvs> store;
    if (rank_ == 0) {
      store = ccl::create_main_kvs();
      address = store->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank_ != 0) store = ccl::create_kvs(address);
    comm_ = std::make_unique<ccl::communicator>(ccl::create_communicator(ranks_, rank_, store));
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  double max(double value) override {
    double result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }

  std::function<void()> operation(const peers::Point& point) override {
    const std::size_t count = point.count, part = count / static_cast<std::size_t>(ranks_);
    float* const out = point.out;
    const float* const in = point.in_place ? out : point.in;
    const ccl::communicator* const comm = comm_.get();
    if (point.collective == "all_reduce")
      return [=] { ccl::allreduce(in, out, count, ccl::reduction::sum, *comm).wait(); };
    if (point.collective == "reduce_scatter" && !point.in_place)
      return [=] { ccl::reduce_scatter(in, out, part, ccl::reduction::sum, *comm).wait(); };
    if (point.collective == "all_gather") {
      const float* const mine = point.in_place ? out + part * static_cast<std::size_t>(rank_) : in;
      return [=] { ccl::allgather(mine, out, part, *comm).wait(); };
    }
    if (point.collective == "broadcast" && point.in_place) return [=] { ccl::broadcast(out, count, 0, *comm).wait(); };
    if (point.collective == "all_to_all" && !point.in_place) return [=] { ccl::alltoall(in, out, part, *comm).wait(); };
    return nullptr;
  }

 private:
  int rank_ = 0, ranks_ = 0;
  std::unique_ptr<ccl::communicator> comm_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<std::string> rest;
  const peers::Options options = peers::read_options(argc, argv, &rest);
  {
    OneCcl ccl;
    peers::measure(ccl, options);
  }
  MPI_Finalize();
  return 0;
}
