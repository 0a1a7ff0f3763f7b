// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/evictor.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "storage/disk/manifest.hpp"

namespace semantic::storage {

// --- the pool ---

bool evictor::free_frames(std::size_t frames, const agent_id* keep) {
    const std::shared_lock visiting(parts_.home->visits);
    while (parts_.pool.free_count() < frames) {
        state_ptr former;  // destroyed after the lock is released: that frees the frames
        const agent_index::lock locked(parts_.index);
        if ((former = evict_clean(locked, keep))) continue;
        // No clean agent is left. Agents whose save failed would hold their frames for ever, so
        // they lose first their sliding frames, then everything.
        for (store_parts* each : in_pool(locked))
            if (!former) former = each->index.evict_passed_of_failed(locked);
        if (former) continue;
        for (store_parts* each : in_pool(locked)) {
            if (former) break;
            if (!(former = each->index.forget_failed(locked, each == &parts_ ? keep : nullptr)))
                continue;
            ++parts_.probe.agents_lost;
            evictor(*each).report_fate(former->id, memory_fate::lost);
        }
        // Nothing is left to evict; another thread may have freed frames meanwhile.
        if (!former) return parts_.pool.free_count() >= frames;
    }
    return true;
}

/// Evicts the clean agent that is the easiest to do without, of all models that share the pool.
/// `keep`: an agent of this store that stays; may be null. Returns: its former state, null when
/// there is none.
state_ptr evictor::evict_clean(const agent_index::lock& locked, const agent_id* keep) {
    const auto now = std::chrono::system_clock::now();
    store_parts* owner = nullptr;
    agent_index::clean_agent victim;
    std::vector<claimant> claimants;
    for (store_parts* each : in_pool(locked)) each->index.weigh_claims(locked, now, claimants);
    cut_to_share(std::move(claimants),
                 share_of(parts_.pool.budget().bytes(), parts_.options.kept_share_percent));
    for (store_parts* each : in_pool(locked)) {
        const agent_id* kept = each == &parts_ ? keep : nullptr;
        const auto found = each->index.most_dispensable(locked, now, kept);
        if (found.agent == nullptr || found.score <= victim.score) continue;
        victim = found;
        owner = each;
    }
    if (owner == nullptr) return nullptr;
    state_ptr former = owner->index.drop_blocks(locked, *victim.agent);
    ++parts_.probe.evictions;
    if (victim.agent->claim >= memory_claim::kept) ++parts_.probe.kept_evictions;
    evictor(*owner).report_fate(former->id, memory_fate::evicted);
    return former;
}

/// Returns: the stores whose agents have frames of the same pool budget, this one first.
std::vector<store_parts*> evictor::in_pool(const agent_index::lock& locked) const {
    std::vector<store_parts*> found{&parts_};
    for (store_parts* each : parts_.others(locked))
        if (each->pool.shares_with(parts_.pool)) found.push_back(each);
    return found;
}

bool evictor::free_frames_for(const agent_id& id, std::size_t frames) {
    return free_frames(frames, &id) || free_frames(frames, nullptr);
}

bool evictor::evict(const agent_id& id) {
    state_ptr former;  // destroyed after the lock is released
    const agent_index::lock locked(parts_.index);
    agent_record* agent = parts_.index.find(locked, id);
    if (agent == nullptr || agent->dirty) return false;
    former = parts_.index.drop_blocks(locked, *agent);
    if (former) {
        ++parts_.probe.evictions;
        report_fate(id, memory_fate::evicted);
    }
    return true;
}

/// Reports to store_options::on_left what happened to the agent's memory.
void evictor::report_fate(const agent_id& id, memory_fate fate) const {
    if (parts_.options.on_left) parts_.options.on_left(id, fate);
}

// --- the disk ---

result<disk_quota::promise> evictor::free_disk(std::uint64_t bytes) {
    auto made = make_disk_room(nullptr, [&](std::optional<std::uint64_t> left_free) {
        return parts_.quota.try_promise(bytes, disk_use::memory, left_free);
    });
    if (!made) return made.error();
    return disk_quota::promise(parts_.quota, bytes);
}

result<disk_quota::promise> evictor::free_disk_for_record(const tenant_id& tenant,
                                                          std::uint64_t bytes) {
    auto made = make_disk_room(&tenant, [&](std::optional<std::uint64_t> left_free) {
        return parts_.quota.try_promise(bytes, disk_use::record, left_free);
    });
    if (!made) return made.error();
    return disk_quota::promise(parts_.quota, bytes);
}

result<void> evictor::free_disk_for_upload(const tenant_id& tenant, std::uint64_t bytes) {
    return make_disk_room(&tenant, [&](std::optional<std::uint64_t> left_free) {
        return parts_.quota.try_add_upload(bytes, left_free);
    });
}

/// Blocks. Asks `ask` for a reservation until it is granted, and removes one thing after each
/// refusal. `owner`: whose memories may be removed; null: everybody's. Errors: out_of_space, where
/// removing all that may go would not do, or where removals have proved not to help; those of
/// `ask`.
result<void> evictor::make_disk_room(const tenant_id* owner, const room_seeker& ask) {
    // Mostly there is room. Then this write need not wait for the mutex.
    auto found = ask({});
    if (!found) return found.error();
    if (found->shortage.missing_bytes() == 0) return {};
    // One at a time, so that what may go is not counted for two writes.
    open_directory& home = *parts_.home;
    const std::lock_guard one_at_a_time(home.relief_mutex);
    std::set<std::string> in_vain;
    std::optional<std::uint64_t> left_free;
    while (true) {
        found = ask(left_free);
        if (!found) return found.error();
        left_free = found->left_free;
        const disk_shortage& lack = found->shortage;
        const std::uint64_t missing = lack.missing_bytes();
        if (missing == 0) return {};
        const file_gain wanted{missing, 0};
        const bool may_help = estimate_gain(wanted, in_vain, owner).covers(wanted) &&
                              (lack.space_bytes == 0 ||
                               home.trust.may_help(found->space, removal_trust::clock::now()));
        const disk_moment before = look_at_disk(found->space);
        if (!may_help || !remove_one(in_vain, owner))
            return failure{errc::out_of_space, found->sentence};
        if (lack.space_bytes > 0) note_gain(before, {missing, 0});
    }
}

evictor::disk_moment evictor::look_at_disk(const disk_space& space) const {
    return {space, parts_.quota.held_bytes(), parts_.quota.promised_bytes()};
}

/// Compares the file system with how it was `before` a removal. Where it got no room for what was
/// `wanted`, removals count as useless for a while (removal_trust). Bytes that were promised to
/// other writes may have been used meanwhile, so they are taken as gained. Requires: relief_mutex
/// is held.
void evictor::note_gain(const disk_moment& before, const file_gain& wanted) {
    const std::uint64_t held = parts_.quota.held_bytes();
    const auto after = parts_.files.space(parts_.options.directory);
    // Where no file was removed, the figures say nothing about removals.
    if (!after || held >= before.held_bytes) return;
    const bool has_bytes = after->free_bytes + before.promised_bytes > before.space.free_bytes;
    const bool has_files = before.promised_bytes > 0 || after->free_files > before.space.free_files;
    if ((wanted.bytes > 0 && has_bytes) || (wanted.files > 0 && has_files)) return;
    removal_trust::removal vain{*after};
    // At least a page must become free before removals are trusted again: a smaller change may be
    // chance.
    const std::uint64_t bytes_least = 4096;
    if (wanted.bytes > 0) vain.bytes = std::max(before.held_bytes - held, bytes_least);
    if (wanted.files > 0) vain.files = 1;
    vain.unmet_bytes = wanted.bytes;
    parts_.home->trust.note_in_vain(vain, removal_trust::clock::now());
}

/// Returns: the bytes and files that removing everything that may go would free. Stops counting
/// when that is `enough`. `in_vain`: manifests that could not be removed and are left out; `owner`:
/// as make_disk_room().
file_gain evictor::estimate_gain(const file_gain& enough, const std::set<std::string>& in_vain,
                                 const tenant_id* owner) const {
    const agent_index::lock locked(parts_.index);
    block_files::gain_estimate blocks(parts_.blocks);
    file_gain manifests;
    const auto sum = [&] {
        return file_gain{manifests.bytes + blocks.sum().bytes,
                         manifests.files + blocks.sum().files};
    };
    parts_.index.visit_removables(locked, in_vain, owner, [&](const agent_index::removable& each) {
        if (sum().covers(enough)) return false;
        manifests.bytes += each.manifest_bytes;
        manifests.files += each.manifest_bytes > 0 ? 1 : 0;
        blocks.add(each.saved);
        blocks.add(each.attempted);
        return true;
    });
    if (!sum().covers(enough)) blocks.add_unneeded();
    return sum();
}

bool evictor::relieve(unmet_write& write) {
    open_directory& home = *parts_.home;
    const std::lock_guard one_at_a_time(home.relief_mutex);
    const auto before = parts_.files.space(parts_.options.directory);
    if (!before) return false;
    file_gain wanted;
    if (before->free_bytes < write.bytes) wanted.bytes = write.bytes - before->free_bytes;
    // 0: the file system does not count inodes.
    if (before->total_files > 0 && before->free_files < write.files)
        wanted.files = write.files - before->free_files;
    if (wanted.files > 0 && !std::exchange(write.has_removed_directories, true) &&
        parts_.blocks.remove_empty_directories() > 0)
        return true;
    const auto now = removal_trust::clock::now();
    // A write was refused by a quota of the user (EDQUOT), which the figures of the file system do
    // not show. So the largest file's bytes are removed and the write is tried again; if it has
    // written nothing even then, removals do not help.
    if (before->quota_refusals > write.quota_refusals) {
        if (write.bytes_removed >= write.largest_file && !write.has_progressed) {
            home.trust.note_in_vain({*before, {}, {}, write.bytes}, now);
            return false;
        }
        wanted.bytes = std::max(wanted.bytes, write.largest_file);
    }
    // The file system refused the write and yet says that it has room: no removal changes that.
    if (wanted.bytes == 0 && wanted.files == 0) return false;
    if (!home.trust.may_help(*before, now)) return false;
    if (!estimate_gain(wanted, write.in_vain, nullptr).covers(wanted)) return false;
    const disk_moment moment = look_at_disk(*before);
    if (!remove_one(write.in_vain, nullptr)) return false;
    const std::uint64_t left = parts_.quota.held_bytes();
    if (left < moment.held_bytes) write.bytes_removed += moment.held_bytes - left;
    // The figures of the file system do not show what a user's quota gained.
    if (before->quota_refusals == write.quota_refusals) note_gain(moment, wanted);
    return true;
}

void evictor::note_written(std::uint64_t bytes) {
    const std::lock_guard one_at_a_time(parts_.home->relief_mutex);
    parts_.home->trust.note_written(bytes);
}

bool evictor::remove_one(std::set<std::string>& in_vain) { return remove_one(in_vain, nullptr); }

/// Leftovers go first, then block files that nobody needs, then a memory. Where the index cannot
/// know which blocks are needed (a manifest of a later format), block files stay.
bool evictor::remove_one(std::set<std::string>& in_vain, const tenant_id* owner) {
    const std::shared_lock visiting(parts_.home->visits);
    const agent_index::removal chosen = choose_removal(in_vain, owner);
    std::optional<manifest_turn> mine;
    if (!chosen.path.empty()) mine.emplace(parts_.index, chosen.path, std::adopt_lock);
    if (!chosen.is_leftover && chosen.orphans_may_go && parts_.blocks.remove_unneeded() > 0)
        return true;
    if (chosen.path.empty()) return false;
    bool gone = false;
    if (!chosen.agent) gone = remove_foreign(chosen.path);
    for (store_parts* each : others())
        if (&each->index == chosen.member)
            gone = evictor(*each).remove_agent(*chosen.agent, chosen.path);
    if (chosen.member == &parts_.index) gone = remove_agent(*chosen.agent, chosen.path);
    // True is returned all the same: the caller tries again, and `in_vain` leaves this one out.
    if (!gone) in_vain.insert(chosen.path);
    if (gone && chosen.claim >= memory_claim::kept) {
        ++parts_.probe.kept_removals;
        parts_.index.set_unkept(agent_index::lock(parts_.index), chosen.path);
    }
    return true;
}

agent_index::removal evictor::choose_removal(const std::set<std::string>& in_vain,
                                             const tenant_id* owner) {
    const agent_index::lock locked(parts_.index);
    parts_.weigh_disk_claims(locked);
    return parts_.index.choose_removal(locked, std::chrono::system_clock::now(), in_vain, owner);
}

/// Deletes a foreign manifest and counts it. Requires: the caller has its turn. Returns: whether it
/// is gone.
bool evictor::remove_foreign(const std::string& manifest) {
    if (!unlink_manifest(manifest)) return false;
    const bool is_leftover = !forget_foreign(manifest).agent;
    ++(is_leftover ? parts_.probe.incompatible_removals : parts_.probe.disk_removals);
    return true;
}

/// Removes a foreign manifest, whose file was deleted, from the index and the quota, and releases
/// its blocks. Returns: what was known of it.
foreign_manifest evictor::forget_foreign(const std::string& manifest) {
    foreign_manifest taken = parts_.index.take_foreign(agent_index::lock(parts_.index), manifest);
    parts_.quota.remove(taken.bytes);
    parts_.blocks.release(taken.names);
    return taken;
}

/// Deletes the memory of an agent of this store from the disk. Requires: the caller has its turn.
/// Returns: false where the file could not be deleted, or where a request began to use the agent
/// meanwhile; the agent is then saved again.
bool evictor::remove_agent(const agent_id& id, const std::string& manifest) {
    if (!unlink_manifest(manifest)) return false;
    state_ptr former;  // destroyed after the lock is released: that may free frames
    std::vector<block_hash> dropped;
    {
        const agent_index::lock locked(parts_.index);
        agent_record& agent = *parts_.index.find(locked, id);
        if (agent.dirty || parts_.index.is_held(locked, id)) {
            // A request uses the agent since it was chosen: its blocks stay, and the next save
            // writes its manifest again.
            parts_.quota.remove(std::exchange(agent.manifest_bytes, 0));
            agent.appendable.reset();
            agent.mark_dirty();
            return false;
        }
        dropped = take_files(agent);
        former = parts_.index.take(locked, id).state;
        parts_.index.set_absent(locked, manifest, shortfall::evicted);
    }
    parts_.blocks.release(dropped);
    ++parts_.probe.disk_removals;
    report_fate(id, memory_fate::removed);
    return true;
}

/// Returns: the stores of other models on the directory. Requires: home->visits is held, so that
/// none of them closes.
std::vector<store_parts*> evictor::others() const {
    return parts_.others(agent_index::lock(parts_.index));
}

result<void> evictor::erase(const agent_id& id) {
    const std::shared_lock visiting(parts_.home->visits);
    const std::string own = parts_.shape.manifest_of(id);
    bool found = false;
    // The loaded model's memory is erased last. If a crash interrupts this, the agent is still
    // listed and can be erased again.
    for (const std::string& each : foreign_manifests_of(own)) {
        auto gone = erase_foreign(each);
        if (!gone) return gone.error();
        found = found || *gone;
    }
    for (store_parts* each : others()) {
        auto gone = evictor(*each).erase_own(id, each->shape.manifest_of(id));
        if (!gone) return gone.error();
        found = found || *gone;
    }
    auto gone = erase_own(id, own);
    if (!gone) return gone.error();
    if (!found && !*gone) return failure{errc::not_found, "no agent " + id.str()};
    return {};
}

result<void> evictor::erase(const agent_id& id, const block_hash& fingerprint) {
    const std::shared_lock visiting(parts_.home->visits);
    const std::string manifest = parts_.shape.manifest_of(id, fingerprint);
    store_parts* owner = fingerprint == parts_.options.fingerprint ? &parts_ : nullptr;
    for (store_parts* each : others())
        if (each->options.fingerprint == fingerprint) owner = each;
    auto gone =
        owner != nullptr ? evictor(*owner).erase_own(id, manifest) : erase_foreign(manifest);
    if (!gone) return gone.error();
    if (*gone) return {};
    return failure{errc::not_found,
                   "no memory of the agent " + id.str() + " by the model " + fingerprint.hex()};
}

/// Returns: the paths of manifests that other models have of the agent whose manifest is `own`.
std::vector<std::string> evictor::foreign_manifests_of(const std::string& own) const {
    const agent_index::lock locked(parts_.index);
    std::vector<std::string> paths;
    for (const auto& each : parts_.index.foreign(locked).beginning_with(agent_part(own)))
        if (each->first != own) paths.push_back(each->first);
    return paths;
}

/// Blocks. Deletes a foreign manifest. Returns: whether there was one. Errors: io.
result<bool> evictor::erase_foreign(const std::string& manifest) {
    const manifest_turn mine(parts_.index, manifest);
    if (!parts_.index.foreign(agent_index::lock(parts_.index)).contains(manifest)) return false;
    if (auto gone = unlink_manifest(manifest); !gone) return gone.error();
    forget_foreign(manifest);
    return true;
}

/// Blocks. Erases the agent's memory under this store's model, or a foreign manifest of the same
/// path. Returns: whether there was one. Errors: io.
result<bool> evictor::erase_own(const agent_id& id, const std::string& manifest) {
    const manifest_turn mine(parts_.index, manifest);
    {
        const agent_index::lock locked(parts_.index);
        if (parts_.index.find(locked, id) == nullptr &&
            !parts_.index.foreign(locked).contains(manifest))
            return false;
    }
    if (auto gone = unlink_manifest(manifest); !gone) return gone.error();
    state_ptr former;  // destroyed after the lock is released
    std::vector<block_hash> dropped;
    {
        const agent_index::lock locked(parts_.index);
        foreign_manifest taken = parts_.index.take_foreign(locked, manifest);
        dropped = std::move(taken.names);
        parts_.quota.remove(taken.bytes);
        if (parts_.index.find(locked, id) != nullptr) {
            agent_record agent = parts_.index.take(locked, id);
            former = std::move(agent.state);
            dropped = concatenated(std::move(dropped), take_files(agent));
        }
    }
    parts_.blocks.release(dropped);
    return true;
}

/// Blocks. Deletes a manifest and syncs its folder; success also where it does not exist. Errors:
/// io. After an error the manifest may come back with a crash, so the blocks that it names must
/// stay.
result<void> evictor::unlink_manifest(const std::string& relative) {
    auto gone = parts_.files.unlink(parts_.full_path(relative));
    if (!gone && gone.error().code != errc::not_found) return gone;
    auto synced = parts_.files.sync_directory(parts_.full_path("agents"));
    // Where the folder itself is gone, nothing in it can come back.
    if (!synced && synced.error().code == errc::not_found) return {};
    return synced;
}

/// Empties the agent's list of files, its manifest being deleted, and takes that off the quota.
/// Returns: the blocks that the agent retained, for the caller to release.
std::vector<block_hash> evictor::take_files(agent_record& agent) {
    parts_.quota.remove(std::exchange(agent.manifest_bytes, 0));
    return concatenated(std::exchange(agent.saved, {}), std::exchange(agent.attempted, {}));
}

}  // namespace semantic::storage
