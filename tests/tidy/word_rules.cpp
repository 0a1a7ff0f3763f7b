// The rules about words: what names may be, and which words documents do without.

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>
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

/// How many names the code of a file declares that are prepositions or pronouns, and where the
/// last of them is.
struct declared_names {
    std::size_t count = 0;
    std::size_t line = 0;
    std::string name;
};

declared_names names_that_are_no_nouns(const source& file) {
    // A type, then such a name, then what follows the name of a variable, parameter or method.
    static const std::regex declared(
        R"((\w+|>)[&*]* (?:&|\*)?()"
        "with|what|of|in|into|them|which|who|whom|whose|behind|beside|around|on|upon"
        R"()_?(?=\s*[,)=;{(\[:]))");
    static const std::set<std::string, std::less<>> no_types{
        "return", "co_return", "co_await", "co_yield", "throw",    "case",  "else",      "delete",
        "not",    "and",       "or",       "goto",     "operator", "using", "namespace", "new"};
    declared_names names;
    for (std::size_t i = 0; i < file.code.size(); ++i) {
        const std::string& line = file.code[i];
        for (std::sregex_iterator it(line.begin(), line.end(), declared), end; it != end; ++it) {
            if (no_types.contains((*it)[1].str())) continue;
            ++names.count;
            names.line = i + 1;
            names.name = (*it)[2];
        }
    }
    return names;
}

/// The counts of `allowed_names_file`: a path and a number a line.
std::map<std::string, std::size_t, std::less<>> allowed_names(const tree& files) {
    std::map<std::string, std::size_t, std::less<>> allowed;
    for (const source& file : files) {
        if (file.path != allowed_names_file) continue;
        for (const std::string& line : file.lines) {
            const auto space = line.find(' ');
            if (line.starts_with('#') || space == std::string::npos) continue;
            allowed[line.substr(0, space)] = std::stoul(line.substr(space + 1));
        }
    }
    return allowed;
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
    for (const exception& e : allowed) {
        const findings without = plain_documents(files, {});
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
    const auto allowed = allowed_names(files);
    findings found;
    for (const source& file : files) {
        const declared_names names = names_that_are_no_nouns(file);
        const auto limit = allowed.find(file.path);
        const std::size_t most = limit == allowed.end() ? 0 : limit->second;
        if (names.count <= most) continue;
        found.push_back({file.path, names.line,
                         std::to_string(names.count) + " names are prepositions or pronouns, " +
                             std::to_string(most) + " may be; the last one is " + names.name +
                             ": name the thing"});
    }
    return found;
}

std::string counted_names(const tree& files) {
    std::string text =
        "# How many names of a file are prepositions or pronouns (tidy.names_name_things): no "
        "file\n"
        "# may have more. SEMANTIC_UPDATE_ALLOWED=1 build/bin/tidy_tests counts again.\n";
    for (const source& file : files) {
        const std::size_t count = names_that_are_no_nouns(file).count;
        if (count > 0) text += file.path + " " + std::to_string(count) + "\n";
    }
    return text;
}

}  // namespace semantic::tidy
