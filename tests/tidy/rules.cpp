#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <string_view>

namespace semantic::tidy {
namespace {

/// Which part of the tree each module may include from; a lower rank never sees a higher one.
const std::map<std::string, int, std::less<>> module_rank{
    {"storage", 0}, {"engine", 1}, {"protocol", 2}, {"server", 3}};

std::string_view first_folder(std::string_view path) { return path.substr(0, path.find('/')); }

bool is_in_module(const source& file) { return module_rank.contains(first_folder(file.path)); }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Position of `word` in `line` as a whole word, or npos.
std::size_t find_word(std::string_view line, std::string_view word) {
    for (auto at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
        const auto end = at + word.size();
        const bool starts = at == 0 || !is_word(line[at - 1]);
        if (starts && (end == line.size() || !is_word(line[end]))) return at;
    }
    return std::string_view::npos;
}

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

std::size_t column_count(std::string_view line) {
    // Counts characters, not bytes: UTF-8 continuation bytes take no column.
    return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

/// What `name` may stand for, seen from a README in `folder`: a file, a folder, or a header and
/// source pair.
bool names_something(const std::set<std::string, std::less<>>& known, const std::string& folder,
                     std::string name) {
    if (name.starts_with("./")) name.erase(0, 2);
    if (name.ends_with('/')) name.pop_back();
    for (const std::string& from : {std::string(), folder}) {
        for (const char* ending : {"", ".hpp", ".cpp", ".md", ".sh"}) {
            if (known.contains(from + name + ending)) return true;
        }
    }
    return false;
}

std::set<std::string, std::less<>> known_paths(const tree& files) {
    std::set<std::string, std::less<>> known;
    for (const source& file : files) {
        known.insert(file.path);
        for (auto slash = file.path.find('/'); slash != std::string::npos;
             slash = file.path.find('/', slash + 1)) {
            known.insert(file.path.substr(0, slash));
        }
    }
    return known;
}

/// Whether text in backticks is meant as a file of ours, not as a route, type, program or pattern.
bool looks_like_path(const std::string& text, const std::set<std::string, std::less<>>& known) {
    static const std::regex path(R"(\.?/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*/?)");
    static const std::regex file(R"([A-Za-z0-9_-]+\.(hpp|cpp|md|sh|mjs|py))");
    // NAME stands for any name.
    if (!std::regex_match(text, path) || text.starts_with('/') || text.find("NAME") != text.npos) {
        return false;
    }
    if (std::regex_match(text, file)) return true;
    const auto slash = text.find('/');
    return slash != std::string::npos && known.contains(text.substr(0, slash));
}

/// A README's second line: prose, not a heading, table, list or picture.
bool is_sentence_start(const std::string& line) {
    return line.size() >= 20 && std::string_view("#|-!`>").find(line[0]) == std::string_view::npos;
}

bool is_allowed(const std::vector<exception>& allowed, std::string_view file,
                std::string_view subject) {
    return std::any_of(allowed.begin(), allowed.end(),
                       [&](const exception& e) { return e.file == file && e.subject == subject; });
}

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

findings columns(const tree& files) {
    findings found;
    for (const source& file : files) {
        if (!is_program(file)) continue;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const auto count = column_count(file.lines[i]);
            if (count <= columns_max) continue;
            found.push_back({file.path, i + 1,
                             std::to_string(count) + " columns, at most " +
                                 std::to_string(columns_max) + " are allowed"});
        }
    }
    return found;
}

findings file_lengths(const tree& files, const std::vector<exception>& allowed) {
    findings found;
    for (const source& file : files) {
        if (!is_program(file) || file.lines.size() <= file_lines_max) continue;
        if (is_allowed(allowed, file.path, "")) continue;
        found.push_back({file.path, 0,
                         std::to_string(file.lines.size()) + " lines, at most " +
                             std::to_string(file_lines_max) + " are allowed"});
    }
    return found;
}

findings headers_guarded(const tree& files) {
    findings found;
    for (const source& file : files) {
        if (!is_header(file)) continue;
        const bool guarded = std::any_of(file.code.begin(), file.code.end(), [](const auto& line) {
            return line.starts_with("#pragma once");
        });
        if (!guarded) found.push_back({file.path, 1, "a header needs #pragma once"});
    }
    return found;
}

findings headers_clean(const tree& files) {
    static const std::regex using_namespace(R"(\busing\s+namespace\b)");
    findings found;
    for (const source& file : files) {
        if (!is_header(file)) continue;
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            if (!std::regex_search(file.code[i], using_namespace)) continue;
            found.push_back({file.path, i + 1,
                             "a using directive in a header reaches everyone who includes it"});
        }
    }
    return found;
}

findings leftovers(const tree& files) {
    // In pieces, so that this file does not break its own rule.
    static const std::array<std::string, 3> notes{
        "FIX"
        "ME",
        "TO"
        "DO",
        "XX"
        "X"};
    findings found;
    for (const source& file : files) {
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            for (const std::string& note : notes) {
                if (find_word(file.lines[i], note) == std::string_view::npos) continue;
                found.push_back({file.path, i + 1, "a leftover " + note + ": do it or drop it"});
            }
        }
    }
    return found;
}

findings detached_work(const tree& files) {
    findings found;
    for (const source& file : files) {
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            const std::string& line = file.code[i];
            if (find_word(line, "detached") == std::string_view::npos &&
                line.find(".detach()") == std::string::npos) {
                continue;
            }
            found.push_back(
                {file.path, i + 1, "detached work has nobody who waits for it: use a task group"});
        }
    }
    return found;
}

findings module_readmes(const tree& files) {
    const auto known = known_paths(files);
    findings found;
    for (const char* folder : {"server", "engine", "storage", "protocol", "tests", "perf"}) {
        const std::string path = std::string(folder) + "/README.md";
        const auto readme = std::find_if(files.begin(), files.end(),
                                         [&](const source& file) { return file.path == path; });
        if (!known.contains(folder)) continue;
        if (readme == files.end()) {
            found.push_back({path, 0, "missing: each folder says what it is"});
            continue;
        }
        std::vector<std::string> lines;
        std::copy_if(readme->lines.begin(), readme->lines.end(), std::back_inserter(lines),
                     [](const std::string& line) { return !line.empty(); });
        if (lines.size() < 2 || !lines[0].starts_with("# ") || !is_sentence_start(lines[1])) {
            found.push_back({path, 1, "begins with a title and one sentence that says what it is"});
        }
    }
    return found;
}

findings readme_paths(const tree& files) {
    static const std::regex quoted("`([^`]+)`");
    const auto known = known_paths(files);
    findings found;
    for (const source& file : files) {
        if (!file.path.ends_with(".md")) continue;
        const auto slash = file.path.rfind('/');
        const std::string folder = slash == std::string::npos ? "" : file.path.substr(0, slash + 1);
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            for (std::sregex_iterator it(line.begin(), line.end(), quoted), end; it != end; ++it) {
                const std::string name = (*it)[1];
                if (!looks_like_path(name, known) || names_something(known, folder, name)) continue;
                found.push_back({file.path, i + 1, "names a file that does not exist: " + name});
            }
        }
    }
    return found;
}

findings named_tests(const tree& files) {
    static const std::regex declared(R"(^TEST(_[FP])?\((\w+),\s*(\w*))");
    static const std::regex first_words(R"(^\s+(\w+)\))");
    static const std::regex quoted(R"(`(\w+)\.(\w+)`)");
    std::set<std::string, std::less<>> tests;
    std::string conformance;
    for (const source& file : files) {
        if (file.path == "tests/conformance/CMakeLists.txt") {
            for (const std::string& line : file.lines) conformance += line + " ";
        }
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            std::smatch found;
            if (!std::regex_search(file.code[i], found, declared)) continue;
            std::string name = found[3];
            // A long name stands on the next line.
            std::smatch rest;
            if (name.empty() && i + 1 < file.code.size() &&
                std::regex_search(file.code[i + 1], rest, first_words)) {
                name = rest[1];
            }
            tests.insert(found[2].str() + "." + name);
        }
    }
    findings missing;
    for (const source& file : files) {
        if (file.path != "tests/README.md") continue;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            for (std::sregex_iterator it(line.begin(), line.end(), quoted), end; it != end; ++it) {
                const std::string suite = (*it)[1];
                const std::string name = (*it)[2];
                static const std::regex ending("hpp|cpp|md|sh|mjs|py|json|txt");
                if (std::regex_match(name, ending) || tests.contains(suite + "." + name)) continue;
                if (suite == "conformance" &&
                    find_word(conformance, name) != std::string_view::npos) {
                    continue;
                }
                missing.push_back(
                    {file.path, i + 1, "promises a test that does not exist: " + (*it)[0].str()});
            }
        }
    }
    return missing;
}

findings machine_paths(const tree& files) {
    // In pieces, so that this file does not break its own rule.
    static const std::regex machine(
        "(^|[^A-Za-z0-9_.~/-])/(wo"
        "rk|ro"
        "ot)(/|\\b)");
    findings found;
    for (const source& file : files) {
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            std::smatch match;
            if (!std::regex_search(file.lines[i], match, machine)) continue;
            found.push_back(
                {file.path, i + 1,
                 "a path of one machine: " +
                     file.lines[i].substr(static_cast<std::size_t>(match.position(0)), 20)});
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

findings stale(const tree& files, const std::vector<exception>& long_functions,
               const std::vector<exception>& long_files) {
    const auto breaks = [](const findings& found, const exception& e) {
        return std::any_of(found.begin(), found.end(), [&](const finding& f) {
            return f.file == e.file && f.what.find(e.subject) != std::string::npos;
        });
    };
    findings unneeded;
    const auto functions = function_lengths(files, {});
    for (const exception& e : long_functions) {
        if (!breaks(functions, e)) {
            unneeded.push_back({e.file, 0, "an exception nobody needs: " + std::string(e.subject)});
        }
    }
    const auto lengths = file_lengths(files, {});
    for (const exception& e : long_files) {
        if (!breaks(lengths, e)) unneeded.push_back({e.file, 0, "an exception nobody needs"});
    }
    return unneeded;
}

}  // namespace semantic::tidy
