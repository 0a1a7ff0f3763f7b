// SPDX-License-Identifier: Apache-2.0
// The rules that look into classes and functions: their size, and what coroutines may not do.

#include <algorithm>
#include <regex>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

/// A source's code in one string, with the line of each position.
struct flat_code {
    std::string text;
    std::vector<std::size_t> line_of;

    explicit flat_code(const source& file) {
        bool continued = false;
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            const std::string& line = file.code[i];
            // Directives are not statements; their braces would confuse the count.
            const auto first = line.find_first_not_of(' ');
            const bool directive = continued || (first != line.npos && line[first] == '#');
            continued = directive && line.ends_with('\\');
            text += directive ? std::string(line.size(), ' ') : line;
            text += '\n';
            line_of.resize(text.size(), i + 1);
        }
    }

    /// Returns: the position of the bracket that closes the one at `open`, or the end.
    std::size_t closing(std::size_t open) const {
        int depth = 0;
        for (std::size_t i = open; i < text.size(); ++i) {
            if (std::string_view("([{").find(text[i]) != std::string_view::npos) ++depth;
            if (std::string_view(")]}").find(text[i]) != std::string_view::npos && --depth == 0) {
                return i;
            }
        }
        return text.size();
    }

    std::size_t next_visible(std::size_t at) const {
        return std::min(text.find_first_not_of(" \n\t", at), text.size());
    }
};

/// The name in front of the parameter list of `head`, for example "pool::allocate"; empty when it
/// declares no function.
std::string function_name(const std::string& head) {
    static const std::regex no_function(
        R"(^\s*(namespace|class|struct|union|enum|extern)\b|^[^(]*[^=!<>o]=[^=])");
    static const std::regex name(R"(((?:\w+::)*(?:operator\s*[^\s\w(]+|~?\w+))\s*\()");
    if (std::regex_search(head, no_function)) return {};
    std::smatch found;
    return std::regex_search(head, found, name) ? found[1].str() : std::string{};
}

struct function_span {
    std::string name;
    std::size_t first_line;
    std::size_t last_line;
};

/// The functions of a source, found by counting braces: what has a parameter list in front of its
/// outermost brace.
std::vector<function_span> find_functions(const source& file) {
    const flat_code code(file);
    std::vector<function_span> found;
    std::size_t head = 0;  // where the current declaration starts
    for (std::size_t i = 0; i < code.text.size(); ++i) {
        const char c = code.text[i];
        if (c == ';' || c == '}') head = i + 1;
        if (c != '{') continue;
        const std::string name = function_name(code.text.substr(head, i - head));
        if (name.empty()) {
            // The braces of a type or namespace are looked into, those of an initialiser are not.
            const bool value = code.text.substr(head, i - head).find('=') != std::string::npos;
            i = value ? std::min(code.closing(i), code.text.size() - 1) : i;
            head = i + 1;
            continue;
        }
        const std::size_t start = code.next_visible(head);
        // Member initialisers in braces come in front of the body.
        std::size_t end = code.closing(i);
        for (auto next = code.next_visible(end + 1);
             next < code.text.size() && (code.text[next] == ',' || code.text[next] == '{');
             next = code.next_visible(end + 1)) {
            end = code.closing(std::min(code.text.find('{', next), code.text.size()));
        }
        end = std::min(end, code.text.size() - 1);
        found.push_back({name, code.line_of[start], code.line_of[end]});
        i = end;
        head = end + 1;
    }
    return found;
}

struct class_span {
    std::string name;
    std::size_t first_line;
    std::size_t parts;  // members and methods, those of types inside it not included
};

/// The name of the class or struct that `head` begins to define; empty for anything else.
std::string class_name(const std::string& head) {
    static const std::regex begins(
        R"(\b(?:class|struct)\s+((?:\w+::)*\w+)\s*(?:final\s*)?(?::[^:]|$))");
    static const std::regex other(R"(\benum\b|[=(])");
    std::smatch found;
    if (std::regex_search(head, other)) return {};
    return std::regex_search(head, found, begins) ? found[1].str() : std::string{};
}

/// How many members or methods a statement of a class's body declares: none for labels, other names
/// of types, friends, and what is defaulted or deleted.
std::size_t parts_declared(std::string statement) {
    static const std::regex labels(R"(\b(?:public|private|protected)\s*:)");
    static const std::regex none(
        R"(^\s*$|=\s*(?:default|delete)\s*$|^\s*(?:template\s*<.*>\s*)?)"
        R"((?:using|friend|typedef|static_assert|class|struct|enum|union)\b)");
    statement = std::regex_replace(statement, labels, " ");
    std::ranges::replace(statement, '\n', ' ');
    if (std::regex_search(statement, none)) return 0;
    if (statement.find('(') != statement.npos) return 1;
    std::size_t parts = 1;
    int open = 0;  // template arguments
    for (const char c : statement) {
        open += c == '<' ? 1 : c == '>' ? -1 : 0;
        if (c == ',' && open == 0) ++parts;
    }
    return parts;
}

/// Counts the members and methods of the body that begins after the brace at `open`.
std::size_t parts_of_body(const flat_code& code, std::size_t open) {
    const std::size_t end = code.closing(open);
    std::size_t parts = 0;
    std::string statement;
    for (std::size_t i = open + 1; i < end; ++i) {
        const char c = code.text[i];
        if (c == ';') {
            parts += parts_declared(statement);
            statement.clear();
        } else if (c == '(' || c == '[') {
            statement += "()";
            i = std::min(code.closing(i), end);
        } else if (c == '{') {
            const bool is_function =
                statement.find('(') != statement.npos && statement.find('=') == statement.npos;
            i = std::min(code.closing(i), end);
            // Member initialisers in braces come in front of the body, and a value before its end.
            const std::size_t next = code.next_visible(i + 1);
            const bool goes_on = next < end && std::string_view(",{;").find(code.text[next]) !=
                                                   std::string_view::npos;
            if (!is_function || goes_on) continue;
            parts += parts_declared(statement);
            statement.clear();
        } else {
            statement += c;
        }
    }
    return parts;
}

/// The classes of a source, those inside of others too.
std::vector<class_span> find_classes(const source& file) {
    const flat_code code(file);
    std::vector<class_span> found;
    std::size_t head = 0;
    for (std::size_t i = 0; i < code.text.size(); ++i) {
        const char c = code.text[i];
        if (c == ';' || c == '}') head = i + 1;
        if (c != '{') continue;
        if (const auto name = class_name(code.text.substr(head, i - head)); !name.empty())
            found.push_back({name, code.line_of[i], parts_of_body(code, i)});
        head = i + 1;
    }
    return found;
}

/// The end of the expression at `at`: its semicolon, or the bracket that closes around it.
std::size_t expression_end(const flat_code& code, std::size_t at) {
    for (std::size_t i = at; i < code.text.size(); ++i) {
        const char c = code.text[i];
        if (c == ';' || c == ')' || c == ']' || c == '}') return i;
        if (c == '(' || c == '[' || c == '{') i = code.closing(i);
    }
    return code.text.size();
}

/// Position of the first lambda with captures in [from, to), or npos. A subscript follows a value,
/// a lambda does not.
std::size_t find_capturing_lambda(const flat_code& code, std::size_t from, std::size_t to) {
    char before = '(';
    for (std::size_t i = from; i < to; ++i) {
        const char c = code.text[i];
        if (c == '[' && !is_word(before) && before != ')' && before != ']') {
            const auto inside = code.next_visible(i + 1);
            if (code.text[inside] != ']' && code.text[inside] != '[') return i;
        }
        if (c != ' ' && c != '\n') before = c;
    }
    return std::string_view::npos;
}

/// Position of the first braced value in [from, to), or npos: the braces of a lambda without
/// captures make none.
std::size_t find_braced_value(const flat_code& code, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
        if (code.text.compare(i, 2, "[]") == 0) i = code.closing(code.text.find('{', i));
        if (i < to && code.text[i] == '{') return i;
    }
    return std::string_view::npos;
}

/// The start of the outermost call whose arguments hold `at`, or `at` itself.
std::size_t expression_start(const flat_code& code, std::size_t at) {
    std::size_t start = at;
    int depth = 0;
    for (std::size_t i = at; i-- > 0;) {
        const char c = code.text[i];
        if (depth == 0 && (c == ';' || c == '{')) break;
        if (std::string_view(")]}").find(c) != std::string_view::npos) ++depth;
        if (std::string_view("([{").find(c) != std::string_view::npos && --depth < 0) {
            start = i;
            depth = 0;
        }
    }
    return start;
}

void check_awaits(const source& file, const flat_code& code, findings& found) {
    for (auto at = code.text.find("co_await"); at != std::string::npos;
         at = code.text.find("co_await", at + 1)) {
        const auto end = expression_end(code, at + 8);
        const auto lambda = find_capturing_lambda(code, at + 8, end);
        if (lambda != std::string_view::npos)
            found.push_back(
                {file.path, code.line_of[lambda],
                 "a capturing lambda inside a co_await expression is destroyed twice by GCC 12: "
                 "name a coroutine with by-value parameters"});
        const auto start = expression_start(code, at);
        const auto braced =
            find_braced_value(code, start, std::max(end, start == at ? end : code.closing(start)));
        if (braced != std::string_view::npos && lambda == std::string_view::npos)
            found.push_back({file.path, code.line_of[braced],
                             "a braced value inside a co_await expression is destroyed twice by "
                             "GCC 12: give it a name first"});
    }
}

void check_spawns(const source& file, const flat_code& code, findings& found) {
    for (auto at = code.text.find("co_spawn"); at != std::string::npos;
         at = code.text.find("co_spawn", at + 1)) {
        const auto open = code.next_visible(at + 8);
        if (open >= code.text.size() || code.text[open] != '(') continue;
        const auto close = code.closing(open);
        for (auto brace = code.text.find('}', open); brace < close;
             brace = code.text.find('}', brace + 1)) {
            if (code.text[code.next_visible(brace + 1)] != '(') continue;
            found.push_back({file.path, code.line_of[brace],
                             "a lambda called inside co_spawn dies before its coroutine runs: "
                             "spawn a named coroutine with by-value parameters"});
        }
    }
}

}  // namespace

findings class_sizes(const tree& files, const std::vector<large_class>& listed) {
    findings found;
    for (const source& file : files) {
        if (!is_cpp(file) || file.path.starts_with("tests/")) continue;
        for (const class_span& each : find_classes(file)) {
            std::size_t most = class_parts_max;
            for (const large_class& one : listed)
                if (one.file == file.path && one.name == each.name) most = one.parts;
            if (each.parts > most)
                found.push_back({file.path, each.first_line,
                                 each.name + " has " + std::to_string(each.parts) +
                                     " members and methods, more than " + std::to_string(most)});
        }
    }
    return found;
}

findings stale_classes(const tree& files, const std::vector<large_class>& listed) {
    findings found;
    for (const large_class& one : listed) {
        std::size_t parts = 0;
        for (const source& file : files)
            if (one.file == file.path)
                for (const class_span& each : find_classes(file))
                    if (one.name == each.name) parts = each.parts;
        if (parts != one.parts)
            found.push_back({std::string(one.file), 0,
                             std::string(one.name) + " is listed with " +
                                 std::to_string(one.parts) + " parts and has " +
                                 std::to_string(parts)});
    }
    return found;
}

findings function_lengths(const tree& files, const std::vector<exception>& allowed) {
    findings found;
    for (const source& file : files) {
        if (!is_cpp(file)) continue;
        for (const function_span& f : find_functions(file)) {
            const auto count = f.last_line - f.first_line + 1;
            if (count <= function_lines_max || is_excepted(allowed, file.path, f.name)) continue;
            found.push_back({file.path, f.first_line,
                             f.name + " has " + std::to_string(count) + " lines, at most " +
                                 std::to_string(function_lines_max) + " are allowed"});
        }
    }
    return found;
}

findings coroutine_lambdas(const tree& files) {
    findings found;
    for (const source& file : files) {
        if (!is_cpp(file)) continue;
        const flat_code code(file);
        check_awaits(file, code, found);
        check_spawns(file, code, found);
    }
    return found;
}

// What a client sends is counted before it is worked on: nothing reads a body that nobody measures.
findings measured_parsers(const tree& files) {
    static const std::regex reads_body("\\b(parse_\\w+)\\(std::string_view body\\b");
    const auto measured = std::find_if(files.begin(), files.end(), [](const source& file) {
        return file.path == "tests/cost/parsers.cpp";
    });
    findings found;
    for (const source& file : files) {
        if (!file.path.starts_with("protocol/") || !file.path.ends_with(".hpp")) continue;
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            std::smatch match;
            if (!std::regex_search(file.code[i], match, reads_body)) continue;
            const std::string name = match[1];
            const bool is_fed =
                measured != files.end() &&
                std::any_of(measured->code.begin(), measured->code.end(),
                            [&](const std::string& line) {
                                return find_word(line, name) != std::string_view::npos;
                            });
            if (!is_fed)
                found.push_back(
                    {file.path, i + 1, "tests/cost/parsers.cpp does not measure " + name});
        }
    }
    return found;
}

}  // namespace semantic::tidy
