// SPDX-License-Identifier: Apache-2.0
#include "server/eval/exact_ways.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "server/eval/command_line.hpp"
#include "storage/files/checksum.hpp"
#include "storage/files/file.hpp"

namespace semantic::eval {

namespace {

using storage::kv_block_parts;
using storage::token_id;

constexpr int asked_every = 16;   // positions of the prefix; after it each one is compared
constexpr int after_prefix = 40;  // tokens
constexpr int piece_tokens = 37;  // a prime: pieces end at any place of a group and of a block
constexpr int read_singly = 8;    // tokens at the text's end, as an answer's are
constexpr int one_thread_chunk = 256;
constexpr int into_block = 101;  // where the text is cut in its block: not at the end of a group
constexpr int changed_at = 8;    // the position of the token that is changed as a test
constexpr int changed_tokens = 64;
constexpr std::byte overwritten{0x5a};
constexpr char exported[] = "/exported.safetensors";

const storage::agent_id& agent() {
    static const storage::agent_id id = *storage::agent_id::parse("exact");
    return id;
}

/// The tokens rotated by `by`, which makes another text.
std::vector<token_id> turned(std::vector<token_id> tokens, std::size_t by) {
    std::rotate(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(by), tokens.end());
    return tokens;
}

}  // namespace

exact_ways::exact_ways(offline_model& model, std::vector<token_id> tokens, std::string folder)
    : model_(model),
      tokens_(std::move(tokens)),
      folder_(std::move(folder)),
      vocabulary_(static_cast<std::size_t>(model.config().vocabulary)) {
    const int count = static_cast<int>(tokens_.size()), block = model.layout().block_tokens();
    if (count < tokens_min) throw std::invalid_argument("a text that is too short");
    prefix_ = count - after_prefix;
    if (prefix_ % block == 0) --prefix_;  // its last block must not be full
    parting_ = (prefix_ / block - 1) * block + into_block;
    for (int at = 0; at < count; ++at)
        if (at >= prefix_ || at % asked_every == 0) asked_.push_back(at);
}

std::vector<way_outcome> exact_ways::run(const std::function<void(const std::string&)>& on_way) {
    on_way("at once");
    reference_ = model_.run(*model_.start(), tokens_, asked_);
    std::vector<way_outcome> outcomes;
    const auto go = [&](const char* name, auto&& way) {
        on_way(name);
        outcomes.push_back({name});
        way(outcomes.back());
    };
    go("in pieces", [this](way_outcome& out) { in_pieces(out); });
    go("one thread", [this](way_outcome& out) { on_one_thread(out); });
    go("in a batch", [this](way_outcome& out) { in_a_batch(out); });
    read_blocks();
    go("forked", [this](way_outcome& out) { forked(out); });
    go("parted", [this](way_outcome& out) { parted(out); });
    save_blocks();
    go("restored", [this](way_outcome& out) { restored(out, "left", prefix_); });
    go("restored, parted", [this](way_outcome& out) { restored(out, "left-too", parting_); });
    go("imported", [this](way_outcome& out) { imported(out); });
    see_a_changed_token();
    return outcomes;
}

void exact_ways::in_pieces(way_outcome& outcome) {
    const auto sequence = model_.start();
    const int end = static_cast<int>(tokens_.size());
    read_on(outcome, model_, *sequence, end - read_singly, piece_tokens);
    read_on(outcome, model_, *sequence, end, 1);
}

void exact_ways::on_one_thread(way_outcome& outcome) {
    offline_model one(model_, model_.kv(), 1);
    read_on(outcome, one, *one.start(), static_cast<int>(tokens_.size()), one_thread_chunk);
}

void exact_ways::in_a_batch(way_outcome& outcome) {
    struct mate {
        std::vector<token_id> tokens;
        std::size_t part, joins;  // tokens of a step; the step it is first in
        std::unique_ptr<offline_sequence> sequence;
    };
    const std::size_t count = tokens_.size();
    mate mates[] = {{tokens_, 97, 0, model_.start()},
                    {turned(tokens_, count / 4), 1, 0, model_.start()},
                    {turned(tokens_, count / 2), 5, 1, model_.start()},
                    {turned(tokens_, count / 3), 64, 3, model_.start()}};
    std::vector<float> logits;
    for (std::size_t step = 0; mates[0].sequence->token_count() < static_cast<int>(count); ++step) {
        const int begin = mates[0].sequence->token_count();
        std::vector<engine::sequence_step> batch;
        std::vector<offline_sequence*> running;
        std::vector<int> wanted;
        for (mate& each : mates) {
            const auto done = static_cast<std::size_t>(each.sequence->token_count());
            if (step < each.joins || done == count) continue;
            const std::size_t part = std::min(each.part, count - done);
            const auto some = std::span<const token_id>(each.tokens).subspan(done, part);
            batch.push_back(each.sequence->begin_step(some, {}, nullptr));
            running.push_back(each.sequence.get());
        }
        const int end = begin + static_cast<int>(batch.front().tokens.size());
        const std::size_t first = first_asked(begin), last = first_asked(end);
        for (std::size_t i = first; i < last; ++i) wanted.push_back(asked_[i] - begin);
        logits.resize(wanted.size() * vocabulary_);
        batch.front().logits_at = wanted;
        batch.front().logits = logits.data();
        model_.step(batch);
        for (offline_sequence* each : running) each->finish_step();
        compare(outcome, first, logits);
    }
}

void exact_ways::forked(way_outcome& outcome) {
    const std::size_t bytes = model_.config().state_bytes();
    offline_sequence owner(model_.pool(), blocks_, prefix_, bytes, prefix_state_);
    offline_sequence fork(model_.pool(), blocks_, prefix_, bytes, prefix_state_);
    const auto other = turned(tokens_, tokens_.size() / 2);
    model_.run(owner, std::span(other).first(after_prefix), {});
    read_on(outcome, model_, fork, static_cast<int>(tokens_.size()), model_.chunk_tokens());
}

void exact_ways::parted(way_outcome& outcome) {
    std::vector<kv_block_parts> blocks = blocks_;
    blocks.resize(static_cast<std::size_t>(parting_ / model_.layout().block_tokens() + 1));
    offline_sequence sequence(model_.pool(), std::move(blocks), parting_,
                              model_.config().state_bytes(), parting_state_);
    read_on(outcome, model_, sequence, static_cast<int>(tokens_.size()), model_.chunk_tokens());
}

void exact_ways::save_blocks() {
    {
        const store_ptr store = open_store("saved");
        storage::agent_state state{agent()};
        state.tokens.assign(tokens_.begin(), tokens_.begin() + prefix_);
        state.token_ends.assign(state.tokens.size(), 0);
        state.blocks = std::move(blocks_);
        state.states = keep_states();
        store->put(std::move(state));
        take(store->save(agent()));
        // Copied while the store is open, since closing it may write: so the copies are what a
        // killed process leaves.
        for (const char* name : {"left", "left-too"})
            std::filesystem::copy(folder_ + "/saved", folder_ + "/" + name,
                                  std::filesystem::copy_options::recursive);
        export_from(*store);
    }
    blocks_.clear();
    overwrite_free_frames();
}

std::vector<storage::kept_state> exact_ways::keep_states() {
    std::vector<storage::kept_state> kept;
    const storage::kv_layout& layout = model_.layout();
    if (!layout.has_states()) return kept;
    const std::pair<int, const std::vector<std::byte>*> all[] = {
        {layout.group_start(parting_), &parting_state_}, {prefix_, &prefix_state_}};
    for (const auto& [tokens, bytes] : all) {
        if (bytes->empty()) continue;
        const auto state = take(storage::recurrent_state::make(model_.pool()));
        std::ranges::copy(*bytes, state->bytes().begin());
        kept.push_back({static_cast<std::uint32_t>(tokens), false, false, state});
    }
    return kept;
}

void exact_ways::export_from(storage::agent_cache_store& store) {
    const std::string path = folder_ + exported;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    take(store.export_agent(agent(), [&](std::span<const std::byte> bytes) {
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        return storage::result<void>();
    }));
    file.close();
    if (!file) throw bad_input(path + ": writing failed");
}

void exact_ways::restored(way_outcome& outcome, const std::string& folder, int tokens) {
    go_on(outcome, open_store(folder), tokens);
}

void exact_ways::imported(way_outcome& outcome) {
    store_ptr store = open_store("importing");
    const auto file = take(storage::posix_file_system().open(folder_ + exported));
    take(store->import_agent(agent(), *file,
                             [](const storage::agent_state&) { return storage::result<void>(); }));
    go_on(outcome, std::move(store), prefix_);
}

void exact_ways::see_a_changed_token() {
    std::vector<token_id> changed(tokens_.begin(), tokens_.begin() + changed_tokens);
    changed[changed_at] = tokens_[changed_at] == 0 ? 1 : tokens_[changed_at] - 1;
    const std::size_t last = first_asked(changed_tokens);
    way_outcome outcome;
    compare(outcome, 0, model_.run(*model_.start(), changed, std::span(asked_).first(last)));
    if (outcome.differs_at.value_or(0) < changed_at)
        throw std::logic_error("a changed token changes no logits after it, or some before it");
}

void exact_ways::read_on(way_outcome& outcome, offline_model& model, offline_sequence& sequence,
                         int end, int chunk) {
    while (sequence.token_count() < end) {
        const int begin = sequence.token_count(), stop = std::min(end, begin + chunk);
        const std::size_t first = first_asked(begin), last = first_asked(stop);
        std::vector<int> wanted;
        for (std::size_t i = first; i < last; ++i) wanted.push_back(asked_[i] - begin);
        const auto part = std::span(tokens_).subspan(static_cast<std::size_t>(begin),
                                                     static_cast<std::size_t>(stop - begin));
        compare(outcome, first, model.run(sequence, part, wanted));
    }
}

void exact_ways::compare(way_outcome& outcome, std::size_t first,
                         std::span<const float> logits) const {
    const std::size_t rows = logits.size() / vocabulary_, bytes = vocabulary_ * sizeof(float);
    for (std::size_t row = 0; row < rows; ++row) {
        const float* expected = reference_.data() + (first + row) * vocabulary_;
        ++outcome.compared;
        if (std::memcmp(expected, logits.data() + row * vocabulary_, bytes) != 0 &&
            !outcome.differs_at)
            outcome.differs_at = asked_[first + row];
    }
}

std::size_t exact_ways::first_asked(int position) const {
    return static_cast<std::size_t>(std::lower_bound(asked_.begin(), asked_.end(), position) -
                                    asked_.begin());
}

// Block by block, since share() leaves out blocks that are outside of a window.
void exact_ways::read_blocks() {
    const int block = model_.layout().block_tokens();
    const auto sequence = model_.start();
    const auto read_to = [&](int end) {
        const auto begin = static_cast<std::size_t>(sequence->token_count());
        model_.run(*sequence,
                   std::span(tokens_).subspan(begin, static_cast<std::size_t>(end) - begin), {});
    };
    const auto copy_state = [&] {
        return std::vector<std::byte>(sequence->state().begin(), sequence->state().end());
    };
    blocks_.clear();
    while (sequence->token_count() < prefix_) {
        const int begin = sequence->token_count(), end = std::min(begin + block, prefix_);
        // A state is only valid where a group of f16 rows begins, so it is copied there.
        const int parting = model_.layout().group_start(parting_);
        if (begin < parting && parting < end) {
            read_to(parting);
            parting_state_ = copy_state();
        }
        read_to(end);
        blocks_.push_back(sequence->kv().share().back());
    }
    prefix_state_ = copy_state();
}

exact_ways::store_ptr exact_ways::open_store(const std::string& name) {
    storage::store_options options;
    options.directory = folder_ + "/" + name;
    options.fingerprint = storage::checksum128(model_.kv());
    return take(storage::agent_cache_store::open(std::move(options), model_.pool()));
}

void exact_ways::go_on(way_outcome& outcome, store_ptr store, int tokens) {
    auto state = store->find(agent());
    if (state == nullptr) throw bad_input(folder_ + ": what was saved there is gone");
    storage::restored_prefix back = take(store->restore(*state, tokens));
    // With recurrent layers a cut memory continues where a group of f16 rows begins.
    const bool is_parted = model_.layout().has_states() && tokens != prefix_;
    const int expected = is_parted ? model_.layout().group_start(tokens) : tokens;
    if (back.tokens != expected)
        throw bad_input(std::to_string(back.tokens) + " of " + std::to_string(expected) +
                        " tokens came back from disk: " + back.detail);
    {
        std::vector<std::byte> restored_state;
        if (back.state != nullptr)
            restored_state.assign(back.state->bytes().begin(), back.state->bytes().end());
        offline_sequence sequence(model_.pool(), std::move(back.blocks), expected,
                                  model_.config().state_bytes(), restored_state);
        back.state.reset();
        store.reset();
        read_on(outcome, model_, sequence, static_cast<int>(tokens_.size()), model_.chunk_tokens());
    }
    state.reset();
    overwrite_free_frames();
}

void exact_ways::overwrite_free_frames() {
    storage::block_pool& pool = model_.pool();
    const auto frames = take(pool.allocate(pool.free_count()));
    for (std::byte* frame : frames) std::fill_n(frame, pool.layout().frame_bytes(), overwritten);
    pool.release(frames);
}

}  // namespace semantic::eval
