// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_saver.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "storage/disk/manifest.hpp"
#include "storage/files/checksum.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

result<save_report> agent_saver::save(const agent_id& id, save_extent extent) {
    const std::string path = parts_.shape.manifest_of(id);
    const manifest_turn mine(parts_.index, path);
    cache_directory::repairs left;
    auto report = save_once(id, path, extent, left);
    while (!report && directory_.repair(report.error(), left))
        report = save_once(id, path, extent, left);
    if (report) return report;
    ++parts_.probe.save_failures;
    if (left.is_over_bound)
        ++parts_.probe.saves_over_bound;
    else if (report.error().code == errc::out_of_space)
        ++parts_.probe.saves_out_of_space;
    const agent_index::lock locked(parts_.index);
    if (agent_record* agent = parts_.index.find(locked, id)) {
        // Where check() failed, nobody has looked at the agent yet: it may be clean, and then it
        // lacks nothing on disk.
        agent->save_failed = agent->dirty;
        agent->is_over_bound = left.is_over_bound;
    }
    return report;
}

/// Blocks. One attempt to save the agent: takes a snapshot, plans and writes its files, then brings
/// the index up to date. Where it fails, `left` notes what may be repaired before another attempt.
/// Requires: the caller has the manifest_turn of `path`.
result<save_report> agent_saver::save_once(const agent_id& id, const std::string& path,
                                           save_extent extent, cache_directory::repairs& left) {
    if (auto ok = directory_.check(id, path); !ok) return ok.error();
    snapshot saved = take_snapshot(id, extent);
    if (saved.state == nullptr) return save_report{};
    std::vector<block_hash> all_names = concatenated(saved.names, saved.kept_names);
    parts_.blocks.retain(all_names);
    const auto start = std::chrono::steady_clock::now();
    auto plan = plan_manifest(saved, saved.bytes_written);
    save_report written;
    const auto done =
        plan ? write_out(path, saved, *plan, left, written) : result<void>(plan.error());
    result<save_report> report = done ? result<save_report>(written) : done.error();
    parts_.probe.save_time.observe(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::vector<block_hash> dropped;
    state_ptr with_passed;  // destroyed after the lock is released
    {
        const agent_index::lock locked(parts_.index);
        // It is still there: only the holder of the manifest's turn may remove it.
        agent_record& agent = *parts_.index.find(locked, id);
        // Files were removed from outside meanwhile, perhaps some that this save relied on. The
        // next attempt writes the manifest again as a whole, so these bytes are not counted twice.
        if (report && saved.reconciliations != parts_.index.reconciliations(locked)) {
            parts_.quota.remove(plan->bytes.size());
            report =
                failure{errc::not_found, parts_.options.directory + ": files went away meanwhile"};
        }
        agent.bytes_written += written.bytes_written;
        agent.bytes_of_turn += written.bytes_written;
        agent.save_failed = !report;
        if (report) agent.is_over_bound = false;
        with_passed = parts_.index.drop_passed(locked, agent, agent_index::passed_frames::saved);
        if (!report) {
            // The manifest may have been written all the same, so the blocks that it names are
            // retained further.
            agent.attempted = concatenated(std::move(agent.attempted), all_names);
            return report;
        }
        foreign_manifest replaced = parts_.index.take_foreign(locked, path);
        dropped = concatenated(std::exchange(agent.saved, std::move(all_names)), replaced.names);
        agent.saved_blocks = saved.names.size();
        parts_.quota.remove(replaced.bytes);
        if (!plan->append) parts_.quota.remove(agent.manifest_bytes);
        agent.manifest_bytes = plan->file_bytes;
        agent.appendable = std::move(plan->next);
        // Else the agent has changed meanwhile, or its tail is not saved yet: it stays dirty.
        if (agent.version == saved.version && extent == save_extent::everything) {
            agent.dirty = false;
            dropped = concatenated(std::move(dropped), std::exchange(agent.attempted, {}));
            agent.pinned.clear();
        }
    }
    parts_.blocks.release(dropped);
    return report;
}

/// Copies from the index what a save needs, so that it can write without the lock. The snapshot has
/// no state where the agent is gone, clean, or has nothing to save in this extent. Requires: the
/// caller has the manifest_turn of the agent.
agent_saver::snapshot agent_saver::take_snapshot(const agent_id& id, save_extent extent) {
    const agent_index::lock locked(parts_.index);
    agent_record* agent = parts_.index.find(locked, id);
    if (agent == nullptr || !agent->dirty) return {};
    snapshot saved{agent->state,
                   agent->names,
                   {},
                   {},
                   agent->version,
                   agent->manifest_bytes,
                   parts_.index.reconciliations(locked),
                   {},
                   agent->bytes_written,
                   agent->bytes_of_turn};
    if (extent == save_extent::full_blocks) saved.state = without_tail(*agent, saved.names);
    if (saved.state) choose_kept(*agent, saved);
    // If this save fails, nobody knows how the manifest ends. So the index forgets that it can be
    // appended to until a save has succeeded.
    if (saved.state) saved.before = std::exchange(agent->appendable, std::nullopt);
    return saved;
}

/// Puts the recurrent states into the snapshot that its manifest can name. Left out are states that
/// are lost (neither in the pool nor on disk), and those that are still waiting to be written.
void agent_saver::choose_kept(const agent_record& agent, snapshot& saved) const {
    for (std::size_t i = 0; i < agent.kept_names.size(); ++i) {
        const kept_state& each = agent.state->states[i];
        if (each.tokens > saved.state->tokens.size()) break;
        const bool is_there = parts_.blocks.is_good(agent.kept_names[i], kv_part::state);
        if (!is_there && (each.waits || each.state == nullptr)) continue;
        saved.kept.push_back(each);
        saved.kept_names.push_back(agent.kept_names[i]);
    }
}

/// Returns: the agent's state without its last block where that is not full, `names` shortened
/// likewise; null when the manifest on disk has these blocks already.
state_ptr agent_saver::without_tail(const agent_record& agent,
                                    std::vector<block_hash>& names) const {
    const std::size_t per_block = parts_.shape.block_tokens();
    const std::size_t full = agent.state->tokens.size() / per_block;
    names.resize(full);
    const std::span saved(agent.saved.data(), agent.saved_blocks);
    if (full == 0 || saved.size() > full || std::ranges::equal(saved, names)) return nullptr;
    auto shorter = std::make_shared<agent_state>(*agent.state);
    shorter->tokens.resize(full * per_block);
    shorter->token_ends.resize(shorter->tokens.size());
    shorter->text.resize(shorter->token_ends.back());
    shorter->blocks.resize(full);
    shorter->states.resize(count_kept_within(shorter->states, shorter->tokens.size()));
    std::erase_if(shorter->messages,
                  [&](const message_end& each) { return each.tokens > shorter->tokens.size(); });
    return shorter;
}

/// Returns: a mark for each full block, by which the next save sees how much of the manifest on
/// disk is still right: its name, and a hash of its text and of where its tokens end.
std::vector<block_mark> agent_saver::marks_of(const agent_state& state,
                                              const std::vector<block_hash>& names) const {
    std::vector<block_mark> marks;
    const std::size_t per_block = parts_.shape.block_tokens();
    for (std::size_t i = 0; (i + 1) * per_block <= state.tokens.size(); ++i) {
        const auto ends = std::span(state.token_ends).subspan(i * per_block, per_block);
        const std::uint32_t begin = i == 0 ? 0 : state.token_ends[i * per_block - 1];
        marks.push_back(
            {names[i], field_hasher()
                           .add(std::as_bytes(ends))
                           .add(std::string_view(state.text).substr(begin, ends.back() - begin))
                           .finish()});
    }
    return marks;
}

/// Encodes the manifest of the snapshot. Returns: a record to append that has only what is new; or
/// the whole file, where there is none to append to, or where the file would become more than twice
/// as long as when it was last written whole. `bytes_written`: the bytes written for the agent
/// since it was made; they are encoded in a fixed width, so the plan's size does not depend on
/// them. Errors: those of encode_update() and encode_manifest().
result<agent_saver::manifest_plan> agent_saver::plan_manifest(const snapshot& saved,
                                                              std::uint64_t bytes_written) const {
    const agent_state& state = *saved.state;
    manifest agent;
    for (std::size_t i = 0; i < saved.names.size(); ++i) {
        const auto at = parts_.shape.place(state, saved.names, i);
        agent.blocks.push_back({at.name, static_cast<int>(at.identity.tokens.size())});
    }
    agent.fingerprint = parts_.options.fingerprint;
    agent.agent = state.id.str();
    agent.tenant = state.id.tenant();
    agent.tokens = state.tokens;
    agent.text = state.text;
    agent.token_ends = state.token_ends;
    agent.created = state.created;
    agent.last_used = state.last_used;
    agent.notes = state.notes;
    for (const auto& [note, value] : {std::pair(model_note, &parts_.options.model),
                                      std::pair(model_name_note, &parts_.options.model_name)})
        if (!value->empty()) agent.notes[note] = *value;
    agent.notes[written_note] = encode_written(bytes_written);
    if (const std::string policy = encode_policy(state.policy); !policy.empty())
        agent.notes[policy_note] = policy;
    agent.notes.erase(private_note);
    if (state.is_private()) agent.notes[private_note] = parts_.shape.salt_of(state);
    agent.messages = state.messages;
    for (std::size_t i = 0; i < saved.kept.size(); ++i)
        agent.states.push_back({saved.kept[i].tokens, saved.kept[i].is_root, saved.kept_names[i]});
    manifest_plan plan;
    plan.next.marks = marks_of(state, saved.names);
    plan.next.messages = state.messages;
    if (saved.before) {
        const manifest_journal& before = *saved.before;
        const auto common = std::ranges::mismatch(before.marks, plan.next.marks).in1;
        const auto same_blocks = static_cast<std::size_t>(common - before.marks.begin());
        const auto changed = std::ranges::mismatch(before.messages, agent.messages).in1;
        const manifest_kept kept{
            .blocks = same_blocks,
            .tokens = same_blocks * parts_.shape.block_tokens(),
            .messages = static_cast<std::size_t>(changed - before.messages.begin())};
        auto update = encode_update(agent, kept, before.seal);
        if (!update) return update.error();
        plan.file_bytes = saved.file_bytes + update->bytes.size();
        // 4 KiB more, so that the manifests of short conversations are not rewritten each turn.
        if (plan.file_bytes <= 2 * before.bytes_at_first + 4096) {
            plan.append = true;
            plan.bytes = std::move(update->bytes);
            plan.next.seal = update->seal;
            plan.next.bytes_at_first = before.bytes_at_first;
            return plan;
        }
    }
    auto whole = encode_manifest(agent);
    if (!whole) return whole.error();
    plan.bytes = std::move(whole->bytes);
    plan.file_bytes = plan.bytes.size();
    plan.next.seal = whole->seal;
    plan.next.bytes_at_first = plan.file_bytes;
    return plan;
}

/// Returns: an upper bound of what write_out() needs: bytes; inodes, of files and the directories
/// that they may need; the size of the largest file.
evictor::unmet_write agent_saver::size_of_write(const snapshot& saved,
                                                const manifest_plan& plan) const {
    evictor::unmet_write size;
    size.bytes = plan.bytes.size();
    size.largest_file = plan.bytes.size();
    size.files = 1;
    for (std::size_t i = 0; i < saved.names.size(); ++i)
        for (const kv_part part : kv_parts) {
            if (saved.state->blocks[i].at(part) == nullptr ||
                parts_.blocks.is_good(saved.names[i], part))
                continue;
            const std::uint64_t bytes = parts_.formats.format_for(part).file_bytes_max(
                parts_.shape.place(*saved.state, saved.names, i).identity.tokens.size());
            size.bytes += bytes;
            size.largest_file = std::max(size.largest_file, bytes);
            // The file, and a folder that it may need.
            size.files += 2;
        }
    for (std::size_t i = 0; i < saved.kept.size(); ++i) {
        if (saved.kept[i].state == nullptr ||
            parts_.blocks.is_good(saved.kept_names[i], kv_part::state))
            continue;
        const std::uint64_t bytes =
            state_file_bytes_max(parts_.shape.block_tokens(), parts_.shape.layout().state_bytes());
        size.bytes += bytes;
        size.largest_file = std::max(size.largest_file, bytes);
        size.files += 2;
    }
    if (const auto space = parts_.files.space(parts_.options.directory))
        size.quota_refusals = space->quota_refusals;
    return size;
}

/// Blocks. Reserves the bytes of the save, within the bound on writes and the disk quota, and
/// writes the files. `relative` is the path of the manifest. Where the file system is full despite
/// the reservation, `left.unmet` says what is missing. Errors: out_of_space, io and what the files
/// gave.
result<void> agent_saver::write_out(const std::string& relative, const snapshot& saved,
                                    manifest_plan& plan, cache_directory::repairs& left,
                                    save_report& report) {
    evictor::unmet_write size = size_of_write(saved, plan);
    // Earlier attempts of this save removed files already; relieve() must know how many.
    if (const auto before = std::exchange(left.unmet, std::nullopt)) {
        size.bytes_removed = before->bytes_removed;
        size.in_vain = before->in_vain;
        size.has_removed_directories = before->has_removed_directories;
    }
    write_bound& bound = parts_.home->writes;
    if (auto why = bound.reserve(size.bytes, saved.bytes_of_turn, write_bound::clock::now())) {
        left.is_over_bound = true;
        return failure{errc::out_of_space, std::move(*why)};
    }
    auto room = room_.free_disk(size.bytes);
    auto written = room ? write_files(relative, saved, plan, *room, report) : room.error();
    bound.settle(size.bytes, report.bytes_written);
    // unmet stays empty: the budget refused the bytes, not the file system.
    if (!room) return written;
    if (written) {
        room_.note_written(report.bytes_written);
        return written;
    }
    size.has_progressed = report.bytes_written > 0;
    left.unmet = std::move(size);
    return written;
}

/// Blocks. Writes in the order that the promise needs: block files, recurrent states, a sync of all
/// of them, and the manifest that names them as the last one. So a crash leaves no manifest without
/// its blocks.
result<void> agent_saver::write_files(const std::string& relative, const snapshot& saved,
                                      manifest_plan& plan, disk_quota::promise& room,
                                      save_report& report) {
    if (auto ok = write_blocks(saved, room, report); !ok) return ok;
    if (auto ok = write_kept(saved, room, report); !ok) return ok;
    if (auto ok = parts_.blocks.make_lasting(concatenated(saved.names, saved.kept_names)); !ok)
        return ok;
    // Encoded a second time, since the manifest notes how many bytes were written for the agent,
    // its own included. The note has a fixed width, so the size stays.
    const std::uint64_t bytes = plan.bytes.size();
    auto final_plan = plan_manifest(saved, saved.bytes_written + report.bytes_written + bytes);
    if (!final_plan) return final_plan.error();
    ASSERT(final_plan->bytes.size() == bytes);
    plan = std::move(*final_plan);
    const std::string path = parts_.full_path(relative);
    const auto ok = plan.append ? append_manifest(parts_.files, path, plan.bytes)
                                : replace_file(parts_.files, path, plan.bytes);
    if (!ok) return ok;
    parts_.quota.add(plan.bytes.size());
    report.bytes_written += plan.bytes.size();
    ++parts_.probe.manifests_written;
    parts_.probe.bytes_written += plan.bytes.size();
    return {};
}

/// Blocks. Writes the files of blocks that have none yet, and publishes which full ones were
/// stored, also when it fails. It goes on after a block that is lost (neither on disk nor in the
/// pool) and returns that error at the end, so that the others are on disk.
result<void> agent_saver::write_blocks(const snapshot& saved, disk_quota::promise& room,
                                       save_report& report) {
    std::optional<failure> lost;
    std::set<std::size_t> written_blocks;
    const auto publish_stored = [&] {
        parts_.tell_stored(*saved.state, saved.names, written_blocks);
    };
    for (std::size_t i = 0; i < saved.names.size(); ++i) {
        // A block that is only on disk is saved already; if its file is damaged, nobody here can
        // write it again.
        if (saved.state->blocks[i].full == nullptr &&
            !parts_.blocks.is_known(saved.names[i], kv_part::full))
            lost = failure{errc::io, parts_.full_path(block_path(saved.names[i], kv_part::full)) +
                                         ": the file is gone, and the block is not in memory"};
        for (const kv_part part : kv_parts) {
            const block_ptr& block = saved.state->blocks[i].at(part);
            if (block == nullptr) continue;
            const block_place at = parts_.shape.place(*saved.state, saved.names, i);
            const auto written = parts_.blocks.ensure(at.name, at.identity, parts_.formats, *block);
            if (!written) return publish_stored(), written.error();
            if (*written > 0 && part == kv_part::full) written_blocks.insert(i);
            room.spend(*written);
            report.bytes_written += *written;
            report.blocks_written += *written == 0 ? 0 : 1;
        }
    }
    publish_stored();
    if (lost) return *lost;
    return {};
}

/// Blocks. Writes the recurrent states of the snapshot that have no file yet.
result<void> agent_saver::write_kept(const snapshot& saved, disk_quota::promise& promised,
                                     save_report& report) {
    for (std::size_t i = 0; i < saved.kept.size(); ++i) {
        if (saved.kept[i].state == nullptr) continue;
        const block_place at =
            parts_.shape.kept_place(*saved.state, saved.names, saved.kept[i].tokens);
        const auto written = parts_.blocks.ensure_state(at.name, at.identity, *saved.kept[i].state);
        if (!written) return written.error();
        promised.spend(*written);
        report.bytes_written += *written;
        report.state_bytes += *written;
        report.states_written += *written == 0 ? 0 : 1;
    }
    return {};
}

}  // namespace semantic::storage
