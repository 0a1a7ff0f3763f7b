// SPDX-License-Identifier: Apache-2.0
// Sources are as clang-format writes them. Each version of it writes a little differently, so that
// only the one that the tree was written with can say.

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/support/temp_dir.hpp"
#include "tests/tidy/source_tree.hpp"

namespace semantic::tidy {
namespace {

constexpr std::string_view version_wanted = "14.";  // Debian 12's

struct result {
    int status;  // as std::system has it; 0: the command succeeded
    std::string printed;
};

/// Runs a command of the shell and keeps what it prints, its errors too.
result run(const std::string& command) {
    FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) return {-1, "cannot run " + command};
    result done{0, {}};
    std::array<char, 4096> part{};
    while (std::fgets(part.data(), part.size(), pipe) != nullptr) done.printed += part.data();
    done.status = ::pclose(pipe);
    return done;
}

/// The version of a clang-format, for example "14.0.6"; empty where there is none of this name.
std::string version_of(const std::string& program) {
    const std::string text = run(program + " --version").printed;
    constexpr std::string_view before = "clang-format version ";
    const auto at = text.find(before);
    if (at == text.npos) return {};
    const auto start = at + before.size();
    return text.substr(start, text.find_first_of(" \n", start) - start);
}

TEST(tidy, sources_are_formatted) {
    std::string program;
    std::string seen;
    for (const char* name : {"clang-format-14", "clang-format"}) {
        const std::string version = version_of(name);
        if (version.starts_with(version_wanted)) program = name;
        if (program.empty() && !version.empty()) seen = version;
    }
    if (program.empty()) {
        GTEST_SKIP() << "skipped: the sources are written by clang-format 14, and here is "
                     << (seen.empty() ? "none" : seen);
    }
    const semantic::tests::temp_dir directory;
    const std::string names = directory.path() + "/sources";
    {
        std::ofstream list(names);
        for (const source& file : read_tree(SEMANTIC_SOURCE_DIR)) {
            if (is_cpp(file) && !file.lines.empty()) list << file.path << '\n';
        }
    }
    const result check = run("cd '" SEMANTIC_SOURCE_DIR "' && " + program +
                             " --dry-run --Werror --files='" + names + "'");
    EXPECT_EQ(check.status, 0) << check.printed << "clang-format -i writes them as they should be";
}

}  // namespace
}  // namespace semantic::tidy
