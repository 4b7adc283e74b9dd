// Training that goes on after ranks have died: gradient descent on data that the ranks share out among them. The page
// docs/lifecycle.md explains it line by line.
//   weft run -n 4 -- recover --kill 2@40,0@90     rank 2 dies in step 40, what was rank 0 in step 90
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "weft/communicator.h"

namespace {

constexpr int kFeatures = 8, kSamples = 4000, kSteps = 200;
constexpr double kRate = 0.5;
constexpr int kTries = 30;  // of shrink(), a second apart

using Weights = std::array<double, kFeatures>;

// The model and how far it has come: what a checkpoint would hold.
struct Model {
  Weights weights = {};
  int steps = 0;
};

// The sample's features and its value under the weights 1, 2, … 8; every rank can make every sample.
std::pair<Weights, double> sample(int index) {
  std::minstd_rand random(static_cast<unsigned>(index + 1));
  std::uniform_real_distribution<double> uniform(-1, 1);
  Weights features;
  double value = 0;
  for (int i = 0; i < kFeatures; ++i) {
    features[static_cast<std::size_t>(i)] = uniform(random);
    value += (i + 1) * features[static_cast<std::size_t>(i)];
  }
  return {features, value};
}

// This rank's part of the gradient: of every ranks-th sample from its own number on.
Weights gradient(const Model& model, weft::Rank rank, weft::Rank ranks) {
  Weights sum = {};
  for (int index = rank; index < kSamples; index += ranks) {
    const auto [features, value] = sample(index);
    double off = -value;
    for (std::size_t i = 0; i < kFeatures; ++i) off += model.weights[i] * features[i];
    for (std::size_t i = 0; i < kFeatures; ++i) sum[i] += off * features[i] / kSamples;
  }
  return sum;
}

// One step on all ranks. Nothing changes where it fails.
weft::Status step(weft::Communicator& comm, Model& model) {
  Weights sum = gradient(model, comm.rank(), comm.ranks());
  if (weft::Status done = comm.all_reduce<double>(sum, sum); !done) return done;
  for (std::size_t i = 0; i < kFeatures; ++i) model.weights[i] -= kRate * sum[i];
  ++model.steps;
  return {};
}

// The survivors' communicator, with all models at the same step again. `before` is this rank's model one step ago: an
// all_reduce may have succeeded on some survivors and failed on others, so that some are one step ahead.
weft::Result<weft::Communicator> recover(weft::Communicator& broken, Model& model, const Model& before) {
  auto comm = broken.shrink();
  for (int tries = 1; !comm && comm.error().code == weft::Code::kNoQuorum && tries < kTries; ++tries) {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // too few are here yet, or too many have died
    comm = broken.shrink();
  }
  if (!comm) return comm;  // kLeftOut: end, others went on; kNoQuorum: end, too few are left
  std::int32_t least = model.steps;
  const weft::Status agreed =
      comm->all_reduce<std::int32_t>(std::span(&least, 1), std::span(&least, 1), weft::ReduceOp::kMin);
  if (!agreed) return recover(*comm, model, before);  // another rank died meanwhile
  if (model.steps > least) model = before;
  return comm;
}

// --kill RANK@STEP[,...]: by the first ranks' numbers. Nothing if this cannot be read.
std::optional<std::multimap<int, weft::Rank>> kills(int argc, char** argv) {
  std::multimap<int, weft::Rank> at;
  if (argc == 1) return at;
  if (argc != 3 || std::string(argv[1]) != "--kill") return {};
  const char* text = argv[2];
  while (true) {
    char* end = nullptr;
    const long rank = std::strtol(text, &end, 10);
    if (end == text || *end != '@') return {};
    text = end + 1;
    const long number = std::strtol(text, &end, 10);
    if (end == text || rank < 0 || number < 0) return {};
    at.emplace(static_cast<int>(number), static_cast<weft::Rank>(rank));
    if (*end == '\0') return at;
    if (*end != ',') return {};
    text = end + 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto deaths = kills(argc, argv);
  if (!deaths) {
    fmt::print(stderr, "recover: usage: recover [--kill RANK@STEP,...]\n");
    return 2;
  }
  auto comm = weft::Communicator::from_environment();
  if (!comm) {
    fmt::print(stderr, "recover: {}\n", comm.error().message);
    return 2;
  }
  const weft::Rank first_rank = comm->rank();

  Model model, before;
  while (model.steps < kSteps) {
    for (auto [at, end] = deaths->equal_range(model.steps); at != end; ++at)
      if (at->second == first_rank) kill(getpid(), SIGKILL);
    const Model now = model;
    const weft::Status done = step(*comm, model);
    if (done) {
      before = now;
      continue;
    }
    if (done.error().code != weft::Code::kPeerDied && done.error().code != weft::Code::kTimeout) {
      fmt::print(stderr, "recover: {}\n", done.error().message);  // a mismatch, say: the program is wrong
      return 1;
    }
    fmt::print(stderr, "recover: rank {} in step {}: {}\n", first_rank, model.steps, done.error().message);
    auto survivors = recover(*comm, model, before);
    if (!survivors) {
      fmt::print(stderr, "recover: rank {} ends: {}\n", first_rank, survivors.error().message);
      return 1;
    }
    comm = std::move(survivors);
  }

  double off = 0;
  for (std::size_t i = 0; i < kFeatures; ++i)
    off = std::max(off, std::abs(model.weights[i] - static_cast<double>(i + 1)));
  const bool right = off < 1e-6;
  if (comm->rank() == 0)
    fmt::print("{} after {} steps, {} ranks left\n", right ? "right" : "WRONG", model.steps, comm->ranks());
  return right && comm->finalize() ? 0 : 1;
}
