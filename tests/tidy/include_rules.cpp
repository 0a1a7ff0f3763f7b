// The rules about includes: what may see what, and what nobody sees.

#include <array>
#include <map>
#include <regex>
#include <set>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

/// Which part of the tree each module may include from; a lower rank never sees a higher one.
const std::map<std::string, int, std::less<>> module_rank{
    {"storage", 0}, {"engine", 1}, {"protocol", 2}, {"server", 3}};

std::string_view first_folder(std::string_view path) { return path.substr(0, path.find('/')); }

bool is_in_module(const source& file) { return module_rank.contains(first_folder(file.path)); }

struct door {
    const char* library;
    const char* include;  // regular expression of the included path
    const char* where;    // regular expression of the paths that may include it
};

// The four modules only: tests and benchmarks look behind every door. A program's own folder may
// read its flags.
constexpr std::array doors_table{
    door{"Boost.Beast", "boost/beast.*", "server/.*"},
    door{"Boost.Program_options", "boost/program_options.*", "server/.*"},
    door{"Boost.Log", "boost/log.*", "server/.*"},
    door{"Asio", "boost/asio.*", "server/.*|storage/agents/(agent_strands|asio_implementation).*"},
    door{"Boost.JSON", "boost/json.*",
         "protocol/.*|server/.*|storage/files/.*|engine/(text|grammar|model|prompt)/.*"},
    door{"oneTBB", "(oneapi/)?tbb/.*",
         R"(engine/(scheduler/.*|kernels/task_runner\.cpp|model/.*\.cpp|engine[^/]*\.cpp))"},
    door{"BLAS", "cblas.*|openblas.*", R"(engine/kernels/gemm\.cpp)"},
    door{"SIMD intrinsics", "(imm|x86|emm|arm_)[a-z]*(trin|neon)\\.h",
         R"(engine/kernels/kernels_[^/]*\.cpp)"},
    door{"YAML", "yaml-cpp/.*", R"(protocol/coordination/scenario\.cpp)"},
    door{"file system calls", R"((fcntl|dirent|sys/(stat|file|mman))\.h)",
         // weights.cpp maps anonymous memory only: packed weights want huge pages.
         R"(storage/(files/(file|safetensors)|pool/block_pool)\.cpp|)"
         R"(engine/model/weights/weights\.cpp)"},
};

}  // namespace

findings layers(const tree& files) {
    findings found;
    for (const source& file : files) {
        if (!is_cpp(file) || !is_in_module(file)) continue;
        const auto from = module_rank.find(first_folder(file.path));
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            const std::string path(included_path(file.code[i]));
            const auto to = module_rank.find(first_folder(path));
            if (to == module_rank.end()) continue;
            if (to->second > from->second) {
                found.push_back(
                    {file.path, i + 1, from->first + " must not know what is above it: " + path});
            } else if (from->first == "protocol" && to != from &&
                       path.find("/types/") == std::string::npos) {
                found.push_back({file.path, i + 1,
                                 "protocol may see only */types/ of the modules below: " + path});
            }
        }
    }
    return found;
}

findings doors(const tree& files) {
    findings found;
    for (const door& d : doors_table) {
        const std::regex include(d.include);
        const std::regex where(d.where);
        for (const source& file : files) {
            if (!is_cpp(file) || !is_in_module(file) || std::regex_match(file.path, where))
                continue;
            for (std::size_t i = 0; i < file.code.size(); ++i) {
                const std::string path(included_path(file.code[i]));
                if (path.empty() || !std::regex_match(path, include)) continue;
                found.push_back({file.path, i + 1,
                                 std::string(d.library) + " may be included only in " + d.where +
                                     ", not here: " + path});
            }
        }
    }
    return found;
}

findings unreachable(const tree& files) {
    std::set<std::string, std::less<>> included;
    std::string build_files;
    for (const source& file : files) {
        for (const std::string& line : file.code) included.emplace(included_path(line));
        if (!file.path.ends_with("CMakeLists.txt")) continue;
        for (const std::string& line : file.lines) build_files += line + "\n";
    }
    // What the CMake files collect by pattern: the modules, and each folder that is a test program.
    static const std::regex collected(
        "(server|engine|storage|protocol|perf/bench|tests/support)/.*");
    const auto is_collected = [&](const std::string& path) {
        std::smatch program;
        return std::regex_match(path, collected) ||
               (std::regex_match(path, program, std::regex("tests/(\\w+)/.*")) &&
                build_files.find("\nsemantic_tests(" + program[1].str()) != std::string::npos);
    };
    findings found;
    for (const source& file : files) {
        if (!is_cpp(file)) continue;
        if (is_header(file)) {
            if (!included.contains(file.path)) {
                found.push_back({file.path, 0, "a header that nothing includes by its full path"});
            }
            continue;
        }
        const std::string name = file.path.substr(file.path.rfind('/') + 1);
        if (!is_collected(file.path) && build_files.find(name) == std::string::npos) {
            found.push_back({file.path, 0, "a source that no CMakeLists.txt names or collects"});
        }
    }
    return found;
}

}  // namespace semantic::tidy
