// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/agent_restorer.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "storage/pool/block_frames.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

/// Block files that one restore keeps open; of a longer prefix the rest are opened for each piece.
constexpr std::size_t open_files_max = 64;

struct piece_to_read {
    std::size_t reader;  // its index
    const block_file_reader::piece* piece;
    bool is_first;
    /// Sort key: pieces are read layer after layer; -1 puts those of the first block before all.
    int rank() const { return is_first ? -1 : piece->layers.front(); }
};

/// The pieces of all files in the order in which they are read, and how many of each layer there
/// are.
struct read_order {
    std::vector<piece_to_read> pieces;
    std::vector<int> per_layer;
};

/// Sorts the pieces of all files: first those of block number `first`, if any, then all others
/// layer by layer. Also counts, for each of the `layers` layers, the pieces that have it.
/// `missing[k]` is the block part that `readers[k]` reads; a reader that failed to open is left
/// out.
read_order order_of(const std::vector<result<block_file_reader>>& readers,
                    const std::vector<block_part>& missing, std::optional<std::size_t> first,
                    int layers) {
    read_order order;
    order.per_layer.resize(as_size(layers));
    for (std::size_t k = 0; k < readers.size(); ++k) {
        if (!readers[k]) continue;
        for (const block_file_reader::piece& each : readers[k]->pieces()) {
            order.pieces.push_back({k, &each, missing[k].index == first});
            for (const int layer : each.layers) ++order.per_layer[as_size(layer)];
        }
    }
    std::ranges::stable_sort(order.pieces, {}, &piece_to_read::rank);
    return order;
}

/// The reason that a client is given for a fault of a file.
shortfall shortfall_of(errc code) {
    if (code == errc::not_found) return shortfall::evicted;
    return code == errc::incompatible ? shortfall::incompatible : shortfall::corrupt;
}

/// The error code of a reason, where a caller needs the whole memory and not a prefix.
errc errc_of(shortfall why) {
    if (why == shortfall::corrupt) return errc::corrupt;
    return why == shortfall::incompatible ? errc::incompatible : errc::not_found;
}

}  // namespace

std::optional<restored_prefix> agent_restorer::restore_hot(const agent_state& state, int tokens) {
    ASSERT(tokens >= 0 && as_size(tokens) <= state.tokens.size());
    restored_prefix restored;
    restored.tokens = tokens;
    if (parts_.shape.layout().has_states()) {
        std::size_t i = count_kept_within(state.states, as_size(tokens));
        while (i > 0 && !may_resume_at(state, state.states[i - 1].tokens)) --i;
        // The last position that a sequence may resume at. The rows of its group are looked at
        // below, once its blocks are known; an earlier position is left to restore().
        if (i > 0 && state.states[i - 1].state == nullptr) return std::nullopt;
        restored.tokens = i > 0 ? static_cast<int>(state.states[i - 1].tokens) : 0;
        restored.state = i > 0 ? state.states[i - 1].state : nullptr;
    }
    restored.blocks.resize(parts_.shape.count_for(as_size(restored.tokens)));
    for (const auto& [i, part] : parts_.shape.needed_for(restored.tokens)) {
        if (state.blocks[i].at(part) == nullptr) return std::nullopt;
        restored.blocks[i].at(part) = state.blocks[i].at(part);
    }
    if (parts_.shape.layout().has_states() && !has_group_rows(restored)) return std::nullopt;
    const agent_index::lock locked(parts_.index);
    if (agent_record* agent = parts_.index.find(locked, state.id))
        agent->last_used = std::chrono::system_clock::now();
    return restored;
}

result<restored_prefix> agent_restorer::restore(const agent_state& wanted, int tokens,
                                                prefix_receiver* early) {
    ASSERT(tokens >= 0 && as_size(tokens) <= wanted.tokens.size());
    const auto start = std::chrono::steady_clock::now();
    const std::size_t count = parts_.shape.count_for(as_size(tokens));
    // While the prompt waited, its agent may have continued and been saved. That deletes the file
    // of the last block, which was not full yet; the newest state has the same tokens in a longer
    // block.
    state_ptr newest;
    if (count > 0 && wanted.blocks[count - 1].full == nullptr)
        newest =
            parts_.index.find_same_prefix(agent_index::lock(parts_.index), wanted, as_size(tokens));
    const agent_state& state = newest ? *newest : wanted;
    restoration work{state, parts_.shape.names_of(state)};
    ASSERT(state.blocks.size() == work.names.size());
    work.found.tokens = tokens;
    work.found.blocks.resize(count);
    // All blocks in the pool but the last one, where the newest state has a longer version of it.
    std::copy_n(wanted.blocks.begin(), count - (newest ? 1 : 0), work.found.blocks.begin());
    work.was_read.resize(count);
    bool is_first = true;
    // Each round tries a prefix. Where something of it is lost, the next round tries a shorter one,
    // until all that a prefix needs is there (at worst that of 0 tokens, which needs nothing).
    for (bool whole = false; !whole; is_first = false) {
        if (parts_.shape.layout().has_states()) {
            auto kept = bring_kept(work, wanted.states);
            if (!kept) return kept.error();
            work.found.tokens = kept->tokens;
            work.found.state = std::move(kept->state);
            work.found.blocks.resize(parts_.shape.count_for(as_size(kept->tokens)));
        }
        const auto lost =
            bring(work, parts_.shape.needed_for(work.found.tokens), is_first ? early : nullptr);
        if (!lost) return lost.error();
        whole = !*lost;
        if (whole && parts_.shape.layout().has_states() && !has_group_rows(work.found)) {
            --work.found.tokens;  // so that the next round takes the recurrent state before
            whole = false;
            continue;
        }
        if (whole) continue;
        // The prefix ends before the lost block, and needs other sliding blocks there.
        work.found.blocks.resize(**lost);
        work.found.tokens = static_cast<int>(**lost * parts_.shape.block_tokens());
    }
    work.found.tokens_read = tokens_read(work.found, work.was_read);
    {
        state_ptr former;  // destroyed after the lock is released
        const agent_index::lock locked(parts_.index);
        former = parts_.index.add_restored(locked, state, work.names, work.found.blocks,
                                           as_size(work.found.tokens), work.found.state);
    }
    if (work.found.bytes_read > 0) {
        const auto took = std::chrono::steady_clock::now() - start;
        parts_.probe.restore_time.observe(std::chrono::duration<double>(took).count());
        parts_.probe.restore_us += static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    }
    return std::move(work.found);
}

result<agent_state> agent_restorer::restore_whole(const agent_state& state) {
    const int count = static_cast<int>(state.tokens.size());
    auto resumable = restore(state, count, {});
    if (!resumable) return resumable.error();
    const kv_layout& layout = parts_.shape.layout();
    // With recurrent states the memory may continue after the last of them.
    if (resumable->tokens != count && !layout.has_states())
        return failure{errc_of(resumable->why), resumable->detail};
    restoration work{state, parts_.shape.names_of(state)};
    work.found.tokens = count;
    work.found.blocks = std::move(resumable->blocks);
    work.found.blocks.resize(state.blocks.size());
    work.was_read.resize(work.found.blocks.size());
    std::vector<block_part> all;  // not only what the window at the end reaches
    for (const kv_part part : kv_parts)
        for (std::size_t i = 0; i < work.found.blocks.size(); ++i)
            if (part == kv_part::full || layout.slides()) all.push_back({i, part});
    const auto lost = bring(work, all, {});
    if (!lost) return lost.error();
    if (*lost) return failure{errc_of(work.found.why), work.found.detail};
    agent_state whole = state;
    whole.blocks = std::move(work.found.blocks);
    whole.states.clear();
    for (const kept_state& each : state.states) {
        std::uint64_t bytes_read = 0;
        auto found = bring_kept(work, each, bytes_read);
        const bool is_last = each.tokens == state.states.back().tokens;
        if (!found && (is_last || found.error().code == errc::pool_exhausted)) return found.error();
        if (found) whole.states.push_back({each.tokens, each.is_root, false, std::move(*found)});
    }
    return whole;
}

/// Whether a sequence can continue after `tokens` tokens, given the recurrent state there. Some
/// recipes quantise KV by groups of tokens and need the f16 rows of a group that has begun. A block
/// keeps those rows for its last group only (its wide tail), so the position must be the start of a
/// group or the end of the memory.
bool agent_restorer::may_resume_at(const agent_state& state, std::size_t tokens) const {
    const auto place = static_cast<int>(tokens);
    return parts_.shape.layout().group_start(place) == place || tokens == state.tokens.size();
}

/// Whether the last block has the f16 rows of the group that the restored prefix ends in. True
/// where it ends at the start of a group: then no rows are needed.
bool agent_restorer::has_group_rows(const restored_prefix& restored) const {
    const kv_layout& layout = parts_.shape.layout();
    if (layout.group_start(restored.tokens) == restored.tokens) return true;
    const int in_block = restored.tokens % layout.block_tokens();
    return std::ranges::all_of(kv_parts, [&](kv_part part) {
        if (layout.layers(part).empty()) return true;
        const block_ptr& block = restored.blocks.back().at(part);
        return block->wide() != nullptr && block->wide_end() >= in_block &&
               layout.group_start(block->wide_end()) == layout.group_start(in_block);
    });
}

/// Blocks. Looks for the last position within `work.found.tokens` whose recurrent state is in the
/// pool or can be read. Returns: that position and its state; position 0 and null where there is
/// none. Where a later one was lost `work.found` says why. Errors: pool_exhausted.
result<agent_restorer::kept_choice> agent_restorer::bring_kept(restoration& work,
                                                               std::span<const kept_state> kept) {
    for (std::size_t i = count_kept_within(kept, as_size(work.found.tokens)); i-- > 0;) {
        if (!may_resume_at(work.state, kept[i].tokens)) continue;
        auto found = bring_kept(work, kept[i], work.found.bytes_read);
        if (found) return kept_choice{static_cast<int>(kept[i].tokens), std::move(*found)};
        const failure& why = found.error();
        if (why.code == errc::pool_exhausted) return why;
        work.found.why = shortfall_of(why.code);
        work.found.detail = why.what;
    }
    return kept_choice{};
}

/// Blocks. Gets one recurrent state, from the pool or from its file, and makes it known to the
/// index. Adds what it reads to `bytes_read`. Errors: pool_exhausted, those of read_state_file().
result<recurrent_ptr> agent_restorer::bring_kept(const restoration& work, const kept_state& each,
                                                 std::uint64_t& bytes_read) {
    if (each.state != nullptr) return each.state;
    const block_place at = parts_.shape.kept_place(work.state, work.names, each.tokens);
    if (auto hot = parts_.index.find_kept(agent_index::lock(parts_.index), at)) return hot;
    const std::size_t frames = parts_.shape.layout().state_frames();
    const std::string path = parts_.full_path(block_path(at.name, kv_part::state));
    room_.free_frames_for(work.state.id, frames);
    auto read = read_state_file(parts_.files, path, at.identity, parts_.pool);
    // Another thread may take the frames that were just freed: free some and try again.
    while (!read && read.error().code == errc::pool_exhausted &&
           room_.free_frames_for(work.state.id, frames))
        read = read_state_file(parts_.files, path, at.identity, parts_.pool);
    if (!read) {
        if (read.error().code != errc::pool_exhausted)
            count_damage(at.name, kv_part::state, read.error().code);
        return read.error();
    }
    ++parts_.probe.states_read;
    parts_.probe.state_bytes_read += read->bytes;
    parts_.probe.bytes_read += read->bytes;
    bytes_read += read->bytes;
    return parts_.index.adopt_kept(agent_index::lock(parts_.index), at, std::move(read->state));
}

/// Returns: a block part that is in the pool, as part of the state that is restored or of another
/// one; null where it is on disk at most.
block_ptr agent_restorer::find_hot(const restoration& work, const block_part& part) const {
    if (const block_ptr& own = work.state.blocks[part.index].at(part.part)) return own;
    const block_place at = parts_.shape.place(work.state, work.names, part.index);
    return parts_.index.find_block(agent_index::lock(parts_.index), work.state, part, at);
}

/// Blocks. Fills `work.found.blocks` with the parts in `needed`, from the pool or from disk. Calls
/// `early`, which may be null, while the files are read. Returns: the number of the first block, in
/// the order of `needed`, that is lost, if any; then `work.found` says why. Errors: pool_exhausted.
result<std::optional<std::size_t>> agent_restorer::bring(restoration& work,
                                                         const std::vector<block_part>& needed,
                                                         prefix_receiver* early) {
    restored_prefix& restored = work.found;
    std::vector<block_part> missing;
    for (const block_part& each : needed) {
        block_ptr& block = restored.blocks[each.index].at(each.part);
        if (block == nullptr) block = find_hot(work, each);
        if (block == nullptr) missing.push_back(each);
    }
    frames_taken hand_out;
    if (early != nullptr && !missing.empty())
        hand_out = [&](const std::vector<block_ptr>& taken,
                       std::shared_ptr<prefix_arrival> arrival) {
            restored_prefix begun = restored;
            std::vector<bool> will_be_read = work.was_read;
            for (std::size_t k = 0; k < missing.size(); ++k) {
                begun.blocks[missing[k].index].at(missing[k].part) = taken[k];
                will_be_read[missing[k].index] = true;
            }
            begun.tokens_read = tokens_read(begun, will_be_read);
            begun.arrival = std::move(arrival);
            early->receive_arriving(std::move(begun));
        };
    std::vector<result<block_read>> reads = read_parts(work, missing, hand_out);
    std::optional<std::size_t> lost;
    for (std::size_t k = 0; k < missing.size(); ++k) {
        const auto [i, part] = missing[k];
        if (reads[k]) {
            restored.bytes_read += reads[k]->bytes;
            work.was_read[i] = true;
            const auto at = parts_.shape.place(work.state, work.names, i);
            restored.blocks[i].at(part) =
                parts_.index.adopt(agent_index::lock(parts_.index), at, std::move(reads[k]->block));
            continue;
        }
        // The prefix ends before the first lost part, so later ones do not count in this round.
        if (lost) continue;
        const failure& why = reads[k].error();
        if (why.code == errc::pool_exhausted) return why;
        lost = i;
        // The sliding half of a block is not always written, so a missing one is no damage.
        if (part == kv_part::full || parts_.blocks.is_known(work.names[i], part))
            count_damage(work.names[i], part, why.code);
        restored.why = shortfall_of(why.code);
        restored.detail = why.what;
    }
    return lost;
}

/// Blocks. Reads the parts in `missing` straight into frames, several files at a time. The last
/// block of the prefix, where it is not full, comes first and whole, because a sequence copies it
/// before it starts; all others follow one layer after the other. Calls `begun`, if it is set,
/// after that first block was read and while the rest is not. Returns: for each part its block, or
/// why it was lost.
std::vector<result<block_read>> agent_restorer::read_parts(const restoration& work,
                                                           const std::vector<block_part>& missing,
                                                           const frames_taken& begun) {
    const kv_layout& layout = parts_.shape.layout();
    std::size_t frames = 0;
    for (const block_part& each : missing) frames += frames_of(each, work);
    room_.free_frames_for(work.state.id, frames);
    // A placeholder for each reader, since a result is never empty; all are replaced below.
    std::vector<result<block_file_reader>> readers(missing.size(), failure{errc::not_found, {}});
    parts_.workers.run(missing.size(), [&](std::size_t k) {
        readers[k] = open_file(work, missing[k], k < open_files_max);
    });

    std::optional<std::size_t> copied;
    if (as_size(work.found.tokens) % parts_.shape.block_tokens() != 0)
        copied = work.found.blocks.size() - 1;
    read_order order = order_of(readers, missing, copied, layout.layer_count());
    const auto arrival = std::make_shared<prefix_arrival>(std::move(order.per_layer));
    std::mutex lost_mutex;
    std::map<std::size_t, failure> lost;  // by index into `missing`
    for (std::size_t k = 0; k < readers.size(); ++k)
        if (!readers[k]) lost.emplace(k, readers[k].error());
    // Reads pieces in parallel, in order. A fault marks the part as lost and the arrival as failed,
    // and the others are read all the same.
    const auto read = [&](std::span<const piece_to_read> some) {
        parts_.workers.run(some.size(), [&](std::size_t i) {
            const piece_to_read& each = some[i];
            const auto ok = readers[each.reader]->read(*each.piece);
            if (ok) return arrival->came(each.piece->layers);
            arrival->failed();
            std::lock_guard locked(lost_mutex);
            lost.try_emplace(each.reader, ok.error());
        });
    };
    const auto firsts =
        static_cast<std::size_t>(std::ranges::count(order.pieces, true, &piece_to_read::is_first));
    read(std::span(order.pieces).first(firsts));
    if (begun && lost.empty()) {
        std::vector<block_ptr> taken;
        for (const auto& reader : readers) taken.push_back(reader->block());
        begun(taken, arrival);
    }
    read(std::span(order.pieces).subspan(firsts));

    std::vector<result<block_read>> reads;
    for (std::size_t k = 0; k < readers.size(); ++k) {
        if (const auto fault = lost.find(k); fault != lost.end()) {
            reads.push_back(fault->second);
            continue;
        }
        ++parts_.probe.blocks_read;
        parts_.probe.bytes_read += readers[k]->file_bytes();
        reads.push_back(block_read{readers[k]->block(), readers[k]->file_bytes()});
    }
    return reads;
}

/// Returns: the frames that reading the part takes at most. A block that ends inside a group of its
/// recipe may bring the f16 rows of that group (its wide tail), in frames of their own.
std::size_t agent_restorer::frames_of(const block_part& part, const restoration& work) const {
    const kv_layout& layout = parts_.shape.layout();
    const auto end = static_cast<int>(
        std::min(work.state.tokens.size(), (part.index + 1) * parts_.shape.block_tokens()));
    const bool is_cut = layout.group_start(end) < end;
    return frames_of_block(layout, part.part) + (is_cut ? layout.wide_frames(part.part) : 0);
}

/// Blocks. Opens the file of a block part, checks its header and takes the frames for it, for which
/// clean agents are evicted. `keep_open`: false opens the file again for each piece that is read.
result<block_file_reader> agent_restorer::open_file(const restoration& work, const block_part& part,
                                                    bool keep_open) {
    const auto at = parts_.shape.place(work.state, work.names, part.index);
    const auto open = [&] {
        return parts_.blocks.open(at.name, part.part, at.identity, parts_.formats, parts_.pool,
                                  keep_open);
    };
    auto file = open();
    // Another thread may take the frames that were just freed: free some and try again.
    while (!file && file.error().code == errc::pool_exhausted &&
           room_.free_frames_for(work.state.id, frames_of(part, work)))
        file = open();
    return file;
}

/// Counts a file that is missing or damaged, distrusts it, so that it is not read again, and marks
/// agents dirty that still have the block in the pool, so that their next save replaces it.
void agent_restorer::count_damage(const block_hash& name, kv_part part, errc code) {
    const bool is_state = part == kv_part::state;
    if (code == errc::not_found)
        ++(is_state ? parts_.probe.states_missing : parts_.probe.blocks_missing);
    else
        ++(is_state ? parts_.probe.states_corrupt : parts_.probe.blocks_corrupt);
    parts_.blocks.distrust(name, part);
    parts_.index.mark_damaged(agent_index::lock(parts_.index), name, part);
}

/// Returns: how many of the restored tokens are in blocks that were read.
int agent_restorer::tokens_read(const restored_prefix& restored,
                                const std::vector<bool>& was_read) const {
    const std::size_t per_block = parts_.shape.block_tokens();
    std::size_t count = 0;
    for (std::size_t i = 0; i < restored.blocks.size(); ++i)
        if (was_read[i])
            count += std::min(as_size(restored.tokens), (i + 1) * per_block) - i * per_block;
    return static_cast<int>(count);
}

}  // namespace semantic::storage
