#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace weft {

// What the command answered.
struct Answer {
  int code = -1;
  std::string out, err;
};

// Runs the command with arguments as a shell reads them. `environment`: "NAME=VALUE …" before it.
inline Answer weft(const std::string& arguments, const std::string& environment = "WEFT_HEAP=64M") {
  const std::string errors = testing::TempDir() + "/weft-err-" + std::to_string(getpid());
  const std::string line = environment + " " + WEFT_COMMAND + " " + arguments + " 2>" + errors + " </dev/null";
  Answer a;
  FILE* pipe = popen(line.c_str(), "r");
  char buffer[4096];
  for (std::size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) a.out.append(buffer, n);
  const int status = pclose(pipe);
  a.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream in(errors);
  a.err.assign(std::istreambuf_iterator<char>(in), {});
  std::filesystem::remove(errors);
  return a;
}

}  // namespace weft
