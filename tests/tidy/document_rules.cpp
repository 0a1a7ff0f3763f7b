// SPDX-License-Identifier: Apache-2.0
// The rules about documents: each folder has one, and what it names exists.

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

/// Whether `name` names something, seen from a README in `folder`: a file, a folder, or a header
/// and source pair.
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

/// Whether text in backticks of a README in `folder` is meant as a file of ours, not as a route,
/// type, program or pattern.
bool looks_like_path(const std::string& text, const std::string& folder,
                     const std::set<std::string, std::less<>>& known) {
    static const std::regex path(R"(\.?/?[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*/?)");
    static const std::regex file(R"([A-Za-z0-9_-]+\.(hpp|cpp|inl|md|sh|mjs|py))");
    // NAME is any name.
    if (!std::regex_match(text, path) || text.starts_with('/') || text.find("NAME") != text.npos) {
        return false;
    }
    if (std::regex_match(text, file)) return true;
    const auto slash = text.find('/');
    if (slash == std::string::npos) return false;
    const std::string first = text.substr(0, slash);
    return known.contains(first) || known.contains(folder + first);
}

/// A README's second line: prose, not a heading, table, list or picture.
bool is_sentence_start(const std::string& line) {
    return line.size() >= 20 && std::string_view("#|-!`>").find(line[0]) == std::string_view::npos;
}

/// Columns that a line of Markdown takes when it is read: of a link in a table its text alone,
/// since a row cannot be broken.
std::size_t readable_columns(const std::string& line) {
    static const std::regex link(R"(\[([^\]]*)\]\([^)]*\))");
    if (!line.starts_with('|')) return column_count(line);
    return column_count(std::regex_replace(line, link, "$1"));
}

}  // namespace

findings document_columns(const tree& files, const std::vector<exception>& allowed) {
    findings found;
    for (const source& file : files) {
        if (!file.path.ends_with(".md") || is_excepted(allowed, file.path, "")) continue;
        bool fenced = false;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            if (file.lines[i].starts_with("```")) fenced = !fenced;
            const auto count = fenced ? 0 : readable_columns(file.lines[i]);
            if (count <= document_columns_max) continue;
            found.push_back({file.path, i + 1,
                             std::to_string(count) + " columns, at most " +
                                 std::to_string(document_columns_max) + " are allowed"});
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
                if (!looks_like_path(name, folder, known) || names_something(known, folder, name))
                    continue;
                found.push_back({file.path, i + 1, "names a file that does not exist: " + name});
            }
        }
    }
    return found;
}

findings sanitized_suites(const tree& files) {
    static const std::regex declared(R"(^(TEST|TEST_F|TEST_P)\((\w+),)");
    static const std::regex instance(R"(^INSTANTIATE_TEST_SUITE_P\((\w+),\s*(\w+))");
    static const std::regex quoted(R"('([^' ]+)\.\*')");
    std::set<std::string> suites;
    for (const source& file : files) {
        for (const std::string& line : file.code) {
            std::smatch at;
            if (std::regex_search(line, at, declared)) suites.insert(at[2]);
            if (std::regex_search(line, at, instance)) {
                suites.insert(at[1].str() + "/" + at[2].str());
            }
        }
    }
    findings found;
    for (const source& file : files) {
        if (file.path != "etc/sanitize.sh") continue;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            for (std::sregex_iterator it(line.begin(), line.end(), quoted), end; it != end; ++it) {
                const std::string name = (*it)[1];
                const std::regex pattern(std::regex_replace(name, std::regex("\\*"), ".*"));
                const bool known = std::any_of(
                    suites.begin(), suites.end(),
                    [&](const std::string& suite) { return std::regex_match(suite, pattern); });
                if (!known) found.push_back({file.path, i + 1, "no suite has this name: " + name});
            }
        }
    }
    return found;
}

findings answered_questions(const tree& files) {
    static const std::regex heading("\"([A-Z][^\"]*)\"");
    static const std::regex name("`([a-z]+(_[a-z]+)+)`");
    std::set<std::string, std::less<>> headings;
    for (const source& file : files) {
        if (!file.path.ends_with(".md")) continue;
        for (const std::string& line : file.lines) {
            const auto text = line.find_first_not_of('#');
            if (text != 0 && text != line.npos) headings.insert(line.substr(text + 1));
        }
    }
    const auto is_in_code = [&](const std::string& word) {
        return std::any_of(files.begin(), files.end(), [&](const source& file) {
            return std::any_of(file.code.begin(), file.code.end(), [&](const std::string& line) {
                return find_word(line, word) != std::string_view::npos;
            });
        });
    };
    findings found;
    for (const source& file : files) {
        if (file.path != "tests/QUESTIONS.md") continue;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            for (std::sregex_iterator it(line.begin(), line.end(), heading), end; it != end; ++it) {
                if (headings.contains((*it)[1].str())) continue;
                found.push_back(
                    {file.path, i + 1, "no README has this heading: " + (*it)[1].str()});
            }
            for (std::sregex_iterator it(line.begin(), line.end(), name), end; it != end; ++it) {
                if (is_in_code((*it)[1])) continue;
                found.push_back({file.path, i + 1, "no source has this name: " + (*it)[1].str()});
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
    std::string programs;  // what CMake names tests of programs
    for (const source& file : files) {
        if (file.path == "tests/conformance/CMakeLists.txt" ||
            file.path == "tests/cost/CMakeLists.txt" || file.path == "tests/CMakeLists.txt") {
            for (const std::string& line : file.lines) programs += line + " ";
        }
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            std::smatch found;
            if (!std::regex_search(file.code[i], found, declared)) continue;
            std::string name = found[3];
            // A long name is on the next line.
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
                if ((suite == "conformance" || suite == "cost" || suite == "perf") &&
                    find_word(programs, name) != std::string_view::npos) {
                    continue;
                }
                missing.push_back(
                    {file.path, i + 1, "promises a test that does not exist: " + (*it)[0].str()});
            }
        }
    }
    return missing;
}

}  // namespace semantic::tidy
