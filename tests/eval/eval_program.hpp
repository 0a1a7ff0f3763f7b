// SPDX-License-Identifier: Apache-2.0
#pragma once
// semantic-eval as a program: its arguments and input, what it prints, and how it ends.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/temp_dir.hpp"

namespace semantic {

struct outcome {
    int status = -1;
    std::string out;
    std::string err;
    long memory_kib = 0;  // resident, at most
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
        std::string command =
            "exec " + std::string(SEMANTIC_BINARY_DIR) + "/semantic-eval " + arguments;
        command += " <" + path("in") + " >" + path("out") + " 2>" + path("err");
        outcome result;
        const pid_t child = ::fork();
        if (child == 0) {
            ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            ::_exit(127);
        }
        int status = 0;
        struct rusage used {};
        ::wait4(child, &status, 0, &used);
        result.status = WEXITSTATUS(status);
        result.memory_kib = used.ru_maxrss;
        result.out = read(path("out"));
        result.err = read(path("err"));
        return result;
    }

    tests::temp_dir dir_;
};

}  // namespace semantic
