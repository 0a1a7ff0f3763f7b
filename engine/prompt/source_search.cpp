#include "engine/prompt/source_search.hpp"

#include <utility>

namespace semantic::engine {

namespace {

// Agents whose memory is searched for a safe cut. The first has the most in common; others count
// only where that one's tokens cannot be cut as late as theirs.
constexpr std::size_t neighbours_max = 32;

}  // namespace

boundary_rules prompt_cuts::rules() {
    return {[this](std::size_t at) { return is_safe(at); },
            [this](token_id id) { return words_.is_special(id); }};
}

bool prompt_cuts::is_safe(std::size_t at) {
    auto [known, is_new] = known_.try_emplace(at, false);
    if (is_new) known->second = words_.is_safe_boundary(prompt_.substr(0, at), prompt_.substr(at));
    return known->second;
}

prompt_source source_search::match(std::shared_ptr<const storage::agent_state> state,
                                   prompt_cuts& of) const {
    if (!state) return {};
    prefix_match found =
        match_prefix({state->text, state->tokens, state->token_ends}, of.prompt(), of.rules());
    return {std::move(state), found};
}

std::shared_ptr<const storage::agent_state> source_search::own_memory(
    const generation_request& request) const {
    return request.agent ? store_.find(*request.agent) : nullptr;
}

prompt_source source_search::best(const generation_request& request, prompt_cuts& of) const {
    prompt_source best;
    if (request.agent) {
        best = match(store_.find(*request.agent), of);
        if (is_whole(best.match.kind)) return best;
    }
    if (request.parent && !best.state) best = match(store_.find(*request.parent), of);
    auto others = store_.closest(request.tenant, of.prompt(), neighbours_max);
    for (storage::prefix_neighbour& other : others) {
        // As much again is of use only when it is all of a memory, which may then be continued.
        if (other.common_bytes < best.match.bytes ||
            (other.common_bytes == best.match.bytes && is_whole(best.match.kind)))
            break;
        prompt_source found = match(std::move(other.state), of);
        if (found.match.bytes > best.match.bytes ||
            (found.match.bytes == best.match.bytes && is_whole(found.match.kind)))
            best = std::move(found);
    }
    return best;
}

}  // namespace semantic::engine
