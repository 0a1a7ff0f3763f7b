// SPDX-License-Identifier: Apache-2.0
// The rules about words: what names may be, and which words documents and comments do without.

#include <algorithm>
#include <array>
#include <regex>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

struct plain_word {
    const char* word;
    const char* instead;
};

// Words that made readers stop, with what plain English says in their place.
constexpr std::array<plain_word, 13> plain_list{{{"anew", "again"},
                                                 {"behind", "after"},
                                                 {"beside", "next to, with, against"},
                                                 {"besides", "also"},
                                                 {"stand", "be"},
                                                 {"stands", "is"},
                                                 {"stood", "was"},
                                                 {"tell", "notify, say"},
                                                 {"tells", "notifies, says"},
                                                 {"thereby", "so"},
                                                 {"told", "notified, said"},
                                                 {"whereof", "of which, in a sentence of its own"},
                                                 {"whoever", "anyone who"}}};

/// The line without what is quoted as code and where links lead, in lower case.
std::string prose_of(const std::string& line) {
    static const std::regex code(R"(`[^`]*`|\]\([^)]*\))");
    std::string prose = std::regex_replace(line, code, "");
    std::transform(prose.begin(), prose.end(), prose.begin(), [](unsigned char c) {
        return c < 0x80U ? static_cast<char>(std::tolower(c)) : static_cast<char>(c);
    });
    return prose;
}

/// Whether `line` has `phrase` and an exception says that it may.
bool is_excepted_line(const std::vector<exception>& allowed, const source& file,
                      const std::string& line) {
    return std::any_of(allowed.begin(), allowed.end(), [&](const exception& e) {
        return file.path == e.file && line.find(e.subject) != std::string::npos;
    });
}

constexpr std::array<std::string_view, 15> no_nouns{"around", "behind", "beside", "in",    "into",
                                                    "of",     "on",     "them",   "upon",  "what",
                                                    "which",  "who",    "whom",   "whose", "with"};
// Words that come where a type would.
constexpr std::array<std::string_view, 16> no_types{
    "and", "case", "co_await",  "co_return", "co_yield", "delete", "else",  "goto",
    "new", "not",  "namespace", "operator",  "or",       "return", "throw", "using"};

/// Whether the word at [start, end) of `line` is declared there: a type comes before it, and after
/// it what follows the name of a variable, parameter or method.
bool is_declared(std::string_view line, std::size_t start, std::size_t end) {
    const auto next = line.find_first_not_of(' ', end);
    if (next == line.npos || std::string_view(",)=;{([:").find(line[next]) == line.npos) {
        return false;
    }
    if (start > 0 && (line[start - 1] == '&' || line[start - 1] == '*')) --start;
    if (start < 2 || line[start - 1] != ' ') return false;
    std::size_t type = start - 1;
    while (type > 0 && (line[type - 1] == '&' || line[type - 1] == '*')) --type;
    if (type == 0) return false;
    if (line[type - 1] == '>') return true;
    std::size_t first = type;
    while (first > 0 && is_word(line[first - 1])) --first;
    const std::string_view word = line.substr(first, type - first);
    return !word.empty() && std::find(no_types.begin(), no_types.end(), word) == no_types.end();
}

/// The names that the code of a file declares and that are prepositions or pronouns; the message of
/// each finding is the name alone.
findings names_that_are_no_nouns(const source& file) {
    findings names;
    for (std::size_t i = 0; i < file.code.size(); ++i) {
        const std::string_view line = file.code[i];
        for (std::size_t at = 0; at < line.size(); ++at) {
            if (!is_word(line[at])) continue;
            const std::size_t start = at;
            while (at < line.size() && is_word(line[at])) ++at;
            std::string_view name = line.substr(start, at - start);
            if (name.ends_with('_')) name.remove_suffix(1);
            if (std::find(no_nouns.begin(), no_nouns.end(), name) == no_nouns.end()) continue;
            // The method of std::exception has the name that the library gave it.
            if (line.substr(at).starts_with("() const noexcept")) continue;
            if (is_declared(line, start, at))
                names.push_back({file.path, i + 1, std::string(name)});
        }
    }
    return names;
}

/// The comment of line `index` of a file; empty where it has none.
std::string_view comment_of(const source& file, std::size_t index) {
    const std::string_view line = file.lines[index];
    const auto start = line.find("//");
    // In a literal a quote follows.
    if (start == line.npos || file.code[index].find_first_not_of(' ', start) != std::string::npos)
        return {};
    return line.substr(start);
}

}  // namespace

findings plain_documents(const tree& files, const std::vector<exception>& allowed) {
    findings found;
    for (const source& file : files) {
        if (!file.path.ends_with(".md") || is_excepted(allowed, file.path, "")) continue;
        bool fenced = false;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            if (line.starts_with("```")) fenced = !fenced;
            if (fenced || is_excepted_line(allowed, file, line)) continue;
            const std::string prose = prose_of(line);
            for (const plain_word& plain : plain_list) {
                if (find_word(prose, plain.word) == std::string_view::npos) continue;
                found.push_back({file.path, i + 1,
                                 std::string("\"") + plain.word + "\", say: " + plain.instead});
            }
        }
    }
    return found;
}

findings stale_words(const tree& files, const std::vector<exception>& allowed) {
    findings unneeded;
    const findings without = plain_documents(files, {});
    for (const exception& e : allowed) {
        const bool needed = std::any_of(without.begin(), without.end(), [&](const finding& f) {
            const auto file = std::find_if(files.begin(), files.end(),
                                           [&](const source& s) { return s.path == f.file; });
            return f.file == e.file && file->lines[f.line - 1].find(e.subject) != std::string::npos;
        });
        if (!needed)
            unneeded.push_back({e.file, 0, "an exception nobody needs: " + std::string(e.subject)});
    }
    return unneeded;
}

findings plain_names(const tree& files, const std::vector<exception>& allowed) {
    findings found;
    for (const source& file : files) {
        for (finding& name : names_that_are_no_nouns(file)) {
            if (is_excepted(allowed, file.path, name.message)) continue;
            name.message = "\"" + name.message + "\" is a preposition or a pronoun: name the thing";
            found.push_back(std::move(name));
        }
    }
    return found;
}

findings stale_names(const tree& files, const std::vector<exception>& allowed) {
    findings unneeded;
    for (const exception& e : allowed) {
        const auto file = std::ranges::find(files, std::string(e.file), &source::path);
        const findings names = file == files.end() ? findings{} : names_that_are_no_nouns(*file);
        if (std::ranges::find(names, std::string(e.subject), &finding::message) == names.end())
            unneeded.push_back({e.file, 0, "an exception nobody needs: " + std::string(e.subject)});
    }
    return unneeded;
}

findings plain_comments(const tree& files) {
    findings found;
    for (const source& file : files) {
        for (std::size_t i = 0; i < file.code.size(); ++i) {
            const std::string prose = prose_of(std::string(comment_of(file, i)));
            for (const plain_word& plain : plain_list) {
                if (find_word(prose, plain.word) == std::string_view::npos) continue;
                found.push_back({file.path, i + 1,
                                 std::string("\"") + plain.word + "\", say: " + plain.instead});
            }
        }
    }
    return found;
}

}  // namespace semantic::tidy
