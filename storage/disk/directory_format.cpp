// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/directory_format.hpp"

#include <charconv>
#include <optional>
#include <string_view>

#include "storage/disk/manifest.hpp"

namespace semantic::storage {

namespace {

constexpr const char* mark_name = "/format";
constexpr std::string_view mark_begin = "semantic-cache ";
constexpr std::size_t mark_bytes_max = 64;

/// Returns: the version in the text of a mark; nothing where this program never wrote such a text.
std::optional<int> version_of(std::string_view mark) {
    if (!mark.starts_with(mark_begin) || !mark.ends_with('\n')) return std::nullopt;
    mark.remove_prefix(mark_begin.size());
    mark.remove_suffix(1);
    int version = 0;
    const auto [end, fault] = std::from_chars(mark.data(), mark.data() + mark.size(), version);
    if (fault != std::errc() || end != mark.data() + mark.size()) return std::nullopt;
    return version;
}

/// Gives the file `from` the second name `to` (a hard link); where the file system has no links,
/// copies it.
result<void> name_also(file_system& files, const std::string& from, const std::string& to) {
    if (files.link(from, to)) return {};
    const auto bytes = read_whole(files, from, manifest_file_bytes_max);
    if (!bytes) return bytes.error();
    return replace_file(files, to, *bytes);
}

}  // namespace

result<void> adopt_directory_format(file_system& files, const std::string& directory) {
    const std::string path = directory + mark_name;
    const auto mark = read_whole(files, path, mark_bytes_max);
    if (!mark && mark.error().code == errc::io) return mark.error();
    const auto version = mark ? version_of(*mark) : std::nullopt;
    if (version == directory_format_version) return {};
    if (version && *version > directory_format_version)
        return failure{errc::incompatible,
                       directory + ": the cache directory is of format " +
                           std::to_string(*version) + ", made by a later program; this one knows " +
                           "formats up to " + std::to_string(directory_format_version) +
                           ": start the later program, or give this one another directory"};
    // There is no mark (format 1), an older one, or a text that no program of ours has written.
    return replace_file(files, path,
                        std::string(mark_begin) + std::to_string(directory_format_version) + "\n");
}

result<void> rename_manifests(file_system& files, const std::string& directory,
                              std::span<const manifest_renaming> renamings) {
    if (renamings.empty()) return {};
    const auto full = [&](const std::string& path) { return directory + "/" + path; };
    for (const manifest_renaming& each : renamings) {
        if (each.there == manifest_renaming::former::newer) continue;
        if (each.there == manifest_renaming::former::none) {
            if (auto ok = name_also(files, full(each.from), full(each.to)); !ok) return ok;
            continue;
        }
        // A link cannot replace the manifest that is there, so the bytes are copied.
        const auto bytes = read_whole(files, full(each.from), manifest_file_bytes_max);
        if (!bytes) return bytes.error();
        if (auto ok = replace_file(files, full(each.to), *bytes); !ok) return ok;
    }
    // The new names are synced before an old one is deleted, so a crash loses no manifest.
    if (auto ok = files.sync_directory(full("agents")); !ok) return ok;
    for (const manifest_renaming& each : renamings)
        if (auto ok = files.unlink(full(each.from)); !ok) return ok;
    return {};
}

}  // namespace semantic::storage
