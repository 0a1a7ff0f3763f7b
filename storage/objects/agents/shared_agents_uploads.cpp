// SPDX-License-Identifier: Apache-2.0
// The uploading half of shared_agents: what is saved in the directory goes to the object store.

#include <algorithm>
#include <random>

#include "storage/disk/manifest.hpp"
#include "storage/objects/agents/manifest_versions.hpp"
#include "storage/objects/agents/shared_agents.hpp"

namespace semantic::storage {

using namespace manifest_versions;

namespace {

constexpr std::size_t there_max = 1'000'000;  // names of 60 bytes
constexpr std::ptrdiff_t believed_max = 4;    // blocks of a manifest that Redis does not know
constexpr int rereads_max = 5;

}  // namespace

/// The uploading thread: takes one manifest after the other in the order of their names, after
/// which it begins again at the first; a failed one returns to the queue, after a pause that grows.
void shared_agents::work(std::stop_token stop) {
    const backoff_options waits{.attempts_max = 1 << 30,
                                .first_max = options_.retry_min,
                                .wait_max = 60 * options_.retry_min,
                                .total_max = std::chrono::milliseconds::max()};
    backoff tries(waits, std::random_device{}());
    std::string last;  // so that one that fails does not keep the others waiting
    bool has_warned = false;
    // Returns: the next manifest after the last one that nobody works on; the first such where
    // there is none after it.
    const auto next_one = [&] {
        const auto is_free = [&](const auto& each) { return !locked_.contains(each.first); };
        auto next = std::find_if(pending_.upper_bound(last), pending_.end(), is_free);
        if (next == pending_.end()) next = std::find_if(pending_.begin(), pending_.end(), is_free);
        return next;
    };
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return next_one() != pending_.end(); }) &&
           !stop.stop_requested()) {
        last = next_one()->first;
        const std::vector<uploaded> callbacks = std::move(pending_.extract(last).mapped());
        uploading_ = last;
        lock.unlock();
        const auto done = upload(last);
        for (const uploaded& each : callbacks) each(done && *done);
        if (done && !*done) warn(last + " has left the disk before it was in the object store");
        if (!done && !has_warned)
            warn("could not upload " + last + " to the object store: " + done.error().what);
        has_warned = !done;
        lock.lock();
        uploading_.clear();
        // A manifest that lost against another machine's stays spared: its turns exist nowhere else
        // until refresh() has saved them in a fork.
        const bool is_over = done || done.error().code == object_errc::corrupt;
        if (is_over && !pending_.contains(last)) store_.spare(last, false);
        // A conflict with another machine says nothing about whether the object store works.
        has_failed_ = !done && done.error().code != object_errc::precondition_failed;
        changed_.notify_all();
        if (done) {
            tries = backoff(waits, std::random_device{}());
            continue;
        }
        if (done.error().code == object_errc::precondition_failed) {
            ++counts_.conflicts;
            continue;
        }
        ++counts_.failures;
        if (done.error().code == object_errc::corrupt) continue;  // no later try changes the file
        pending_.try_emplace(last);
        const auto wait = tries.next({}, {});
        changed_.wait_for(lock, stop, wait.value_or(waits.wait_max), [] { return false; });
    }
}

/// Blocks. Uploads one manifest, after its blocks, so that a reader of the manifest finds them.
/// Returns: whether the manifest is in the object store; false where it has left the disk
/// meanwhile.
object_result<bool> shared_agents::upload(const std::string& manifest) {
    for (int left = rereads_max;; --left) {
        const auto bytes = read_manifest(manifest);
        // Removed by the disk quota, or erased. The object store keeps what it has.
        if (!bytes && bytes.error().code == object_errc::not_found) return false;
        if (!bytes) return bytes.error();
        if (auto seen = look_at_sweeps(); !seen) return seen.error();
        auto blocks = upload_blocks(manifest, *bytes);
        // A later save has deleted the file of a block that was not full: read the new manifest.
        if (!blocks && blocks.error().code == object_errc::not_found && left > 1) continue;
        if (!blocks) return blocks.error();
        auto version = put_manifest(manifest, *bytes);
        if (!version) return version.error();
        if (auto safe = look_for_sweep(manifest, *bytes); !safe) return safe.error();
        const auto marked = write_mark(manifest, {*version, sum_of(*bytes)});
        if (options_.on_uploaded) options_.on_uploaded(std::string(agent_part(manifest)));
        std::lock_guard lock(mutex_);
        ++counts_.agents_uploaded;
        counts_.bytes_uploaded += bytes->size();
        if (!marked) return marked.error();
        return true;
    }
}

/// Blocks. Reads the notice of sweeps where it has changed. After a sweep any block may be gone, so
/// which blocks the object store has is forgotten.
object_result<void> shared_agents::look_at_sweeps() {
    const std::string name = sweep_notice::name;
    const auto there = objects_.stat(std::span(&name, 1));
    if (!there) return there.error();
    const std::string version = there->front() ? there->front()->version : std::string();
    if (version == sweep_.version) return {};
    auto seen = read_sweep_notice(objects_);
    // A damaged notice says nothing of what is to be uploaded, which waits until it is mended.
    if (!seen) return object_failure{object_errc::unavailable, seen.error().what};
    sweep_ = std::move(*seen);
    there_.clear();
    return {};
}

/// Blocks. Checks that no sweep can have missed the manifest that was just put: none began
/// meanwhile, and none removes something that it needs. Sweeps that begin later see it. Errors:
/// unavailable where that is not so; the upload is tried again and succeeds when the sweep is over.
object_result<void> shared_agents::look_for_sweep(const std::string& manifest,
                                                  const std::string& bytes) {
    const std::string before = sweep_.version;
    if (auto ok = look_at_sweeps(); !ok) return ok;
    bool is_safe = sweep_.version == before && !sweep_.notice.going.contains(manifest);
    if (const auto decoded = decode_manifest(bytes); decoded && !sweep_.notice.going.empty())
        for (const agent_part_file& each : files_of(decoded->agent))
            is_safe = is_safe && !sweep_.notice.going.contains(each.path);
    if (is_safe) return {};
    there_.clear();
    return unavailable("the object store is being swept");
}

/// Blocks. Uploads the block files that a manifest needs and the object store lacks, several at
/// once. Errors: not_found where a block file is gone; corrupt; those of the store.
object_result<void> shared_agents::upload_blocks(const std::string& manifest,
                                                 const std::string& bytes) {
    const auto decoded = decode_manifest(bytes);
    if (!decoded)
        return object_failure{object_errc::corrupt, manifest + ": " + decoded.error().what};
    // The manifest does not say which blocks have a sliding half, so one that has no file here is
    // left out.
    std::vector<std::string> unknown;
    for (agent_part_file& each : files_of(decoded->agent))
        if (!there_.contains(each.path) && (each.is_needed || is_here(each.path)))
            unknown.push_back(std::move(each.path));
    const auto known = look_for_blocks(unknown);
    if (!known) return known.error();
    std::mutex mutex;  // guards `why`
    std::optional<object_failure> why;
    uploaders_.run(unknown.size(), [&](std::size_t i) {
        if (std::lock_guard lock(mutex); why || (*known)[i]) return;
        const auto done = upload_block(unknown[i]);
        if (done) return;
        std::lock_guard lock(mutex);
        why = done.error();
    });
    if (why) return *why;
    if (options_.blocks != nullptr && !unknown.empty()) options_.blocks->note(unknown);
    for (std::string& each : unknown)
        // Of what does not fit the store is asked again.
        if (there_.size() < there_max) there_.insert(std::move(each));
    return {};
}

/// Blocks. Returns: for each path whether it is in the object store. Up to four that no node has
/// put lately (by the hint in Redis), such as the new blocks of a turn, are taken as absent without
/// asking; they are put on the condition that they are absent, so a wrong guess costs only the
/// upload. More may mean that Redis has lost its hints: then the store is asked.
object_result<std::vector<bool>> shared_agents::look_for_blocks(
    const std::vector<std::string>& paths) {
    std::vector<bool> there(paths.size(), true);
    if (options_.blocks != nullptr)
        if (auto said = options_.blocks->look(paths))
            if (std::ranges::count(*said, false) <= believed_max) there = std::move(*said);
    std::vector<std::string> asked;
    for (std::size_t i = 0; i < paths.size(); ++i)
        if (there[i]) asked.push_back(paths[i]);
    const auto stats = objects_.stat(asked);
    if (!stats) return stats.error();
    auto stat = stats->begin();
    for (std::size_t i = 0; i < paths.size(); ++i)
        if (there[i]) there[i] = (stat++)->has_value();
    return there;
}

/// Whether the file exists in this directory; true where the disk does not answer: reading it will
/// show.
bool shared_agents::is_here(const std::string& path) const {
    const auto found = files_.exists(options_.directory + "/" + path);
    return !found || *found;
}

/// Blocks. Uploads one block file unless the store has it. Errors: not_found where the file is
/// gone.
object_result<void> shared_agents::upload_block(const std::string& path) {
    const auto file = read_whole(files_, options_.directory + "/" + path, object_bytes_max);
    if (!file) return of_file(file.error());
    auto put = objects_.put(path, *file, if_absent());
    if (!put && put.error().code == object_errc::precondition_failed) return {};
    if (!put) return put.error();
    std::lock_guard lock(mutex_);
    ++counts_.blocks_uploaded;
    counts_.bytes_uploaded += file->size();
    return {};
}

/// Blocks. Puts a manifest over the version that this directory has seen, or over an older state of
/// itself. Returns: its new version. Errors: precondition_failed where another machine has
/// continued the agent.
object_result<std::string> shared_agents::put_manifest(const std::string& manifest,
                                                       const std::string& bytes) {
    const auto seen = read_mark(manifest);
    auto put = objects_.put(manifest, bytes, seen ? if_version(seen->version) : if_absent());
    if (put || put.error().code != object_errc::precondition_failed) return put;
    std::string there;
    const auto got = objects_.get(manifest, there);
    if (!got && got.error().code == object_errc::not_found)  // the object store has lost it
        return objects_.put(manifest, bytes, if_absent());
    if (!got) return put;
    // Its own earlier upload, after which the process ended before it noted the version.
    if (there == bytes) return got->version;
    if (is_ancestor(there, bytes)) return objects_.put(manifest, bytes, if_version(got->version));
    return put;
}

}  // namespace semantic::storage
