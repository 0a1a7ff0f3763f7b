// The rules that look at lines and files, whatever these say.

#include "tests/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <regex>
#include <string_view>

namespace semantic::tidy {
namespace {

std::size_t column_count(std::string_view line) {
    // Counts characters, not bytes: UTF-8 continuation bytes take no column.
    return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

bool is_allowed(const std::vector<exception>& allowed, std::string_view file,
                std::string_view subject) {
    return std::any_of(allowed.begin(), allowed.end(),
                       [&](const exception& e) { return e.file == file && e.subject == subject; });
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
