// SPDX-License-Identifier: Apache-2.0
#include "tests/tidy/source_tree.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace semantic::tidy {
namespace {

bool ends_with_any(std::string_view path, std::initializer_list<std::string_view> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view ending) { return path.ends_with(ending); });
}

std::vector<std::string> split_lines(std::string_view text) {
    std::vector<std::string> lines;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        lines.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// Replaces all of text[from, to) but line ends by spaces.
void blank(std::string& text, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, text.size()); ++i) {
        if (text[i] != '\n') text[i] = ' ';
    }
}

/// Returns: the position after the quoted literal that opens at `at`.
std::size_t skip_quoted(std::string_view text, std::size_t at) {
    const char quote = text[at++];
    while (at < text.size() && text[at] != quote && text[at] != '\n')
        at += text[at] == '\\' ? 2 : 1;
    return std::min(at + 1, text.size());
}

/// Returns: the position after the raw literal whose quote is at `at`.
std::size_t skip_raw(std::string_view text, std::size_t at) {
    const auto open = text.find('(', at);
    if (open == text.npos) return text.size();
    std::string close(1, ')');
    close.append(text.substr(at + 1, open - at - 1)).push_back('"');
    const auto end = text.find(close, open);
    return end == text.npos ? text.size() : end + close.size();
}

std::string code_only(std::string text) {
    std::size_t i = 0;
    while (i < text.size()) {
        const std::string_view rest = std::string_view(text).substr(i);
        const bool after_word = i > 0 && is_word(text[i - 1]);
        std::size_t end = i + 1;
        if (rest.starts_with("//")) {
            end = std::min(text.find('\n', i), text.size());
            blank(text, i, end);
        } else if (rest.starts_with("/*")) {
            end = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
            blank(text, i, end);
        } else if (rest.starts_with("#include")) {
            end = std::min(text.find('\n', i), text.size());
        } else if (rest[0] == '"' && i > 0 && text[i - 1] == 'R') {
            end = skip_raw(text, i);
            blank(text, i + 1, end - 1);
        } else if (rest[0] == '"' || (rest[0] == '\'' && !after_word)) {
            // A quote after a digit or letter separates digits.
            end = skip_quoted(text, i);
            blank(text, i + 1, end - 1);
        }
        i = end;
    }
    return text;
}

bool is_written_by_hand(const std::string& path) {
    // Data that is not prose or code of ours; the model card comes with the model.
    static constexpr std::array data{"etc/models/", "tests/golden/"};
    if (std::any_of(data.begin(), data.end(), [&](const char* d) { return path.starts_with(d); })) {
        return false;
    }
    return ends_with_any(path, {".hpp",
                                ".cpp",
                                ".inl",
                                ".md",
                                ".sh",
                                ".txt",
                                ".mjs",
                                ".js",
                                ".py",
                                ".yaml",
                                ".yml",
                                ".conf",
                                ".service",
                                ".cmake",
                                ".html",
                                ".css",
                                "CMakePresets.json",
                                "package-lock.json",
                                "/run",
                                "/changelog"});
}

bool is_foreign_folder(const std::filesystem::path& path, bool at_root) {
    const std::string name = path.filename().string();
    if (name == "node_modules" || name == ".venv" || name == "__pycache__" || name == ".git")
        return true;
    // Build trees of any preset, and whatever else an editor or a person keeps next to the sources.
    static constexpr std::array top{"server", "engine", "storage", "protocol", "tests",
                                    "perf",   "etc",    ".ci",     ".github"};
    return at_root && std::find(top.begin(), top.end(), name) == top.end();
}

}  // namespace

source make_source(std::string path, std::string_view text) {
    source file{std::move(path), split_lines(text), {}};
    if (is_cpp(file)) file.code = split_lines(code_only(std::string(text)));
    return file;
}

std::vector<source> read_tree(const std::string& root) {
    namespace fs = std::filesystem;
    std::vector<source> tree;
    for (auto it = fs::recursive_directory_iterator(root); it != fs::recursive_directory_iterator();
         ++it) {
        if (it->is_directory()) {
            if (is_foreign_folder(it->path(), it.depth() == 0)) it.disable_recursion_pending();
            continue;
        }
        const std::string path = fs::relative(it->path(), root).generic_string();
        if (!it->is_regular_file()) continue;
        if (!is_written_by_hand(path)) {
            tree.push_back({path, {}, {}});
            continue;
        }
        std::ifstream file_text(it->path(), std::ios::binary);
        const std::string text{std::istreambuf_iterator<char>(file_text),
                               std::istreambuf_iterator<char>()};
        if (!file_text) throw std::runtime_error("cannot read " + path);
        tree.push_back(make_source(path, text));
    }
    std::sort(tree.begin(), tree.end(),
              [](const source& a, const source& b) { return a.path < b.path; });
    return tree;
}

bool is_header(const source& file) { return file.path.ends_with(".hpp"); }

bool is_cpp(const source& file) { return ends_with_any(file.path, {".hpp", ".cpp", ".inl"}); }

bool is_program(const source& file) {
    return is_cpp(file) || ends_with_any(file.path, {".sh", ".mjs", ".js", ".py", "/run"});
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::size_t find_word(std::string_view line, std::string_view word) {
    for (auto at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
        const auto end = at + word.size();
        const bool starts = at == 0 || !is_word(line[at - 1]);
        if (starts && (end == line.size() || !is_word(line[end]))) return at;
    }
    return std::string_view::npos;
}

std::string_view included_path(std::string_view line) {
    if (!line.starts_with("#include")) return {};
    const auto open = line.find_first_of("\"<");
    if (open == line.npos) return {};
    const auto close = line.find_first_of("\">", open + 1);
    return close == line.npos ? std::string_view{} : line.substr(open + 1, close - open - 1);
}

}  // namespace semantic::tidy
