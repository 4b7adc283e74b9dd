// Measures an MPI library; compiled once with Open MPI and once with MPICH.
#include <mpi.h>

#include "harness.h"

namespace {

class Mpi final : public peers::Peer {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
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
    const int count = static_cast<int>(point.count);
    const int part = count / ranks_;
    const void* in = point.in_place ? MPI_IN_PLACE : point.in;
    float* out = point.out;
    if (point.collective == "all_reduce")
      return [=] { MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    if (point.collective == "reduce_scatter")
      return [=] { MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
    if (point.collective == "all_gather")
      return [=] { MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); };
    if (point.collective == "broadcast" && point.in_place)
      return [=] { MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD); };
    if (point.collective == "all_to_all" && !point.in_place)
      return [=] { MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); };
    if (point.collective == "send_recv" && !point.in_place) {
      const int next = (rank_ + 1) % ranks_, before = (rank_ + ranks_ - 1) % ranks_;
      return [=] {
        MPI_Sendrecv(in, count, MPI_FLOAT, next, 0, out, count, MPI_FLOAT, before, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
      };
    }
    return nullptr;
  }

 private:
  int rank_ = 0;
  int ranks_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  std::vector<std::string> rest;
  const peers::Options options = peers::read_options(argc, argv, &rest);
  Mpi mpi;
  peers::measure(mpi, options);
  MPI_Finalize();
  return 0;
}
