// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/block_index.hpp"

#include <algorithm>

namespace semantic::storage {

namespace {

std::size_t index_of(kv_part part) { return static_cast<std::size_t>(part); }

}  // namespace

bool block_index::entry::is(const block_identity& identity) const {
    return parent == identity.parent && std::ranges::equal(tokens, identity.tokens);
}

block_ptr block_index::find(const block_hash& name, const block_identity& identity,
                            kv_part part) const {
    const auto found = blocks_.find(name);
    if (found == blocks_.end() || !found->second.is(identity)) return nullptr;
    return found->second.parts[index_of(part)].lock();
}

/// Returns: the entry of this block, added where there is none. One of the same name that is
/// another block is replaced. Entries whose blocks have all left the pool are removed whenever the
/// map has doubled, so that it never has more than twice the living ones (or 1,024).
block_index::entry& block_index::entry_of(const block_hash& name, const block_identity& identity) {
    auto found = blocks_.find(name);
    if (found != blocks_.end() && found->second.is(identity)) return found->second;
    if (blocks_.size() >= purge_at_) {
        std::erase_if(blocks_, [](const auto& each) {
            return each.second.parts[0].expired() && each.second.parts[1].expired() &&
                   each.second.state.expired();
        });
        purge_at_ = std::max<std::size_t>(1024, blocks_.size() * 2);
    }
    entry known{{}, {}, identity.parent, {identity.tokens.begin(), identity.tokens.end()}};
    return blocks_.insert_or_assign(name, std::move(known)).first->second;
}

block_ptr block_index::adopt(const block_hash& name, const block_identity& identity,
                             block_ptr block) {
    auto& part = entry_of(name, identity).parts[index_of(block->part())];
    if (auto there = part.lock()) return there;
    part = block;
    return block;
}

recurrent_ptr block_index::find_state(const block_hash& name,
                                      const block_identity& identity) const {
    const auto found = blocks_.find(name);
    if (found == blocks_.end() || !found->second.is(identity)) return nullptr;
    return found->second.state.lock();
}

recurrent_ptr block_index::adopt_state(const block_hash& name, const block_identity& identity,
                                       recurrent_ptr state) {
    auto& known = entry_of(name, identity).state;
    if (auto there = known.lock()) return there;
    known = state;
    return state;
}

}  // namespace semantic::storage
