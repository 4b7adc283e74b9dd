#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"

// The command refuses bad input with one line that names the problem, and exit code 2.
namespace weft {
namespace {

struct BadInput {
  const char* arguments;
  const char* names;  // what the one line must contain
};

void PrintTo(const BadInput& input, std::ostream* out) { *out << "weft " << input.arguments; }

// A test's name: the arguments, without what a name must not hold.
std::string name_of(const testing::TestParamInfo<BadInput>& info) {
  std::string name = std::to_string(info.index) + "_";
  for (const char* c = info.param.arguments; *c != 0; ++c)
    name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
}

class Refused : public testing::TestWithParam<BadInput> {};

TEST_P(Refused, WithOneLineThatNamesTheProblemAndExitCodeTwo) {
  const Answer a = weft(GetParam().arguments);
  EXPECT_EQ(a.code, 2) << a.out << a.err;
  EXPECT_EQ(std::count(a.err.begin(), a.err.end(), '\n'), 1) << a.err;
  EXPECT_NE(a.err.find(GetParam().names), std::string::npos) << a.err;
  EXPECT_EQ(a.out, "");
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, Refused,
    testing::Values(
        BadInput{"nonsense", "nonsense"}, BadInput{"bench transfer --op xor", "--op xor"},
        BadInput{"bench transfer --blocks 5", "--block"}, BadInput{"bench transfer --verify", "--verify needs --block"},
        BadInput{"bench transfer --on dgx-h100 --block 4K", "contiguous"},
        BadInput{"bench transfer --block 0 --blocks 10", "--block 0: a block"},
        BadInput{"bench transfer --op sum", "--op sum"},
        BadInput{"bench transfer --stack mooncake", "--stack mooncake"},
        BadInput{"bench transfer --on dgx-h100 --from nvme-gen5*0", "tier 'nvme-gen5*0': count 0"},
        BadInput{"kv replay /nonexistent --blocks 99999999999999999999", "--blocks 99999999999999999999 is outside"},
        BadInput{"bench transfer --on dgx-h100 --from tape", "tier 'tape'"},
        BadInput{"bench transfer --from dram", "--from dram"},
        BadInput{"bench transfer --on dgx-h100 --from node", "needs two nodes"},
        BadInput{"bench transfer --on dgx-h100 --from dram --stack mooncake", "--stack mooncake"},
        BadInput{"bench transfer --file /nonexistent/file --block 4K --blocks 1", "--file /nonexistent/file"},
        BadInput{"bench transfer --file /tmp/x --block 5000 --blocks 1", "multiples of 4K"},
        BadInput{"kv fetch /nonexistent.json", "--on names"},
        BadInput{"kv fetch /nonexistent.json --on dgx-h100", "/nonexistent.json"},
        BadInput{"bench all_reduce --blocks 3", "--blocks"},
        BadInput{"kv replay /nonexistent --blocks 0", "--blocks 0"}, BadInput{"kv", "needs one of size, replay, fetch"},
        BadInput{"bench", "collective"}, BadInput{"bench all_reduse", "'all_reduse'"},
        BadInput{"bench all_reduce --ranks 0", "--ranks 0"},
        BadInput{"bench all_reduce --ranks 0 --on dgx-h100", "--ranks 0"}, BadInput{"bench all_reduce --ranks x", "x"},
        BadInput{"bench all_reduce --on dgx-h100 --ranks 9", "8 GPUs"}, BadInput{"bench all_reduce --min 1Q", "'1Q'"},
        BadInput{"bench all_reduce --max 9999999T", "9999999T"}, BadInput{"bench all_reduce --min 2K --max 1K", "2K"},
        BadInput{"bench all_reduce --factor 1", "--factor 1"},
        BadInput{"bench all_reduce --dtype quarter", "'quarter'"}, BadInput{"bench all_reduce --op median", "'median'"},
        BadInput{"bench all_reduce --op xor", "integers"},
        BadInput{"bench broadcast --algo tree --on dgx-h100", "'tree'"},
        BadInput{"bench broadcast --algo tree", "'tree'"}, BadInput{"bench all_reduce --proto LL256", "'LL256'"},
        BadInput{"bench all_reduce --algo two_shot --proto LL64", "two_shot"},
        BadInput{"bench all_reduce --on dgx-h101", "'dgx-h101'"},
        BadInput{"bench all_reduce --on dgx-h100 --max 9223372036854775808", "9223372036854775808"},
        BadInput{"bench all_reduce --on dgx-h100 --max-events 0", "--max-events"},
        BadInput{"bench all_reduce --on dgx-h100 --timeline t.json", "--timeline"},
        BadInput{"bench all_reduce --timeline t.json", "--on"}, BadInput{"bench all_reduce --fault nic:3=down", "--on"},
        BadInput{"bench all_reduce --load uniform=30%", "--on"}, BadInput{"bench all_reduce --compute 5ms", "--on"},
        BadInput{"bench all_reduce --on dgx-h100 --compute 5m", "5m"},
        BadInput{"bench all_reduce --on dgx-h100 --compute 5ms,by=copy-engine", "copy engines"},
        BadInput{"bench all_reduce --on gb200-nvl72 --compute 5ms", "GB200"},
        BadInput{"bench all_reduce --on dgx-h100 --level packet:weights=3//1", "weights"},
        BadInput{"bench all_reduce --on dgx-h100:nodes=2 --load uniform=30%,class=1", "class 1"},
        BadInput{"bench all_reduce --on dgx-h100 --load gpu0-gpu9=30%", "gpu0-gpu9=30%"},
        BadInput{"bench all_reduce --on dgx-h100 --load uniform=130%", "uniform=130%"},
        BadInput{"bench all_reduce --on dgx-h100 --check --load uniform=30%", "--check"},
        BadInput{"bench all_reduce --on dgx-h100 --fault nic:99=down", "nic:99=down"},
        BadInput{"bench all_reduce --on dgx-h100 --fault link:gpu0-gpu1=down", "link:gpu0-gpu1=down"},
        BadInput{"bench all_reduce --on dgx-h100 --fault nvswitch:0=down --fault gpu:0=sick", "gpu:0=sick"},
        BadInput{"bench all_reduce --on dgx-h100:nodes=2,wires=switch --fault switch:0=down", "cannot reach"},
        BadInput{"bench broadcast --on dgx-h100 --root 7 --fault gpu:3=down", "--root 7"},
        BadInput{"bench all_reduce --on dgx-h100:nodes=0", "nodes"},
        BadInput{"bench all_reduce --on dgx-h100:net=token-ring", "token-ring"},
        BadInput{"bench all_reduce --on /no/such/file.xml", "/no/such/file.xml"},
        BadInput{"bench all_reduce --transport pigeon", "'pigeon'"},
        BadInput{"explain all_reduce --bytes many", "'many'"},
        BadInput{"explain all_reduce --table -", "--table needs --on"},
        BadInput{"explain all_reduce --on dgx-h100 --min 4M --max 1M", "--min 4M is more than --max 1M"},
        BadInput{"explain all_reduce --on dgx-h100 --bytes 1M --max 4M", "--bytes 1M is one size"},
        BadInput{"explain all_reduce --on dgx-h100 --factor 4", "--factor"},
        BadInput{"bench all_reduce --on dgx-h100 --bytes 1Mb", "--bytes: size '1Mb': b is a bit"},
        BadInput{"bench all_reduce --on pcie-4x3090:mig=2", "RTX-3090 has no MIG"},
        BadInput{"explain access --on dgx-h100 --reuse 0", "--reuse 0"}, BadInput{"explain devices", "--gpus"},
        BadInput{"explain access --on dgx-h100 --fraction 1.5", "--fraction 1.5"},
        BadInput{"explain access --on dgx-h100 --peer 8", "--peer 8"},
        BadInput{"explain all_to_all --on dgx-h100 --table -", "does not choose for all_to_all"},
        BadInput{"explain all_reduce --on mi300x --table -", "NVIDIA GPUs"},
        BadInput{"bench all_reduce --on dgx-h100 --tuner best", "unknown tuner 'best'"},
        BadInput{"trace /no/such/trace.json", "/no/such/trace.json"},
        BadInput{"replay recorded --on dgx-h100 --fault nvswitch:0=down", "--fault nvswitch:0=down: is for traces"},
        BadInput{"bench all_reduce --tuner nccl", "--on"}, BadInput{"verify all_reduce --algo ring --ranks -3", "-3"},
        BadInput{"verify all_reduce --algo rings", "'rings'"},
        BadInput{"verify broadcast --algo ring --ranks 4 --root 4", "--root 4"}, BadInput{"verify", "which schedule"},
        BadInput{"verify all_reduce", "--algo is missing"}, BadInput{"verify --all --ranks 17..1", "17..1"},
        BadInput{"verify --all all_reduce", "--all"}, BadInput{"verify all_reduce --algo ring --ranks 1..4", "1..4"},
        BadInput{"verify no_such_file.xml", "no_such_file.xml"},
        BadInput{"schedule all_reduce --algo two_shot --ranks 2 --xml -", "messages and local copies only"},
        BadInput{"schedule all_reduce --algo ring --ranks 4 --rank 4", "--rank 4"},
        BadInput{"topo --on nowhere", "'nowhere'"}, BadInput{"topo --on tpu-v4:shape=3x3x3", "27"},
        BadInput{"topo --on dgx-h100 --path gpu0 gpu9", "gpu9"}, BadInput{"topo --on aurora --xml -", "chip links"},
        BadInput{"topo --on dgx-h100 --slurm -", "no network switches"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 5", "--nodes 5"},
        BadInput{"place --on dgx-h100:nodes=4 --given node[0,9]", "'node9'"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --switches 2@abc", "'abc' is no time of Slurm's"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --segment 0", "--segment 0: at least 1"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --train llama3-8b --bytes 1M", "--bytes has no meaning"},
        BadInput{"place --on dgx-h100:nodes=4 --nodes 2 --train llama9:tp=8", "model llama9: none of"},
        BadInput{"place --on dgx-h100:nodes=4 --given node[0,1] --seed 2", "no meaning beside --given"},
        BadInput{"advise llama-3.1-8b --rate 5 --ttft 0", "--ttft: 0: a number above 0"},
        BadInput{"advise llama-3.1-8b --rate 0", "--rate: 0: a number above 0"},
        BadInput{"catalog warp-drive", "'warp-drive'"},
        BadInput{"topo --on dgx-h100 --svg /no/such/folder/x.svg", "/no/such/folder/x.svg"},
        BadInput{"bench put --transport bogus", "'bogus'"}, BadInput{"run -n 0 -- true", "-n 0"},
        BadInput{"run -n 2 /tmp", "/tmp: Is a directory"}, BadInput{"run true", "--hosts"},
        BadInput{"run -n 2", "program"}, BadInput{"run -n 2 --hots a true", "--hots"},
        BadInput{"run --hosts a,,b true", "''"}, BadInput{"run --hosts a:0 true", "ranks of a"},
        BadInput{"run --hosts a --hostfile b true", "--hostfile"},
        BadInput{"run --hosts a:1 -n 2 true", "places for 1"},
        BadInput{"run --hostfile /nonexistent true", "/nonexistent"},
        BadInput{"run --hosts a,b --transport shm true", "--transport shm"},
        BadInput{"run --hosts a --env NO_SUCH_NAME true", "NO_SUCH_NAME"},
        BadInput{"run --hosts a --on-failure stop true", "'stop'"}, BadInput{"completion tcsh", "'tcsh'"}),
    name_of);

TEST(CommandLine, EscapesOfItsArgumentsDoNotReachTheTerminal) {
  for (const char* arguments :
       {"'bn\x1b[31mech'", "bench 'all\x1b[31m'", "run -n 1 './no\x1b[31mne'", "bench all_reduce '--x\x1b[31m'"}) {
    const Answer a = weft(arguments);
    EXPECT_NE(a.code, 0) << arguments;
    EXPECT_EQ(a.err.find('\x1b'), std::string::npos) << arguments;
    EXPECT_NE(a.err.find("\\x1b"), std::string::npos) << a.err;
  }
}

}  // namespace
}  // namespace weft
