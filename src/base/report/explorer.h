#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "weft/types.h"

namespace weft::report {

// What the explorer's page shows for one question: a machine, a schedule in simulated time, and curves. Sentences are
// made here and not in the page, so that page and command say the same.
struct Explorer {
  // The question as it is typed, with the words of `weft explore`. Sizes as in "64M".
  struct Words {
    std::string collective = "all_reduce", on = "dgx-h100", bytes = "1M", type = "float";
    std::string algorithm, protocol;  // empty: weft's choice; an algorithm may be a schedule's file
    std::int64_t ranks = -1;          // -1: every GPU of the machine
    std::int64_t root = 0;
    std::int64_t chunk = -1;          // which one the stepper follows, where it cannot show all; -1: the first
    std::vector<std::string> faults;  // as `weft bench --fault` takes them
    bool curves = true;               // false: without the candidates' curves, which take longest
  };
  struct Device {
    std::string name, kind, model;
    std::string said;  // a sentence for its slip
  };
  // The source of a figure.
  struct Origin {
    std::string of;           // "rate", "latency"
    std::string title, date;  // of the document; no title: of the machine's file
  };
  struct Link {
    std::string a, b, kind;
    int count = 1;                    // links or lanes that the rates include
    double ab_GBps = 0, ba_GBps = 0;  // each direction
    double latency_ns = 0;
    // Without the faults, where that differs. A link that is gone has rates of 0.
    struct Rates {
      double ab_GBps = 0, ba_GBps = 0, latency_ns = 0;
    };
    std::optional<Rates> healthy = {};
    std::string said = {};             // a sentence for its slip
    std::vector<Origin> origins = {};  // of the rate and of the latency
  };
  // Between two devices of the first node.
  struct Path {
    std::string from, to, type, bottleneck;  // no type: there is no path
    double GBps = 0, latency_ns = 0;
    int hops = 0;
    std::optional<double> healthy_GBps = {};  // where that differs
    std::string said = {};
    std::vector<std::string> via = {};  // between two GPUs: the devices that it passes, both ends included
  };
  // Consecutive ranks.
  struct Ranks {
    Rank first = 0, count = 0;
  };
  // A move of one rank. Times of moves in simulated time; in units of steps where `timed` is false.
  struct Move {
    Rank rank = 0;
    int lane = 0, step = 0;
    std::string text;  // "move chunk 3: message from 1 + in[3] -> out[3], message to 2"
    std::int64_t chunk = 0;
    std::vector<Rank> to;     // ranks that receive the value besides this one
    bool keeps = false;       // this rank's own memory holds the value afterwards
    std::vector<Rank> holds;  // whose contributions the value has; empty where one chunk is followed, …
    std::vector<Ranks> held;  // … which has the same as runs of ranks
    std::string said;         // "Rank 1 sends chunk 3 to rank 2; it holds the contributions of 2 of 8 ranks."
    double begin_us = 0, end_us = 0;
  };
  struct Curve {
    std::string algorithm, protocol;
    int channels = 0;
    bool chosen = false;  // at the question's size
    std::string reason;
    std::vector<std::pair<Bytes, double>> busbw_GBps;  // predicted by the cost model
  };

  Words words;
  std::string question, answer, command;
  // The question as a sentence whose words can be changed: texts, and the names of words between them.
  struct Piece {
    std::string text, word;  // one of the two is empty
  };
  std::vector<Piece> phrase;
  double time_us = 0, busbw_GBps = 0;
  double least_us = 0;             // that the machine allows, whatever the algorithm
  double low_us = 0, high_us = 0;  // between which the time lies, where it is extrapolated; else both are the time
  // Where there are faults: the time without them, and how many times that the time with them is.
  std::optional<double> healthy_us = {}, slowdown = {};
  std::string machine, machine_svg;
  std::string machine_said;  // the picture in a sentence
  // A cluster as a map of equal things, from nodes up; none for one node.
  struct MapLevel {
    std::string word;  // "node", "rail group", "pod"
    std::int64_t count = 0;
    std::vector<std::int32_t> sizes;  // children of each, or of all
  };
  struct Map {
    std::vector<MapLevel> levels;
    std::vector<std::int32_t> odd;  // nodes that are not as most are: a fault, a slow link
    std::string node_svg, said;
  };
  std::optional<Map> map = {};
  // What one GPU has at every step on its way out, from its memory to the network.
  struct Step {
    std::string name, detail;
    double GBps = 0;
    std::string of_GiB;  // "1 GiB in 2.39 ms"
  };
  std::vector<Step> steps;
  std::vector<Device> devices;
  std::vector<Link> links;  // of the first node and its way to the network
  std::string left_out;     // a sentence, where the machine has more than is listed
  std::vector<Path> paths;

  std::string collective, algorithm, protocol, when, source, verdict;
  Rank ranks = 0;
  std::int64_t chunks = 0;
  Bytes bytes = 0;
  bool timed = false;
  bool played = true;  // false: too many ranks or moves for the stepper, as the verdict says; there are no moves
  bool proved = false;
  // The counterexample of a schedule that is not proved.
  struct Wrong {
    Rank rank = 0;
    int lane = 0;
    std::optional<int> step;            // none: at the end of the rank's steps
    std::optional<std::int64_t> chunk;  // none: it concerns no chunk
    std::optional<Rank> peer;           // whose contribution, message or signal it concerns
    std::string text;
  };
  std::optional<Wrong> wrong;
  double total_us = 0;
  // The device of every rank, where all sit in the node that is listed; else empty.
  std::vector<std::string> places = {};
  // Where there are too many ranks or moves to show all chunks, one is followed: `moves` are those of this chunk.
  std::optional<std::int64_t> follows = {};
  // Chunks that each rank's own input holds, as runs, where all chunks are shown.
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> inputs;
  std::vector<Ranks> starts, ends;      // ranks whose input, and whose output, holds that chunk
  std::string begins_said, ended_said;  // the first and the last frame in a sentence
  std::vector<Move> moves;              // in order of their beginning

  // A published measurement of this collective on this machine.
  struct Measured {
    std::string name, about;  // about: machine, versions, source
    std::vector<std::pair<Bytes, double>> busbw_GBps;
  };
  bool has_curves = true;  // false: the question left them out
  std::vector<Curve> curves;
  std::vector<Measured> measured;
  double limit_GBps = 0;  // bus bandwidth that the machine allows at the question's size
  std::string limit;
};

// The part "curves" of weft.explorer/1; null where the question left it out.
nlohmann::json curves_to_json(const Explorer& explorer);

// weft.explorer/1
nlohmann::json to_json(const Explorer& explorer);

}  // namespace weft::report
