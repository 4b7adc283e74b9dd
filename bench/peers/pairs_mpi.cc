// pairs.h over an MPI library; compiled once with Open MPI and once with MPICH.
#include <mpi.h>

#include <cstdlib>

#include "pairs.h"

namespace {

class Mpi final : public pairs::Library {
 public:
  Mpi() { MPI_Comm_rank(MPI_COMM_WORLD, &rank_); }
  int rank() const override { return rank_; }
  void send(const char* data, std::size_t bytes) override {
    MPI_Send(data, static_cast<int>(bytes), MPI_CHAR, 1 - rank_, 0, MPI_COMM_WORLD);
  }
  void receive(char* data, std::size_t bytes) override {
    MPI_Recv(data, static_cast<int>(bytes), MPI_CHAR, 1 - rank_, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  void send_many(const char* data, std::size_t bytes) override {
    for (std::size_t i = 0; i < pairs::kOutstanding; ++i)
      MPI_Isend(data + i * bytes, static_cast<int>(bytes), MPI_CHAR, 1 - rank_, 0, MPI_COMM_WORLD, &requests_[i]);
    MPI_Waitall(pairs::kOutstanding, requests_, MPI_STATUSES_IGNORE);
  }
  void receive_many(char* data, std::size_t bytes) override {
    for (std::size_t i = 0; i < pairs::kOutstanding; ++i)
      MPI_Irecv(data + i * bytes, static_cast<int>(bytes), MPI_CHAR, 1 - rank_, 0, MPI_COMM_WORLD, &requests_[i]);
    MPI_Waitall(pairs::kOutstanding, requests_, MPI_STATUSES_IGNORE);
  }
  bool make_communicator() override {
    MPI_Comm more;
    return MPI_Comm_dup(MPI_COMM_WORLD, &more) == MPI_SUCCESS;
  }

 private:
  int rank_ = 0;
  MPI_Request requests_[pairs::kOutstanding];
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Mpi mpi;
  pairs::measure(mpi, argc, argv);
  MPI_Finalize();
  return 0;
}
