// agent_cache_store: bringing back what is only on disk.

#include <algorithm>
#include <chrono>

#include "storage/agents/agent_cache_store_impl.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

namespace {

/// Block files that one restore keeps open; of a longer prefix the rest are opened for each piece.
constexpr std::size_t open_files_max = 64;

std::size_t as_size(int value) { return static_cast<std::size_t>(value); }

struct piece_to_read {
    std::size_t of;  // among the readers
    const block_file_reader::piece* what;
    bool is_first;
    /// Layer after layer, but for those that come first.
    int turn() const { return is_first ? -1 : what->layers.front(); }
};

shortfall shortfall_of(errc code) {
    if (code == errc::not_found) return shortfall::evicted;
    return code == errc::incompatible ? shortfall::incompatible : shortfall::corrupt;
}

}  // namespace

/// What a sequence needs to go on behind `tokens` tokens. The window comes first, from its end:
/// what is lost there makes the prefix shorter, and then fewer full layers are needed.
std::vector<std::pair<std::size_t, kv_part>> agent_cache_store::impl::needed_for(int tokens) const {
    const std::size_t count = (as_size(tokens) + as_size(block_tokens) - 1) / as_size(block_tokens);
    std::vector<std::pair<std::size_t, kv_part>> needed;
    for (std::size_t i = count; i-- > window_start(as_size(tokens));)
        needed.emplace_back(i, kv_part::sliding);
    for (std::size_t i = 0; i < count; ++i) needed.emplace_back(i, kv_part::full);
    return needed;
}

void agent_cache_store::impl::count_damage(const block_place& at, kv_part part, errc code) {
    if (code == errc::not_found)
        ++probe.blocks_missing;
    else
        ++probe.blocks_corrupt;
    blocks.distrust(at.name, part);
    // Whoever still has the block in the pool can mend the file.
    std::lock_guard lock(mutex);
    for (auto& [id, agent] : agents)
        for (std::size_t i = 0; i < agent.names.size(); ++i)
            if (agent.names[i] == at.name && agent.state->blocks[i].at(part) != nullptr) {
                agent.dirty = true;
                ++agent.version;
            }
}

/// Room for what is read of an agent: its own blocks, which may be of another way that it has gone
/// since, go last.
bool agent_cache_store::impl::make_room_for(const agent_id& id, std::size_t frames) {
    return make_room(frames, &id) || make_room(frames, nullptr);
}

/// Blocks. Makes room by evicting clean agents.
result<block_file_reader> agent_cache_store::impl::open_missing(
    const agent_state& state, const std::vector<block_hash>& names, const missing_part& part,
    bool keep_open) {
    const auto at = place(state, names, part.index);
    auto file = blocks.open(at.name, part.part, at.identity, pool, keep_open);
    // Somebody else may have taken the room.
    while (!file && file.error().code == errc::pool_exhausted &&
           make_room_for(state.id, pool.layout().layers(part.part).size()))
        file = blocks.open(at.name, part.part, at.identity, pool, keep_open);
    return file;
}

/// Blocks. Reads parts of a state's blocks straight into frames, several at a time: first all of
/// the block `first`, then of all of them one layer after the other.
std::vector<result<block_read>> agent_cache_store::impl::read_missing(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::vector<missing_part>& missing, std::optional<std::size_t> first,
    const frames_taken& begun) {
    const kv_layout& layout = pool.layout();
    std::size_t frames = 0;
    for (const missing_part& each : missing) frames += layout.layers(each.part).size();
    make_room_for(state.id, frames);
    std::vector<result<block_file_reader>> readers(missing.size(), failure{errc::not_found, {}});
    workers.run(missing.size(), [&](std::size_t k) {
        readers[k] = open_missing(state, names, missing[k], k < open_files_max);
    });

    std::vector<piece_to_read> pieces;
    std::vector<int> to_come(as_size(layout.layer_count()));
    for (std::size_t k = 0; k < readers.size(); ++k) {
        if (!readers[k]) continue;
        for (const block_file_reader::piece& each : readers[k]->pieces()) {
            pieces.push_back({k, &each, missing[k].index == first});
            for (const int layer : each.layers) ++to_come[as_size(layer)];
        }
    }
    std::ranges::stable_sort(pieces, {}, &piece_to_read::turn);
    const auto arrival = std::make_shared<prefix_arrival>(std::move(to_come));
    std::mutex lost_mutex;
    std::map<std::size_t, failure> lost;  // by index into `missing`
    for (std::size_t k = 0; k < readers.size(); ++k)
        if (!readers[k]) lost.emplace(k, readers[k].error());
    const auto read = [&](std::span<const piece_to_read> some) {
        workers.run(some.size(), [&](std::size_t i) {
            const piece_to_read& each = some[i];
            const auto ok = readers[each.of]->read(*each.what);
            if (ok) return arrival->came(each.what->layers);
            arrival->failed();
            std::lock_guard lock(lost_mutex);
            lost.try_emplace(each.of, ok.error());
        });
    };
    const auto firsts =
        static_cast<std::size_t>(std::ranges::count(pieces, true, &piece_to_read::is_first));
    read(std::span(pieces).first(firsts));
    if (begun && lost.empty()) {
        std::vector<block_ptr> taken;
        for (const auto& reader : readers) taken.push_back(reader->block());
        begun(taken, arrival);
    }
    read(std::span(pieces).subspan(firsts));

    std::vector<result<block_read>> reads;
    for (std::size_t k = 0; k < readers.size(); ++k) {
        if (const auto fault = lost.find(k); fault != lost.end()) {
            reads.push_back(fault->second);
            continue;
        }
        ++probe.blocks_read;
        probe.bytes_read += readers[k]->file_bytes();
        reads.push_back(block_read{readers[k]->block(), readers[k]->file_bytes()});
    }
    return reads;
}

/// Puts what is needed into `restored`, from the pool or from disk. Returns: the first block, in
/// the order given, that is lost, if any; then `restored` says why. Errors: pool_exhausted.
result<std::optional<std::size_t>> agent_cache_store::impl::bring(
    const agent_state& state, const std::vector<block_hash>& names,
    const std::vector<std::pair<std::size_t, kv_part>>& needed, restored_prefix& restored,
    std::vector<bool>& was_read, const prefix_begun& begun) {
    std::vector<missing_part> missing;
    for (const auto& [i, part] : needed) {
        block_ptr& block = restored.blocks[i].at(part);
        if (block == nullptr) block = find_hot(state, i, part, place(state, names, i));
        if (block == nullptr) missing.push_back({i, part});
    }
    // A sequence copies the block that it goes on in.
    std::optional<std::size_t> copied;
    if (as_size(restored.tokens) % as_size(block_tokens) != 0) copied = restored.blocks.size() - 1;
    frames_taken hand_out;
    if (begun && !missing.empty())
        hand_out = [&](const std::vector<block_ptr>& taken,
                       std::shared_ptr<prefix_arrival> arrival) {
            restored_prefix early = restored;
            std::vector<bool> will_be_read = was_read;
            for (std::size_t k = 0; k < missing.size(); ++k) {
                early.blocks[missing[k].index].at(missing[k].part) = taken[k];
                will_be_read[missing[k].index] = true;
            }
            early.tokens_read = tokens_read(early, will_be_read);
            early.arrival = std::move(arrival);
            begun(std::move(early));
        };
    std::vector<result<block_read>> reads = read_missing(state, names, missing, copied, hand_out);
    std::optional<std::size_t> lost;
    for (std::size_t k = 0; k < missing.size(); ++k) {
        const auto [i, part] = missing[k];
        const auto at = place(state, names, i);
        if (reads[k]) {
            restored.bytes_read += reads[k]->bytes;
            was_read[i] = true;
            std::lock_guard lock(mutex);
            restored.blocks[i].at(part) = adopt(at, std::move(reads[k]->block));
            continue;
        }
        if (lost) continue;
        const failure& why = reads[k].error();
        if (why.code == errc::pool_exhausted) return why;
        lost = i;
        // A sibling that was never written is no damage.
        if (part == kv_part::full || blocks.is_known(at.name, part))
            count_damage(at, part, why.code);
        restored.why = shortfall_of(why.code);
        restored.detail = why.what;
    }
    return lost;
}

/// How many of the restored tokens are in blocks that were read.
int agent_cache_store::impl::tokens_read(const restored_prefix& restored,
                                         const std::vector<bool>& was_read) const {
    const std::size_t per_block = as_size(block_tokens);
    std::size_t count = 0;
    for (std::size_t i = 0; i < restored.blocks.size(); ++i)
        if (was_read[i])
            count += std::min(as_size(restored.tokens), (i + 1) * per_block) - i * per_block;
    return static_cast<int>(count);
}

/// Makes the restored blocks part of the agent's newest state, where that has the same ones.
void agent_cache_store::impl::publish(const agent_state& from, const std::vector<block_hash>& names,
                                      const std::vector<kv_block_parts>& restored) {
    state_ptr former;  // destroyed after the mutex is released
    std::lock_guard lock(mutex);
    const auto found = agents.find(from.id);
    if (found == agents.end()) return;
    record& agent = found->second;
    agent.last_used = std::chrono::system_clock::now();
    std::vector<kv_block_parts> merged = agent.state->blocks;
    const std::size_t sliding_from = window_start(agent.state->tokens.size());
    for (std::size_t i = 0; i < restored.size() && has(agent, i, place(from, names, i)); ++i) {
        if (merged[i].full == nullptr) merged[i].full = restored[i].full;
        // The window of an earlier place is the running sequence's affair.
        if (i >= sliding_from && merged[i].sliding == nullptr)
            merged[i].sliding = restored[i].sliding;
    }
    if (merged == agent.state->blocks) return;
    auto state = std::make_shared<agent_state>(*agent.state);
    state->blocks = std::move(merged);
    former = std::exchange(agent.state, std::move(state));
}

/// While a prompt waited, the agent that it starts from may have gone on, and the file of what then
/// was the end of its memory is gone. Returns: the newest state where that is to be read and its
/// first `tokens` tokens are the same, else null.
state_ptr agent_cache_store::impl::gone_on_from(const agent_state& state, std::size_t tokens) {
    if (tokens == 0 || state.blocks[(tokens - 1) / as_size(block_tokens)].full != nullptr)
        return nullptr;
    std::lock_guard lock(mutex);
    const auto found = agents.find(state.id);
    if (found == agents.end()) return nullptr;
    const std::vector<token_id>& now = found->second.state->tokens;
    const bool same = now.size() >= tokens &&
                      found->second.state->private_salt == state.private_salt &&
                      std::equal(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(tokens),
                                 state.tokens.begin());
    return same ? found->second.state : nullptr;
}

std::optional<agent_cache_store::kept_files> agent_cache_store::keep_files(const agent_state& state,
                                                                           int tokens) {
    auto names = impl_->names_of(state);
    names.resize((as_size(tokens) + as_size(impl_->block_tokens) - 1) /
                 as_size(impl_->block_tokens));
    impl_->blocks.retain(names);
    kept_files kept(*impl_, std::move(names));
    for (const auto& [i, part] : impl_->needed_for(tokens))
        if (part == kv_part::full && state.blocks[i].full == nullptr &&
            !impl_->blocks.is_known(kept.names_[i], part))
            return std::nullopt;
    return kept;
}

bool agent_cache_store::kept_files::let_go_of_shared() {
    store_->blocks.release_shared(names_);
    return names_.empty();
}

agent_cache_store::kept_files::~kept_files() {
    if (store_ != nullptr) store_->blocks.release(names_);
}

std::shared_ptr<const agent_state> agent_cache_store::without_saved(
    const agent_state& state) const {
    if (!impl_->any_hot(state)) return nullptr;
    std::vector<kv_block_parts> unsaved = state.blocks;
    const auto names = impl_->names_of(state);
    for (std::size_t i = 0; i < names.size(); ++i)
        for (const kv_part part : kv_parts)
            if (impl_->blocks.is_good(names[i], part)) unsaved[i].at(part).reset();
    if (unsaved == state.blocks) return nullptr;
    auto bare = std::make_shared<agent_state>(state);
    bare->blocks = std::move(unsaved);
    return bare;
}

std::optional<restored_prefix> agent_cache_store::restore_hot(const agent_state& state,
                                                              int tokens) {
    ASSERT(tokens >= 0 && as_size(tokens) <= state.tokens.size());
    restored_prefix restored;
    restored.tokens = tokens;
    restored.blocks.resize((as_size(tokens) + as_size(impl_->block_tokens) - 1) /
                           as_size(impl_->block_tokens));
    for (const auto& [i, part] : impl_->needed_for(tokens)) {
        if (state.blocks[i].at(part) == nullptr) return std::nullopt;
        restored.blocks[i].at(part) = state.blocks[i].at(part);
    }
    std::lock_guard lock(impl_->mutex);
    const auto found = impl_->agents.find(state.id);
    if (found != impl_->agents.end()) found->second.last_used = std::chrono::system_clock::now();
    return restored;
}

result<restored_prefix> agent_cache_store::restore(const agent_state& wanted, int tokens,
                                                   const prefix_begun& begun) {
    ASSERT(tokens >= 0 && as_size(tokens) <= wanted.tokens.size());
    const auto start = std::chrono::steady_clock::now();
    const state_ptr newest = impl_->gone_on_from(wanted, as_size(tokens));
    const agent_state& state = newest ? *newest : wanted;
    const std::size_t per_block = as_size(impl_->block_tokens);
    const auto names = impl_->names_of(state);
    ASSERT(state.blocks.size() == names.size());
    restored_prefix restored;
    restored.tokens = tokens;
    restored.blocks.resize((as_size(tokens) + per_block - 1) / per_block);
    // All but the block that has gone on.
    const std::size_t same = restored.blocks.size() - (newest ? 1 : 0);
    std::copy_n(wanted.blocks.begin(), same, restored.blocks.begin());
    std::vector<bool> was_read(restored.blocks.size());
    bool is_first = true;
    for (bool whole = false; !whole; is_first = false) {
        const auto needed = impl_->needed_for(restored.tokens);
        const auto lost = impl_->bring(state, names, needed, restored, was_read,
                                       is_first ? begun : prefix_begun());
        if (!lost) return lost.error();
        whole = !*lost;
        if (whole) continue;
        // The prefix ends before what is lost, and another window is needed there.
        restored.blocks.resize(**lost);
        restored.tokens = static_cast<int>(**lost * per_block);
    }
    restored.tokens_read = impl_->tokens_read(restored, was_read);
    impl_->publish(state, names, restored.blocks);
    if (restored.bytes_read > 0) {
        const auto took = std::chrono::steady_clock::now() - start;
        impl_->probe.restore_us += static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::microseconds>(took).count());
    }
    return restored;
}

}  // namespace semantic::storage
