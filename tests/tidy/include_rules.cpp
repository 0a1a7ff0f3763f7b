// SPDX-License-Identifier: Apache-2.0
// The rules about includes: what may see what, and what nobody sees.

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string_view>
#include <utility>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

/// Which part of the tree each folder of the product may include from; a lower rank never sees a
/// higher one.
const std::map<std::string, int, std::less<>> module_rank{
    {"storage", 0}, {"engine", 1}, {"protocol", 2}, {"server", 3}, {"perf", 4}};

std::string_view first_folder(std::string_view path) { return path.substr(0, path.find('/')); }

std::string_view folder_of(std::string_view path) {
    const auto slash = path.rfind('/');
    return slash == path.npos ? std::string_view() : path.substr(0, slash);
}

bool is_product(const source& file) { return module_rank.contains(first_folder(file.path)); }

struct door {
    const char* library;
    const char* include;             // regular expression of the included path
    std::vector<const char*> where;  // regular expressions of the paths that may include it
};

// The four modules only: tests and benchmarks open every door. A program's own folder may
// read its flags.
const std::vector<door> doors_table{
    {"Boost.Beast", "boost/beast.*", {"server/beast_implementation.cpp", "server/http/.*"}},
    {"Boost.Program_options", "boost/program_options.*", {"server/config/.*", "server/eval/.*"}},
    {"Boost.Log", "boost/log.*", {"server/runtime/logging.cpp"}},
    {"Asio",
     "boost/asio.*",
     {"server/.*", "storage/agents/agent_strands.*", "storage/agents/asio_implementation.cpp",
      "storage/files/worker_pool.*"}},
    {"Boost.JSON",
     "boost/json.*",
     {"protocol/.*", "server/eval/.*", "server/handlers/.*", "storage/files/.*", "engine/text/.*",
      "engine/grammar/.*", "engine/types/exact_json.*", "engine/model/config/.*",
      "engine/model/packed/.*", "engine/prompt/.*", "engine/recipe/.*"}},
    {"oneTBB",
     "(oneapi/)?tbb/.*",
     {"engine/scheduler/.*", "engine/kernels/task_runner.cpp", "engine/model/.*\\.cpp"}},
    {"BLAS", "cblas.*|openblas.*", {"engine/kernels/gemm.cpp"}},
    {"SIMD intrinsics",
     "(imm|x86|emm|arm_)[a-z]*(trin|neon)\\.h",
     {"engine/kernels/kernels_[^/]*\\.cpp"}},
    {"PCRE2",
     "pcre2.*",
     {"engine/text/tokenizer/regex.cpp", "protocol/scenarios/choice_pattern.cpp"}},
    {"ICU", "unicode/.*", {"engine/text/tokenizer/.*"}},
    {"yaml-cpp",
     "yaml-cpp/.*",
     {"protocol/scenarios/scenario.cpp", "server/models/models_file.cpp"}},
    {"libcurl", "curl/.*", {"storage/objects/http_client.cpp"}},
    {"libcrypto",
     "openssl/.*",
     {"storage/objects/s3_signature.cpp", "storage/objects/encryption/object_cipher.cpp",
      "storage/objects/hub/content_digest.cpp"}},
    {"hiredis", "hiredis/.*", {"storage/objects/redis/redis_link.cpp"}},
    {"pugixml", "pugixml.*", {"storage/objects/s3_xml.cpp"}},
    {"file system calls",
     "(fcntl|dirent|sys/(stat|statvfs|file|mman))\\.h",
     {"storage/files/file.cpp", "storage/files/file_identity.cpp", "storage/files/mapped_file.cpp",
      "storage/files/mapping_advice.cpp", "storage/pool/block_pool.cpp",
      // Maps anonymous memory only: packed weights want huge pages.
      "engine/model/weights/weights.cpp"}},
};

/// The lines of `file` that include something which `include` matches.
std::vector<std::size_t> lines_including(const source& file, const std::regex& include) {
    std::vector<std::size_t> lines;
    for (std::size_t i = 0; i < file.code.size(); ++i) {
        const std::string path(included_path(file.code[i]));
        if (!path.empty() && std::regex_match(path, include)) lines.push_back(i + 1);
    }
    return lines;
}

}  // namespace

findings layers(const tree& files) {
    findings found;
    for (const source& file : files) {
        if (!is_cpp(file) || !is_product(file)) continue;
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
        const auto is_open = [&](const source& file) {
            return std::any_of(d.where.begin(), d.where.end(), [&](const char* where) {
                return std::regex_match(file.path, std::regex(where));
            });
        };
        for (const source& file : files) {
            if (!is_cpp(file) || !is_product(file) || first_folder(file.path) == "perf") continue;
            const auto lines = lines_including(file, include);
            if (lines.empty() || is_open(file)) continue;
            for (const std::size_t line : lines) {
                found.push_back({file.path, line, std::string(d.library) + " has no door here"});
            }
        }
    }
    return found;
}

findings unused_doors(const tree& files) {
    findings found;
    for (const door& d : doors_table) {
        const std::regex include(d.include);
        for (const char* place : d.where) {
            const std::regex where(place);
            const bool used = std::any_of(files.begin(), files.end(), [&](const source& file) {
                return std::regex_match(file.path, where) &&
                       !lines_including(file, include).empty();
            });
            if (used) continue;
            found.push_back({place, 0, std::string(d.library) + " is not included behind it"});
        }
    }
    return found;
}

findings mutual_folders(const tree& files) {
    std::map<std::pair<std::string, std::string>, finding> first;  // one include of each direction
    for (const source& file : files) {
        if (!is_cpp(file) || !is_product(file)) continue;
        const std::string from(folder_of(file.path));
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            const std::string_view path = included_path(file.code[i]);
            const std::string to(folder_of(path));
            if (from == to || !module_rank.contains(first_folder(path))) continue;
            first.try_emplace({from, to}, finding{file.path, i + 1, std::string(path)});
        }
    }
    findings found;
    for (const auto& [folders, one] : first) {
        const auto other = first.find({folders.second, folders.first});
        if (folders.first > folders.second || other == first.end()) continue;
        found.push_back({one.file, one.line,
                         folders.first + " and " + folders.second + " include each other: see " +
                             other->second.file + ":" + std::to_string(other->second.line)});
    }
    return found;
}

findings own_header_first(const tree& files) {
    std::set<std::string, std::less<>> headers;
    for (const source& file : files) {
        if (is_header(file)) headers.insert(file.path);
    }
    findings found;
    for (const source& file : files) {
        if (!is_product(file) || !file.path.ends_with(".cpp")) continue;
        const std::string own = file.path.substr(0, file.path.size() - 3) + "hpp";
        if (!headers.contains(own)) continue;
        const auto first =
            std::find_if(file.code.begin(), file.code.end(),
                         [](const std::string& line) { return line.starts_with("#include"); });
        if (first != file.code.end() && included_path(*first) == own) continue;
        found.push_back(
            {file.path, std::size_t(first - file.code.begin()) + 1,
             own + " must be included first: nothing else shows that it compiles alone"});
    }
    return found;
}

findings folder_sizes(const tree& files) {
    std::map<std::string, std::size_t> count;
    for (const source& file : files) {
        if (is_product(file)) ++count[std::string(folder_of(file.path))];
    }
    findings found;
    for (const auto& [folder, size] : count) {
        if (size <= folder_files_max) continue;
        found.push_back({folder, 0,
                         std::to_string(size) + " files, at most " +
                             std::to_string(folder_files_max) + " are allowed"});
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
        if (is_header(file) || file.path.ends_with(".inl")) {
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
