// SPDX-License-Identifier: Apache-2.0
// The rules that look at lines and files, whatever these say.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <string_view>

namespace semantic::tidy {

bool is_excepted(const std::vector<exception>& allowed, std::string_view file,
                 std::string_view subject) {
    return std::any_of(allowed.begin(), allowed.end(),
                       [&](const exception& e) { return e.file == file && e.subject == subject; });
}

std::size_t column_count(std::string_view line) {
    // Counts characters, not bytes: UTF-8 continuation bytes take no column.
    return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

namespace {

/// Whether the first line, after one that names an interpreter, is the licence's.
bool names_licence(const source& file) {
    const std::size_t at = !file.lines.empty() && file.lines[0].starts_with("#!") ? 1 : 0;
    return at < file.lines.size() &&
           file.lines[at].ends_with(" SPDX-License-Identifier: Apache-2.0");
}

/// Joins the pieces of names that this file may not spell, since it is read by its own rules.
std::string any_of_names(const std::vector<std::string>& names) {
    std::string pattern;
    for (const std::string& name : names) pattern += (pattern.empty() ? "" : "|") + name;
    return pattern;
}

findings lines_that_match(const tree& files, const std::regex& pattern,
                          const std::string& message) {
    findings found;
    for (const source& file : files) {
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            std::smatch match;
            if (!std::regex_search(file.lines[i], match, pattern)) continue;
            const auto at = static_cast<std::size_t>(match.position(0));
            found.push_back({file.path, i + 1, message + file.lines[i].substr(at, 30)});
        }
    }
    return found;
}

}  // namespace

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
        if (is_excepted(allowed, file.path, "")) continue;
        found.push_back({file.path, 0,
                         std::to_string(file.lines.size()) + " lines, at most " +
                             std::to_string(file_lines_max) + " are allowed"});
    }
    return found;
}

findings licences_named(const tree& files) {
    findings found;
    for (const source& file : files)  // data comes without its lines
        if (is_program(file) && !file.lines.empty() && !names_licence(file))
            found.push_back({file.path, 1, "begins with no line that names the licence"});
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

findings machine_paths(const tree& files) {
    // In pieces, so that this file does not break its own rule.
    static const std::regex machine(
        "(^|[^A-Za-z0-9_.~/-])/(wo"
        "rk|ro"
        "ot)(/|\\b)");
    return lines_that_match(files, machine, "a path of one machine: ");
}

findings foreign_hosts(const tree& files) {
    // Where packages come from is each machine's own setting. In pieces, as above.
    static const std::regex hosts(
        any_of_names({"registry\\.(npm"
                      "js|yarn"
                      "pkg)",
                      "py"
                      "pi\\.(org|python)",
                      "python"
                      "hosted\\.org",
                      "deb\\.deb"
                      "ian\\.org",
                      "https?://[^/ ]*(arti"
                      "factory|nex"
                      "us|mir"
                      "ror)",
                      "[a-z0-9-]+\\.(cor"
                      "p|inter"
                      "nal|la"
                      "n)(:[0-9]+|/|$)"}));
    return lines_that_match(files, hosts, "a host that packages come from: ");
}

findings stale(const tree& files, const exceptions& allowed) {
    struct rule_exceptions {
        findings without;  // what the rule finds when nothing is excepted
        const std::vector<exception>& listed;
    };
    findings unneeded;
    for (const auto& [without, listed] :
         {rule_exceptions{function_lengths(files, {}), allowed.functions},
          rule_exceptions{file_lengths(files, {}), allowed.files},
          rule_exceptions{document_columns(files, {}), allowed.documents}}) {
        for (const exception& e : listed) {
            const bool needed = std::any_of(without.begin(), without.end(), [&](const finding& f) {
                return f.file == e.file && f.message.find(e.subject) != std::string::npos;
            });
            if (needed) continue;
            unneeded.push_back({e.file, 0,
                                "an exception nobody needs, for tidy_test.cpp to drop: " +
                                    std::string(e.subject)});
        }
    }
    return unneeded;
}

}  // namespace semantic::tidy
