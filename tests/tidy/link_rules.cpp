// SPDX-License-Identifier: Apache-2.0
// The rules about what documents lead to: links, and commands that a reader can run.

#include <algorithm>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

bool is_document(const source& file) { return file.path.ends_with(".md"); }

std::string folder_of(const std::string& path) {
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// `target` as seen from a document in `folder`, without "." and ".."; empty when it leaves the
/// tree.
std::string resolved(const std::string& folder, const std::string& target) {
    std::vector<std::string> parts;
    const std::string path = folder + target;
    for (std::size_t from = 0; from <= path.size();) {
        const auto slash = std::min(path.find('/', from), path.size());
        const std::string part = path.substr(from, slash - from);
        from = slash + 1;
        if (part.empty() || part == ".") continue;
        if (part != "..") {
            parts.push_back(part);
        } else if (parts.empty()) {
            return {};
        } else {
            parts.pop_back();
        }
    }
    std::string joined;
    for (const std::string& part : parts) joined += (joined.empty() ? "" : "/") + part;
    return joined;
}

/// The anchor that hosts of Markdown give a heading: lower case, no punctuation, '-' for a space.
std::string anchor_of(std::string_view heading) {
    std::string anchor;
    for (const char c : heading) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == ' ') anchor += '-';
        if (std::isalnum(byte) != 0 || c == '-' || c == '_' || byte >= 0x80U) {
            anchor += static_cast<char>(std::tolower(byte));
        }
    }
    return anchor;
}

struct heading_index {
    std::set<std::string, std::less<>> paths;  // files and folders
    std::map<std::string, std::set<std::string>, std::less<>> anchors;

    explicit heading_index(const tree& files) {
        for (const source& file : files) {
            paths.insert(file.path);
            for (auto slash = file.path.find('/'); slash != std::string::npos;
                 slash = file.path.find('/', slash + 1)) {
                paths.insert(file.path.substr(0, slash));
            }
            if (!is_document(file)) continue;
            bool fenced = false;
            for (const std::string& line : file.lines) {
                if (line.starts_with("```")) fenced = !fenced;
                const auto text = line.find_first_not_of('#');
                if (fenced || text == 0 || text == std::string::npos || line[text] != ' ') continue;
                anchors[file.path].insert(anchor_of(std::string_view(line).substr(text + 1)));
            }
        }
    }
};

/// What is wrong with a link from `file` to `target`; empty when it leads somewhere.
std::string wrong_with(const heading_index& known, const source& file, const std::string& target) {
    const auto hash = target.find('#');
    const std::string path =
        hash == 0 ? file.path : resolved(folder_of(file.path), target.substr(0, hash));
    if (!known.paths.contains(path)) return "leads to nothing: " + target;
    if (hash == std::string::npos) return {};
    const auto headings = known.anchors.find(path);
    if (headings != known.anchors.end() && headings->second.contains(target.substr(hash + 1))) {
        return {};
    }
    return "leads to no heading: " + target;
}

/// What people read who want to use the server or to begin to work on it.
bool is_front(const source& file) {
    return is_document(file) &&
           (file.path == "README.md" || file.path == "SECURITY.md" ||
            file.path.starts_with("etc/guide/") || file.path.starts_with(".github/"));
}

/// The programs that steps of a document have built so far.
struct built_programs {
    std::set<std::string, std::less<>> names;
    bool all = false;

    void follow(const std::string& line) {
        static const std::regex target(R"(--target ([\w-]+))");
        const bool only_tells = line.find("--help") != std::string::npos;
        if (line.find("bash etc/start.sh") != std::string::npos && !only_tells) {
            names.insert("semantic-server");
        }
        if (line.find("bash etc/test.sh") != std::string::npos && !only_tells) all = true;
        std::smatch found;
        if (line.find("cmake --build build") == std::string::npos) return;
        if (std::regex_search(line, found, target)) {
            names.insert(found[1]);
        } else {
            all = true;
        }
    }
};

}  // namespace

findings document_links(const tree& files) {
    static const std::regex link(R"(\]\(([^)\s]+)\))");
    const heading_index known(files);
    findings found;
    for (const source& file : files) {
        if (!is_document(file)) continue;
        bool fenced = false;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            if (line.starts_with("```")) fenced = !fenced;
            if (fenced) continue;
            for (std::sregex_iterator it(line.begin(), line.end(), link), end; it != end; ++it) {
                const std::string target = (*it)[1];
                if (target.find("://") != std::string::npos || target.starts_with("mailto:")) {
                    continue;
                }
                const std::string wrong = wrong_with(known, file, target);
                if (!wrong.empty()) found.push_back({file.path, i + 1, wrong});
            }
        }
    }
    return found;
}

findings unlinked_paths(const tree& files) {
    static const std::regex quoted(R"((\[?)`([A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*/?)`)");
    const heading_index known(files);
    findings found;
    for (const source& file : files) {
        if (!is_front(file)) continue;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            for (std::sregex_iterator it(line.begin(), line.end(), quoted), end; it != end; ++it) {
                const std::string path = resolved("", (*it)[2]);
                const bool names_file =
                    path.find('/') != std::string::npos || path.find('.') != std::string::npos;
                if ((*it)[1] == "[" || !names_file || !known.paths.contains(path)) continue;
                found.push_back({file.path, i + 1, "a path that is no link: " + path});
            }
        }
    }
    return found;
}

findings document_commands(const tree& files) {
    static const std::regex program("build/bin/([A-Za-z0-9_-]+)");
    static const std::regex script(R"(\b(?:bash|python3) ([a-z.][\w./-]*\.(?:sh|py)))");
    const heading_index known(files);
    findings found;
    for (const source& file : files) {
        if (!is_front(file)) continue;
        built_programs built;
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            const std::string& line = file.lines[i];
            for (std::sregex_iterator it(line.begin(), line.end(), script), end; it != end; ++it) {
                if (known.paths.contains((*it)[1].str())) continue;
                found.push_back({file.path, i + 1, "no such script: " + (*it)[1].str()});
            }
            for (std::sregex_iterator it(line.begin(), line.end(), program), end; it != end; ++it) {
                const std::string name = (*it)[1];
                if (built.all || built.names.contains(name)) continue;
                found.push_back(
                    {file.path, i + 1, "no step before this line builds build/bin/" + name});
            }
            built.follow(line);
        }
    }
    return found;
}

findings front_page(const tree& files) {
    findings found;
    for (const source& file : files) {
        if (file.path != "README.md") continue;
        if (file.lines.size() > front_lines_max) {
            found.push_back({file.path, 0,
                             std::to_string(file.lines.size()) + " lines, at most " +
                                 std::to_string(front_lines_max) + " are allowed"});
        }
        for (std::size_t i = 0; i < file.lines.size(); ++i) {
            if (column_count(file.lines[i]) <= columns_max) continue;
            found.push_back({file.path, i + 1, "wider than a terminal of 100 columns"});
        }
    }
    return found;
}

findings changelog_version(const tree& files) {
    static const std::regex version("server_version = \"([^\"]+)\"");
    static const std::regex newest(R"(^semantic-server \(([^)]+)\))");
    std::smatch built;
    std::string entry;
    std::size_t line = 0;
    for (const source& file : files) {
        for (std::size_t i = 0; file.path == "server/runtime/version.hpp" && i < file.lines.size();
             ++i) {
            if (std::regex_search(file.lines[i], built, version)) line = i + 1;
            if (line > 0) break;
        }
        std::smatch named;
        if (file.path == "etc/package/changelog" && !file.lines.empty() &&
            std::regex_search(file.lines[0], named, newest)) {
            entry = named[1];
        }
    }
    if (line == 0 || built[1] == entry) return {};
    return {{"etc/package/changelog", 1,
             "the newest entry is of \"" + entry + "\", the program of " + built[1].str()}};
}

}  // namespace semantic::tidy
