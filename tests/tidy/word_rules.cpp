// The rules about words: what names may be, and which words documents do without.

#include <algorithm>
#include <array>
#include <map>
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

/// How many words of some kind a file has, and where the last of them is.
struct counted_in_file {
    std::size_t count = 0;
    std::size_t line = 0;
    std::string name;
};

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

/// The names that the code of a file declares and that are prepositions or pronouns.
counted_in_file names_that_are_no_nouns(const source& file) {
    counted_in_file names;
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
            if (!is_declared(line, start, at)) continue;
            ++names.count;
            names.line = i + 1;
            names.name = name;
        }
    }
    return names;
}

/// The counts of `list`: a path and a number a line.
std::map<std::string, std::size_t, std::less<>> allowed_counts(const tree& files,
                                                               std::string_view list) {
    std::map<std::string, std::size_t, std::less<>> allowed;
    for (const source& file : files) {
        if (file.path != list) continue;
        for (const std::string& line : file.lines) {
            const auto space = line.find(' ');
            if (line.starts_with('#') || space == std::string::npos) continue;
            allowed[line.substr(0, space)] = std::stoul(line.substr(space + 1));
        }
    }
    return allowed;
}

/// The words of `plain_list` in a file's comments, and where the last of them is.
counted_in_file words_of_comments(const source& file) {
    counted_in_file words;
    for (std::size_t i = 0; i < file.code.size(); ++i) {
        const std::string& line = file.lines[i];
        const auto start = line.find("//");
        // In a literal a quote follows.
        if (start == std::string::npos ||
            file.code[i].find_first_not_of(' ', start) != std::string::npos) {
            continue;
        }
        const std::string prose = prose_of(line.substr(start));
        for (const plain_word& plain : plain_list) {
            if (find_word(prose, plain.word) == std::string_view::npos) continue;
            ++words.count;
            words.line = i + 1;
            words.name = plain.word;
        }
    }
    return words;
}

/// What counts more in a file than `list` says that it may. `count` counts, `kind` says what.
template <typename Count>
findings beyond(const tree& files, std::string_view list, const std::string& kind, Count count) {
    const auto allowed = allowed_counts(files, list);
    findings found;
    for (const source& file : files) {
        const counted_in_file counted = count(file);
        const auto limit = allowed.find(file.path);
        const std::size_t most = limit == allowed.end() ? 0 : limit->second;
        if (counted.count <= most) continue;
        found.push_back({file.path, counted.line,
                         std::to_string(counted.count) + " " + kind + ", " + std::to_string(most) +
                             " may be there; the last one is \"" + counted.name + "\""});
    }
    return found;
}

template <typename Count>
std::string counts_of(const tree& files, std::string text, Count count) {
    for (const source& file : files) {
        const std::size_t counted = count(file).count;
        if (counted > 0) text += file.path + " " + std::to_string(counted) + "\n";
    }
    return text;
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

findings plain_names(const tree& files) {
    return beyond(files, allowed_names_file, "names are prepositions or pronouns",
                  names_that_are_no_nouns);
}

std::string counted_names(const tree& files) {
    return counts_of(
        files,
        "# How many names of a file are prepositions or pronouns (tidy.names_name_things): no "
        "file\n"
        "# may have more. SEMANTIC_UPDATE_ALLOWED=1 build/bin/tidy_tests counts again.\n",
        names_that_are_no_nouns);
}

findings plain_comments(const tree& files) {
    return beyond(files, allowed_words_file, "words for which plain English has others",
                  words_of_comments);
}

std::string counted_words(const tree& files) {
    return counts_of(
        files,
        "# How many comments of a file have a word for which plain English has another\n"
        "# (tidy.comments_use_plain_words): no file may have more.\n"
        "# SEMANTIC_UPDATE_ALLOWED=1 build/bin/tidy_tests counts again.\n",
        words_of_comments);
}

}  // namespace semantic::tidy
