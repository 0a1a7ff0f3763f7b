// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/block_files.hpp"

#include <utility>

#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

std::size_t index_of(kv_part part) { return static_cast<std::size_t>(part); }

}  // namespace

block_files::block_files(file_system& files, std::string directory, disk_quota& quota,
                         store_probe& probe, std::shared_ptr<kv_event_feed> events)
    : files_(files),
      directory_(std::move(directory)),
      quota_(quota),
      probe_(probe),
      events_(std::move(events)) {}

/// Publishes that the block left the disk. Requires: mutex_ held, or no concurrent writer of this
/// file. Otherwise the "stored" event of a block that is written again could precede this "removed"
/// event.
void block_files::tell_removed(const block_hash& name) {
    if (events_ == nullptr) return;
    events_->publish([&]() -> kv_event { return blocks_removed{{name}}; });
}

result<void> block_files::scan(bool keep_orphans, file_workers& workers,
                               const std::function<void()>& meanwhile) {
    const std::string root = directory_ + "/blocks";
    const auto fan_outs = files_.list(root);
    if (!fan_outs) return fan_outs.error();
    std::vector<std::string> directories;
    for (const directory_entry& each : *fan_outs) {
        if (each.is_directory) {
            fan_outs_.insert("blocks/" + each.name);
            directories.push_back(root + "/" + each.name);
        } else {
            quota_.add(each.bytes);
        }
    }
    known_.reserve(needed_by_.size());
    std::vector<result<void>> outcomes(directories.size());
    workers.run(directories.size() + 1, [&](std::size_t i) {
        // Job 0 is the caller's, the others are the folders.
        if (i == 0)
            meanwhile();
        else
            outcomes[i - 1] = scan_directory(directories[i - 1], keep_orphans);
    });
    for (const auto& outcome : outcomes)
        if (!outcome) return outcome;
    return {};
}

/// Enters the files of one folder (blocks/ab). Deletes temporaries and, unless `keep_orphans`,
/// block files that no manifest needs; counts all that stays in the quota. Errors: io.
result<void> block_files::scan_directory(const std::string& directory, bool keep_orphans) {
    const auto entries = files_.list(directory);
    if (!entries) return entries.error();
    const std::string_view fan_out = std::string_view(directory).substr(directory.rfind('/') + 1);
    std::uint64_t stay_bytes = 0;
    std::vector<std::string> gone;
    std::unique_lock lock(mutex_);
    for (const directory_entry& entry : *entries) {
        if (entry.is_directory) continue;
        const auto parsed = parse_block_file_name(entry.name);
        if (parsed && fan_out.size() == 2 && entry.name.starts_with(fan_out)) {
            const auto& [name, part] = *parsed;
            const bool needed = needed_by_.contains(name);
            // A manifest is written after the folders of its files were synced, so a file that one
            // needs is lasting. For a file that none needs (an orphan) nobody knows.
            if (needed || keep_orphans)
                known_[name][index_of(part)] = file_state{entry.bytes, needed, true};
            if (needed || keep_orphans) stay_bytes += entry.bytes;
            if (!needed && !keep_orphans) gone.push_back(entry.name);
        } else if (entry.name.ends_with(".tmp")) {
            gone.push_back(entry.name);
        } else {
            stay_bytes += entry.bytes;  // not ours, but it takes room
        }
    }
    lock.unlock();
    for (const directory_entry& entry : *entries) {
        if (!entry.is_directory) continue;
        const auto bytes = bytes_below(files_, directory + "/" + entry.name);
        if (!bytes) return bytes.error();
        stay_bytes += *bytes;
    }
    quota_.add(stay_bytes);
    for (const std::string& name : gone)
        if (auto ok = files_.unlink(directory + "/" + name); !ok) return ok;
    return {};
}

void block_files::expect(std::size_t blocks) {
    std::lock_guard lock(mutex_);
    needed_by_.reserve(blocks);
}

void block_files::retain(std::span<const block_hash> names) {
    std::lock_guard lock(mutex_);
    for (const block_hash& name : names) ++needed_by_[name];
}

void block_files::release(std::span<const block_hash> names) {
    std::unique_lock lock(mutex_);
    for (const block_hash& name : names) {
        const auto found = needed_by_.find(name);
        ASSERT(found != needed_by_.end() && found->second > 0);
        if (--found->second == 0) needed_by_.erase(found);
    }
    for (const block_hash& name : names) remove_if_unneeded(name, lock);
}

void block_files::release_shared(std::vector<block_hash>& names) {
    std::lock_guard lock(mutex_);
    std::erase_if(names, [this](const block_hash& name) {
        int& needed = needed_by_.at(name);
        if (needed > 1) return --needed > 0;      // somebody else retains it: released
        if (known_.contains(name)) return false;  // its files must be deleted: left in `names`
        return needed_by_.erase(name) > 0;        // it has no files: released
    });
}

std::size_t block_files::remove_unneeded() {
    std::unique_lock lock(mutex_);
    std::vector<block_hash> unneeded;
    for (const auto& [name, file] : known_)
        if (!needed_by_.contains(name)) unneeded.push_back(name);
    std::size_t removed = 0;
    for (const block_hash& name : unneeded) removed += remove_if_unneeded(name, lock) ? 1 : 0;
    return removed;
}

/// Deletes the files of a block that nobody retains. Returns: whether they are gone. Requires:
/// `lock` holds the mutex; it is released while the files are deleted.
bool block_files::remove_if_unneeded(const block_hash& name, std::unique_lock<std::mutex>& lock) {
    idle_.wait(lock, [&] { return !busy_.contains(name); });
    const auto found = known_.find(name);
    if (found == known_.end() || needed_by_.contains(name)) return false;
    block_state files = found->second;
    const bool is_state = files[index_of(kv_part::state)].has_value();
    known_.erase(found);
    busy_.insert(name);
    lock.unlock();
    bool removed = true;
    for (const kv_part part : block_file_parts) {
        std::optional<file_state>& file = files[index_of(part)];
        if (!file) continue;
        const auto gone = files_.unlink(path(name, part));
        if (gone || gone.error().code == errc::not_found) {
            quota_.remove(file->bytes);
            file.reset();
        } else {
            removed = false;
        }
    }
    lock.lock();
    if (!removed) known_[name] = files;
    // An event speaks of a block as a whole, which is gone with the file of its full layers.
    if (!is_state && !files[index_of(kv_part::full)]) tell_removed(name);
    busy_.erase(name);
    idle_.notify_all();
    return removed;
}

result<std::uint64_t> block_files::ensure(const block_hash& name, const block_identity& identity,
                                          const block_formats& formats, const kv_block& block) {
    const block_format& format = formats.format_for(block.part());
    return ensure(name, block.part(), format.file_bytes_max(identity.tokens.size()),
                  [&](const std::string& path) {
                      return write_block_file(files_, path, identity, format, block);
                  });
}

result<std::uint64_t> block_files::ensure_state(const block_hash& name,
                                                const block_identity& identity,
                                                const recurrent_state& state) {
    const std::uint64_t most = state_file_bytes_max(identity.tokens.size(), state.bytes().size());
    const auto written = ensure(name, kv_part::state, most, [&](const std::string& path) {
        return write_state_file(files_, path, identity, state.bytes());
    });
    if (written && *written > 0) {
        ++probe_.states_written;
        probe_.state_bytes_written += *written;
    }
    return written;
}

result<std::uint64_t> block_files::ensure(const block_hash& name, kv_part part,
                                          std::uint64_t bytes_max, const file_writer& write_to) {
    std::unique_lock lock(mutex_);
    ASSERT(needed_by_.contains(name));
    idle_.wait(lock, [&] { return !busy_.contains(name); });
    if (const file_state* file = find(name, part); file != nullptr && file->good)
        return std::uint64_t{0};
    busy_.insert(name);
    lock.unlock();
    auto written = write(name, part, bytes_max, write_to);
    lock.lock();
    busy_.erase(name);
    if (written) {
        std::optional<file_state>& file = known_[name][index_of(part)];
        // The new file has replaced a damaged one.
        if (file) quota_.remove(file->bytes);
        // Not lasting before make_lasting() has synced the folder.
        file = file_state{*written, false, true};
        quota_.add(*written);
    }
    idle_.notify_all();
    return written;
}

result<std::uint64_t> block_files::take_in(const block_hash& name, kv_part part,
                                           std::string_view bytes) {
    std::unique_lock lock(mutex_);
    ASSERT(needed_by_.contains(name));
    idle_.wait(lock, [&] { return !busy_.contains(name); });
    if (const file_state* file = find(name, part); file != nullptr && file->good)
        return std::uint64_t{0};
    busy_.insert(name);
    lock.unlock();
    auto done = make_fan_out(block_directory(name));
    if (done) done = replace_file(files_, path(name, part), bytes);
    lock.lock();
    busy_.erase(name);
    if (done) {
        std::optional<file_state>& file = known_[name][index_of(part)];
        if (file) quota_.remove(file->bytes);
        // Lasting: replace_file() has synced the folder.
        file = file_state{bytes.size(), true, true};
        quota_.add(bytes.size());
    }
    idle_.notify_all();
    if (!done) return done.error();
    if (part == kv_part::state) {
        ++probe_.states_written;
        probe_.state_bytes_written += bytes.size();
    } else {
        ++probe_.blocks_written;
    }
    probe_.bytes_written += bytes.size();
    return std::uint64_t{bytes.size()};
}

/// Blocks. Writes a file under a temporary name and renames it, so that it is whole or absent.
/// Returns: bytes written. Errors: those of `write_to` and of the file system.
result<std::uint64_t> block_files::write(const block_hash& name, kv_part part,
                                         std::uint64_t bytes_max, const file_writer& write_to) {
    if (auto ok = make_fan_out(block_directory(name)); !ok) return ok.error();
    const std::string target = path(name, part);
    const std::string temporary = target + ".tmp";
    auto written = write_to(temporary);
    if (written)
        if (auto ok = files_.rename(temporary, target); !ok) written = ok.error();
    if (!written) {
        // The temporary file is deleted if possible. One that stays is counted with its largest
        // size, until the next scan() deletes it.
        if (auto gone = files_.unlink(temporary); !gone && gone.error().code != errc::not_found)
            quota_.add(bytes_max);
        return written;
    }
    if (part != kv_part::state) ++probe_.blocks_written;
    probe_.bytes_written += *written;
    return written;
}

/// Blocks. Creates the folder blocks/ab unless it is known to exist.
result<void> block_files::make_fan_out(const std::string& directory) {
    {
        std::lock_guard lock(mutex_);
        if (fan_outs_.contains(directory)) return {};
    }
    if (auto ok = files_.make_directory(directory_ + "/" + directory); !ok) return ok;
    std::lock_guard lock(mutex_);
    fan_outs_.insert(directory);
    return {};
}

result<void> block_files::make_lasting(std::span<const block_hash> names) {
    std::set<std::string> directories;
    {
        std::lock_guard lock(mutex_);
        for (const block_hash& name : names) {
            for (const kv_part part : block_file_parts)
                if (const file_state* file = find(name, part); file != nullptr && !file->lasting)
                    directories.insert(block_directory(name));
        }
    }
    for (const std::string& directory : directories)
        if (auto ok = files_.sync_directory(directory_ + "/" + directory); !ok) return ok;
    std::lock_guard lock(mutex_);
    for (const block_hash& name : names)
        for (const kv_part part : block_file_parts)
            if (file_state* file = find(name, part)) file->lasting = true;
    return {};
}

result<block_file_reader> block_files::open(const block_hash& name, kv_part part,
                                            const block_identity& expected,
                                            const block_formats& formats, block_pool& pool,
                                            bool keep_open) {
    return block_file_reader::open(files_, path(name, part), expected, formats.format_for(part),
                                   pool, keep_open);
}

std::size_t block_files::forget_missing(std::span<const block_hash> names) {
    std::vector<std::pair<block_hash, kv_part>> expected;
    {
        std::lock_guard lock(mutex_);
        for (const block_hash& name : names)
            for (const kv_part part : block_file_parts)
                if (find(name, part) != nullptr) expected.emplace_back(name, part);
    }
    std::size_t gone = 0;
    for (const auto& [name, part] : expected) {
        // A file system that does not answer counts as "there": reading the file will show.
        if (const auto there = files_.exists(path(name, part)); !there || *there) continue;
        std::lock_guard lock(mutex_);
        const file_state* file = find(name, part);
        if (file == nullptr || busy_.contains(name)) continue;
        quota_.remove(file->bytes);
        block_state& files = known_[name];
        files[index_of(part)].reset();
        if (part == kv_part::full) tell_removed(name);
        if (files == block_state{}) known_.erase(name);
        ++(part == kv_part::state ? probe_.states_missing : probe_.blocks_missing);
        ++gone;
    }
    return gone;
}

std::size_t block_files::forget_missing() {
    std::vector<block_hash> names;
    {
        std::lock_guard lock(mutex_);
        for (const auto& [name, files] : known_) names.push_back(name);
        fan_outs_.clear();  // so that each folder is created again before a file is written there
    }
    return forget_missing(names);
}

void block_files::distrust(const block_hash& name, kv_part part) {
    std::lock_guard lock(mutex_);
    file_state* file = find(name, part);
    // A damaged file is not read again, so followers may take it for removed.
    if (file == nullptr || !std::exchange(file->good, false)) return;
    if (part == kv_part::full) tell_removed(name);
}

bool block_files::is_known(const block_hash& name, kv_part part) const {
    std::lock_guard lock(mutex_);
    return find(name, part) != nullptr;
}

bool block_files::is_good(const block_hash& name, kv_part part) const {
    std::lock_guard lock(mutex_);
    const file_state* file = find(name, part);
    return file != nullptr && file->good;
}

/// Returns: what is known of the file of this part, null where there is none. Requires: the mutex
/// is held.
const block_files::file_state* block_files::find(const block_hash& name, kv_part part) const {
    const auto found = known_.find(name);
    if (found == known_.end()) return nullptr;
    const std::optional<file_state>& file = found->second[index_of(part)];
    return file ? &*file : nullptr;
}

block_files::gain_estimate::gain_estimate(const block_files& files)
    : files_(files), held_(files.mutex_) {}

void block_files::gain_estimate::add_unneeded() {
    for (const auto& [name, parts] : files_.known_)
        if (!files_.needed_by_.contains(name)) count(parts);
}

void block_files::gain_estimate::count(const block_state& parts) {
    for (const std::optional<file_state>& file : parts) {
        if (!file) continue;
        sum_.bytes += file->bytes;
        ++sum_.files;
    }
}

void block_files::gain_estimate::add(std::span<const block_hash> names) {
    for (const block_hash& name : names) {
        const auto needed = files_.needed_by_.find(name);
        const auto known = files_.known_.find(name);
        if (needed == files_.needed_by_.end() || known == files_.known_.end()) continue;
        // The files go only when the last manifest that needs the block has gone.
        if (needed->second > 1 && ++let_go_[name] < needed->second) continue;
        count(known->second);
    }
}

std::size_t block_files::remove_empty_directories() {
    // The mutex is held throughout, so that nobody begins to write into a folder that goes.
    std::lock_guard lock(mutex_);
    std::set<std::string> used;
    for (const auto& [name, files] : known_) used.insert(block_directory(name));
    for (const block_hash& name : busy_) used.insert(block_directory(name));
    std::size_t removed = 0;
    std::erase_if(fan_outs_, [&](const std::string& each) {
        if (used.contains(each)) return false;
        const auto gone = files_.remove_directory(directory_ + "/" + each);
        removed += gone ? 1 : 0;
        return gone || gone.error().code == errc::not_found;
    });
    return removed;
}

std::uint64_t block_files::bytes_on_disk(std::span<const block_hash> names, kv_part part) const {
    std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const block_hash& name : names)
        if (const file_state* file = find(name, part)) bytes += file->bytes;
    return bytes;
}

std::uint64_t block_files::bytes_on_disk(std::span<const block_hash> names) const {
    std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const block_hash& name : names)
        for (const kv_part part : block_file_parts)
            if (const file_state* file = find(name, part)) bytes += file->bytes;
    return bytes;
}

}  // namespace semantic::storage
