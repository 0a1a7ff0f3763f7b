// SPDX-License-Identifier: Apache-2.0
#include "engine/model/packed/packed_folder.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <string_view>

#include "storage/disk/disk_quota.hpp"
#include "storage/files/checksum.hpp"

namespace semantic::engine {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

constexpr std::string_view suffix = ".packed";
constexpr const char* index_name = "index.json";
constexpr const char* draft_name = "new.tmp";
// The sample of a source file: its ends, where headers are, and pages in between.
constexpr std::size_t end_bytes = 64u << 10;
constexpr std::size_t sample_page_bytes = 4096;
constexpr std::size_t sample_pages = 64;

std::string name_of(const storage::block_hash& weights) {
    return weights.hex() + std::string(suffix);
}

/// The canonical path by which the index knows a file.
std::string known_path(const packed_source& source) {
    std::error_code unknown;
    const auto absolute = std::filesystem::weakly_canonical(source.path, unknown);
    return unknown ? source.path : absolute.string();
}

/// A hash of some of the file's bytes.
storage::block_hash sample_of(const packed_source& source) {
    const std::span<const std::byte> bytes = source.bytes;
    const std::size_t ends = std::min(end_bytes, bytes.size());
    storage::field_hasher hasher;
    hasher.add(bytes.first(ends)).add(bytes.last(ends));
    for (std::size_t i = 1; i <= sample_pages; ++i) {
        const std::size_t at =
            bytes.size() / (sample_pages + 1) * i / sample_page_bytes * sample_page_bytes;
        hasher.add(bytes.subspan(at, std::min(sample_page_bytes, bytes.size() - at)));
    }
    return hasher.finish();
}

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

packed_index read_index(storage::file_system& files, const std::string& path) {
    const auto text = storage::read_whole(files, path, packed_index::file_bytes_max);
    return text ? packed_index::parse(*text) : packed_index();
}

}  // namespace

std::optional<std::vector<storage::block_hash>> packed_folder::find_hashes(
    const std::vector<packed_source>& sources) const {
    if (options_.verify_all) return std::nullopt;
    const packed_index index = read_index(files_, path_of(index_name));
    std::vector<storage::block_hash> hashes;
    for (const packed_source& source : sources) {
        const known_source* known = index.find_source(known_path(source));
        if (known == nullptr || storage::identity_of(source.path) != known->identity ||
            source.bytes.size() != known->identity.bytes || sample_of(source) != known->sample)
            return std::nullopt;
        hashes.push_back(known->hash);
    }
    return hashes;
}

void packed_folder::keep_hashes(const std::vector<packed_source>& sources,
                                const std::vector<std::optional<storage::file_identity>>& before,
                                const std::vector<storage::block_hash>& hashes) {
    std::vector<known_source> settled;
    const std::int64_t latest = now_ns() - options_.settle_time.count();
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto identity = storage::identity_of(sources[i].path);
        if (!identity || identity != before[i]) continue;
        if (std::max(identity->modified_ns, identity->changed_ns) > latest) continue;
        settled.push_back({known_path(sources[i]), *identity, sample_of(sources[i]), hashes[i]});
    }
    if (settled.empty()) return;
    if (!files_.make_directory(options_.directory)) return;
    const auto add = [&](packed_index& index) {
        for (known_source& each : settled) index.keep(std::move(each));
    };
    change_index(add, false);
}

result<packed_file> packed_folder::open(const packed_contents& contents) {
    const std::string name = name_of(contents.weights);
    auto file = packed_file::open(path_of(name), contents);
    if (!file) return file;
    const packed_index index = read_index(files_, path_of(index_name));
    const known_packed* known = index.find_packed(name);
    // Of a file that is as it was written, or last read whole, a sample is enough.
    const bool is_as_written = known != nullptr && known->identity == file->identity();
    const bool reads_all = options_.verify_all || !is_as_written;
    if (auto ok = reads_all ? file->check_all() : file->check_sample(index.uses); !ok)
        return ok.error();
    change_index([&](packed_index& each) { each.use(name, file->identity()); }, false);
    return file;
}

void packed_folder::remove(const storage::block_hash& weights) {
    const std::string name = name_of(weights);
    const std::uint64_t before = bytes();
    if (!files_.unlink(path_of(name))) return;
    change_index([&](packed_index& index) { index.forget_packed(name); }, false);
    tell_change(before, bytes());
}

/// Changes the index file. If it cannot be written the former one stays: then files are only hashed
/// again. `is_locked`: the caller has the folder's lock.
void packed_folder::change_index(const std::function<void(packed_index&)>& change, bool is_locked) {
    std::unique_ptr<storage::directory_lock> lock;
    if (!is_locked) {
        auto taken = files_.lock(options_.directory);
        if (!taken) return;
        lock = std::move(*taken);
    }
    const std::string path = path_of(index_name);
    const auto text = storage::read_whole(files_, path, packed_index::file_bytes_max);
    packed_index index = text ? packed_index::parse(*text) : packed_index();
    change(index);
    const std::string changed = index.to_text();
    if (storage::replace_file(files_, path, changed))
        tell_change(text ? text->size() : 0, changed.size());
}

/// The bytes of all files in the folder but the index; 0 if it cannot be read.
std::uint64_t packed_folder::bytes() const {
    const auto entries = files_.list(options_.directory);
    std::uint64_t sum = 0;
    if (!entries) return sum;
    for (const storage::directory_entry& each : *entries)
        if (each.name != index_name) sum += each.bytes;
    return sum;
}

void packed_folder::tell_change(std::uint64_t before, std::uint64_t now) const {
    if (options_.on_change && before != now)
        options_.on_change(static_cast<std::int64_t>(now) - static_cast<std::int64_t>(before));
}

/// Removes packed files, those used longest ago first, until `wanted` bytes fit into the budget and
/// onto the disk. Requires: the lock is held. Errors: out_of_space.
result<void> packed_folder::make_room(std::uint64_t wanted) {
    const auto entries = files_.list(options_.directory);
    if (!entries) return entries.error();
    const packed_index index = read_index(files_, path_of(index_name));
    struct candidate {
        std::uint64_t used = 0;
        const storage::directory_entry* entry = nullptr;
    };
    std::vector<candidate> candidates;
    std::uint64_t held = 0, removable = 0;
    for (const storage::directory_entry& entry : *entries) {
        if (entry.is_directory || !entry.name.ends_with(suffix)) continue;
        held += entry.bytes;
        if (storage::is_held(path_of(entry.name))) continue;
        const known_packed* known = index.find_packed(entry.name);
        // Files that the index does not know go first.
        candidates.push_back({known == nullptr ? 0 : known->used, &entry});
        removable += entry.bytes;
    }
    const auto space = files_.space(options_.directory);
    if (!space) return space.error();
    const std::uint64_t left_free = space->total_bytes / storage::disk_reserve_divisor;
    const auto excess = [](std::uint64_t have, std::uint64_t allowed) {
        return have > allowed ? have - allowed : 0;
    };
    std::uint64_t missing = std::max(excess(held + wanted, options_.budget_bytes),
                                     excess(left_free + wanted, space->free_bytes));
    if (missing > removable)
        return failure{
            errc::out_of_space,
            "packed weights of " + std::to_string(wanted) + " bytes do not fit: " +
                std::to_string(held) + " of at most " + std::to_string(options_.budget_bytes) +
                " bytes are taken, and the file system has " + std::to_string(space->free_bytes) +
                " bytes free, of which " + std::to_string(left_free) + " stay free"};
    std::ranges::sort(candidates, {}, &candidate::used);
    for (const candidate& each : candidates) {
        if (missing == 0) break;
        if (!files_.unlink(path_of(each.entry->name))) continue;
        change_index([&](packed_index& changed) { changed.forget_packed(each.entry->name); }, true);
        missing -= std::min(missing, each.entry->bytes);
    }
    if (missing > 0) return failure{errc::io, options_.directory + ": nothing can be removed"};
    return {};
}

void packed_folder::keep_to_budget() {
    const auto lock = files_.lock(options_.directory);
    if (!lock) return;  // the folder is not there yet, or another process writes in it
    const std::uint64_t before = bytes();
    // If nothing can be removed the folder stays as it is.
    (void)make_room(0);
    tell_change(before, bytes());
}

result<std::unique_ptr<packed_folder::draft>> packed_folder::begin(std::uint64_t arena_bytes) {
    if (auto made = files_.make_directory(options_.directory); !made) return made.error();
    auto lock = files_.lock(options_.directory);
    if (!lock) return lock.error();
    const std::uint64_t before = bytes();
    const std::string path = path_of(draft_name);
    // Left by a process that died: nobody else writes this file while the lock is held.
    if (const auto exists = files_.exists(path); exists && *exists) (void)files_.unlink(path);
    const std::uint64_t wanted = packed_file_bytes(arena_bytes);
    const auto room = make_room(wanted);
    auto file =
        room ? files_.create(path) : result<std::unique_ptr<storage::writable_file>>(room.error());
    if (!file) {
        tell_change(before, bytes());
        return file.error();
    }
    const std::uint64_t whole = bytes() + wanted;
    tell_change(before, whole);
    return std::make_unique<draft>(*this, std::move(*lock), std::move(*file), whole);
}

packed_folder::draft::draft(packed_folder& folder, std::unique_ptr<storage::directory_lock> lock,
                            std::unique_ptr<storage::writable_file> file, std::uint64_t told_bytes)
    : folder_(folder), lock_(std::move(lock)), writer_(std::move(file)), told_bytes_(told_bytes) {}

packed_folder::draft::~draft() {
    // If it cannot be removed now, the next begin() removes it.
    if (!is_finished_) (void)folder_.files_.unlink(folder_.path_of(draft_name));
    folder_.tell_change(told_bytes_, folder_.bytes());
}

result<packed_file> packed_folder::draft::finish(const packed_contents& contents) {
    if (auto ok = writer_.finish(contents); !ok) return ok.error();
    const std::string name = name_of(contents.weights), path = folder_.path_of(name);
    if (auto ok = folder_.files_.rename(folder_.path_of(draft_name), path); !ok) return ok.error();
    is_finished_ = true;
    if (auto ok = folder_.files_.sync_directory(folder_.options_.directory); !ok) return ok.error();
    auto file = packed_file::open(path, contents);
    if (!file) return file;
    // Also so that is_on_huge_pages() has something to look at.
    if (auto ok = file->check_sample(0); !ok) return ok.error();
    folder_.change_index([&](packed_index& index) { index.use(name, file->identity()); }, true);
    return file;
}

}  // namespace semantic::engine
