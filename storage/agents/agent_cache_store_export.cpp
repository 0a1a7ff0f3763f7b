// agent_cache_store: agents that come and go as one file.

#include <algorithm>

#include "storage/agents/agent_cache_store_impl.hpp"
#include "storage/disk/agent_file.hpp"

namespace semantic::storage {

namespace {

errc errc_of(shortfall why) {
    if (why == shortfall::corrupt) return errc::corrupt;
    return why == shortfall::incompatible ? errc::incompatible : errc::not_found;
}

}  // namespace

result<std::uint64_t> agent_cache_store::export_agent(const agent_id& id, const byte_sink& sink) {
    const pin held = hold(id);
    const auto state = find(id);
    if (state == nullptr) return failure{errc::not_found, "no agent " + id.str()};
    const int count = static_cast<int>(state->tokens.size());
    auto whole = restore(*state, count);
    if (!whole) return whole.error();
    if (whole->tokens != count) return failure{errc_of(whole->why), whole->detail};
    if (impl_->pool.layout().slides()) {
        // Every block's sliding layers, not only those of the window at the end.
        std::vector<std::pair<std::size_t, kv_part>> all;
        for (std::size_t i = 0; i < whole->blocks.size(); ++i)
            all.emplace_back(i, kv_part::sliding);
        std::vector<bool> was_read(whole->blocks.size());
        const auto lost = impl_->bring(*state, impl_->names_of(*state), all, *whole, was_read);
        if (!lost) return lost.error();
        if (*lost) return failure{errc_of(whole->why), whole->detail};
    }
    agent_state shown = *state;
    shown.blocks = std::move(whole->blocks);
    return write_agent_file(shown, impl_->options.fingerprint, impl_->pool.layout(), sink);
}

result<int> agent_cache_store::import_agent(const agent_id& id, readable_file& file,
                                            const state_check& check) {
    const kv_layout& layout = impl_->pool.layout();
    const auto count = check_agent_file(file, impl_->options.fingerprint, layout);
    if (!count) return count.error();
    const auto blocks =
        static_cast<std::size_t>((*count + layout.block_tokens() - 1) / layout.block_tokens());
    impl_->make_room_for(id, blocks * static_cast<std::size_t>(layout.layer_count()));
    auto state = read_agent_file(file, id, impl_->options.fingerprint, impl_->pool);
    if (!state) return state.error();
    if (auto ok = check(*state); !ok) return ok.error();
    state->notes.erase(impl::model_note);
    state->notes.erase(impl::private_note);
    if (state->notes.size() + impl::own_notes > manifest_notes_max)
        return failure{errc::corrupt, "it has too many notes"};
    // Whose KV it is cannot be told from it: nobody else may ever run on these blocks.
    const std::string salt = random_bytes(state->private_salt.bytes.size());
    std::ranges::copy(salt, state->private_salt.bytes.begin());
    put(std::move(*state));
    return *count;
}

}  // namespace semantic::storage
