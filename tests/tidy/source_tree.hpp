// SPDX-License-Identifier: Apache-2.0
#pragma once
// The project's own text files in memory, as the tidy rules look at them.
// Plain values; reading fails by exception, which fails the test.

#include <string>
#include <string_view>
#include <vector>

namespace semantic::tidy {

struct source {
    std::string path;                // relative to the project's root, with '/'
    std::vector<std::string> lines;  // as written, without line ends
    /// C++ only: `lines` with the contents of comments and literals replaced by spaces; include
    /// lines stay whole.
    std::vector<std::string> code;
};

/// Cuts `text` into lines and blanks what is not code when `path` names a C++ file.
source make_source(std::string path, std::string_view text);

/// Every file below `root` that belongs to the project, in order of paths: no build trees, no
/// version control. Data (models, golden files) comes without its lines.
std::vector<source> read_tree(const std::string& root);

bool is_header(const source& file);
bool is_cpp(const source& file);      // header, source or .inl
bool is_program(const source& file);  // C++, shell, JavaScript or Python: what people write by hand
                                      // and must fit a screen

bool is_word(char c);  // what C++ names are made of
/// Position of `word` in `line` as a whole word, or npos.
std::size_t find_word(std::string_view line, std::string_view word);

/// The path inside `#include "..."` or `#include <...>`; empty when `line` is no include.
std::string_view included_path(std::string_view line);

}  // namespace semantic::tidy
