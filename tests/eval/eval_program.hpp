#pragma once
// semantic-eval as a program: its arguments and input, what it prints, and how it ends.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>

#include "tests/support/temp_dir.hpp"

namespace semantic {

struct outcome {
    int status = -1;
    std::string out;
    std::string err;
};

inline std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

class semantic_eval : public testing::Test {
  protected:
    std::string path(const std::string& name) const { return dir_.path() + "/" + name; }

    outcome run(const std::string& arguments, const std::string& input = "") {
        write(path("in"), input);
        std::string command = std::string(SEMANTIC_BINARY_DIR) + "/semantic-eval " + arguments;
        command += " <" + path("in") + " >" + path("out") + " 2>" + path("err");
        outcome result;
        result.status = WEXITSTATUS(std::system(command.c_str()));
        result.out = read(path("out"));
        result.err = read(path("err"));
        return result;
    }

    tests::temp_dir dir_;
};

}  // namespace semantic
