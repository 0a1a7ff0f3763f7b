// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of the house. Each takes the whole tree and returns what breaks it; an empty answer is
// a clean tree. Pure functions: rules_test.cpp feeds each of them a snippet that must fail.

#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/source_tree.hpp"

namespace semantic::tidy {

struct finding {
    std::string file;
    std::size_t line;  // from 1; 0: the file as a whole
    std::string message;
};

using tree = std::vector<source>;
using findings = std::vector<finding>;

// Limits, with the reason for each.
inline constexpr std::size_t columns_max = 100;           // two files side by side on one screen
inline constexpr std::size_t function_lines_max = 70;     // a function is seen whole
inline constexpr std::size_t class_parts_max = 40;        // a class has one subject
inline constexpr std::size_t file_lines_max = 600;        // a file has one subject
inline constexpr std::size_t folder_files_max = 24;       // a folder is seen whole
inline constexpr std::size_t document_columns_max = 160;  // a document is read in any editor
inline constexpr std::size_t front_lines_max = 150;       // README.md is read in a minute or two
inline constexpr std::size_t exceptions_max = 39;         // a rule with more is none

/// A place where a rule does not hold, and why it may.
struct exception {
    const char* file;
    const char* subject;  // the function's name; empty for rules about files
    const char* reason;
};

/// The places where rules do not hold, by kind.
struct exceptions {
    std::vector<exception> functions;
    std::vector<exception> files;
    std::vector<exception> documents;
};

/// A class that is larger than the rule allows, and how many members and methods it has.
struct large_class {
    std::string_view file;
    std::string_view name;
    std::size_t parts;
};

bool is_excepted(const std::vector<exception>& allowed, std::string_view file,
                 std::string_view subject);
std::size_t column_count(std::string_view line);  // characters

findings layers(const tree& files);          // perf -> server -> protocol -> engine -> storage
findings mutual_folders(const tree& files);  // of two folders one knows the other, never both
findings folder_sizes(const tree& files);
findings doors(const tree& files);         // each library is included where it belongs
findings unused_doors(const tree& files);  // places where a library may be included and is not
findings columns(const tree& files);
findings function_lengths(const tree& files, const std::vector<exception>& allowed);
/// Members and methods a class, but for those of tests. A class that is listed has as many as the
/// list says: none grows, and what shrinks is listed with its new size, or not at all.
findings class_sizes(const tree& files, const std::vector<large_class>& listed);
findings stale_classes(const tree& files, const std::vector<large_class>& listed);
findings file_lengths(const tree& files, const std::vector<exception>& allowed);
findings licences_named(const tree& files);     // each file says its licence
findings headers_guarded(const tree& files);    // #pragma once
findings own_header_first(const tree& files);   // so that each compiles alone
findings headers_clean(const tree& files);      // no `using namespace`
findings leftovers(const tree& files);          // notes to oneself
findings coroutine_lambdas(const tree& files);  // GCC 12 destroys their captures twice
findings detached_work(const tree& files);      // whatever is spawned is waited for
findings measured_parsers(const tree& files);   // tests/cost feeds what reads clients' bodies
findings module_readmes(const tree& files);     // each folder says what it is
findings readme_paths(const tree& files);       // what a README names exists
findings document_links(const tree& files);     // every link leads to a file, and to a heading
findings unlinked_paths(const tree& files);     // where users read, a path is a link
findings document_commands(const tree& files);  // a command exists after the steps before it
findings changelog_version(const tree& files);  // the newest entry is of this version
findings front_page(const tree& files);         // README.md is short and narrow
findings document_columns(const tree& files, const std::vector<exception>& allowed);
findings sanitized_suites(const tree& files);    // suites that etc/sanitize.sh names exist
findings answered_questions(const tree& files);  // tests/QUESTIONS.md leads to what exists
findings named_tests(const tree& files);         // tests/README.md promises what is tested
findings machine_paths(const tree& files);       // nothing depends on where it was written
findings foreign_hosts(const tree& files);       // nothing depends on one registry of packages
findings unreachable(const tree& files);         // nothing is dead weight

/// Words for which plain English has others, in documents. The subject of an exception is a piece
/// of the line in which such a word is meant literally; empty: the whole document.
findings plain_documents(const tree& files, const std::vector<exception>& allowed);
findings stale_words(const tree& files, const std::vector<exception>& allowed);

/// Names that are prepositions or pronouns. The subject of an exception is such a name; it may be
/// declared in its file as often as it likes.
findings plain_names(const tree& files, const std::vector<exception>& allowed);
findings stale_names(const tree& files, const std::vector<exception>& allowed);
findings plain_comments(const tree& files);  // the same words as in documents, without exceptions

/// Exceptions that nothing needs any more.
findings stale(const tree& files, const exceptions& allowed);

}  // namespace semantic::tidy
