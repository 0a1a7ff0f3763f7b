// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_engine.hpp"

#include <algorithm>
#include <thread>

#include "storage/files/checksum.hpp"

namespace semantic::tests {

namespace {

constexpr std::chrono::seconds patience{5};

storage::failure no_agent(const storage::agent_id& agent) {
    return {storage::errc::not_found, "no agent " + agent.str()};
}

}  // namespace

scripted_engine::scripted_engine(std::string id) {
    info_.id = std::move(id);
    info_.family = "none";
    info_.chat_template = "chatml";
    info_.answers.calls = semantic::engine::call_format::hermes;
    info_.kernels = "none";
    info_.context_tokens_max = 4096;
    info_.kv_bits = 4;
    info_.kv_recipe = "k4v4";
    info_.pool_bytes = 100 * 4096;
    info_.kv_bytes_per_token = 16;
    info_.created_unix = 1'700'000'000;
}

scripted_engine::request_id scripted_engine::submit(
    request wanted, std::shared_ptr<semantic::engine::generation_sink> sink) {
    request_id id = 0;
    {
        std::lock_guard lock(mutex_);
        id = requests_.size() + 1;
        requests_[id] = {std::move(wanted), std::move(sink), false};
    }
    changed_.notify_all();
    if (on_submit) on_submit(*this, id);
    return id;
}

void scripted_engine::cancel(request_id id) {
    {
        std::lock_guard lock(mutex_);
        auto found = requests_.find(id);
        if (found == requests_.end() || found->second.sink == nullptr) return;
        found->second.cancelled = true;
    }
    semantic::engine::finished end;
    end.why = semantic::engine::stop_reason::cancelled;
    push(id, end);
    changed_.notify_all();
}

void scripted_engine::remember(semantic::engine::agent_info agent) {
    std::lock_guard lock(mutex_);
    const storage::agent_id id = agent.id;
    agents_.insert_or_assign(id, std::move(agent));
}

void scripted_engine::remember_message(const std::string& id, storage::message_place place) {
    std::lock_guard lock(mutex_);
    messages_.insert_or_assign(id, std::move(place));
}

storage::tenant_id scripted_engine::tenant(std::string_view credential) const {
    return {storage::checksum128(credential)};
}

std::vector<semantic::engine::agent_info> scripted_engine::agents(
    const storage::tenant_id& tenant) const {
    std::lock_guard lock(mutex_);
    std::vector<semantic::engine::agent_info> infos;
    for (const auto& [id, info] : agents_)
        if (id.tenant() == tenant) infos.push_back(info);
    return infos;
}

std::vector<semantic::engine::agent_info> scripted_engine::agents_of_all() const {
    std::lock_guard lock(mutex_);
    std::vector<semantic::engine::agent_info> infos;
    for (const auto& [id, info] : agents_) infos.push_back(info);
    return infos;
}

std::optional<semantic::engine::agent_info> scripted_engine::inspect(
    const storage::agent_id& agent) const {
    std::lock_guard lock(mutex_);
    const auto found = agents_.find(agent);
    if (found == agents_.end()) return std::nullopt;
    return found->second;
}

storage::result<void> scripted_engine::create(const storage::agent_id& agent) {
    std::lock_guard lock(mutex_);
    semantic::engine::agent_info info{agent};
    if (!agents_.try_emplace(agent, std::move(info)).second)
        return storage::failure{storage::errc::bad_value,
                                "there is an agent " + agent.str() + " already"};
    return {};
}

storage::result<void> scripted_engine::fork(const storage::agent_id& from,
                                            const storage::agent_id& to,
                                            const semantic::engine::fork_point& at) {
    std::lock_guard lock(mutex_);
    const auto found = agents_.find(from);
    if (found == agents_.end()) return no_agent(from);
    if (at.message && !answer_names.contains(*at.message))
        return storage::failure{storage::errc::not_found, "no answer " + *at.message};
    semantic::engine::agent_info copy = found->second;
    copy.id = to;
    if (!agents_.try_emplace(to, copy).second)
        return storage::failure{storage::errc::bad_value,
                                "there is an agent " + to.str() + " already"};
    return {};
}

storage::result<void> scripted_engine::set_policy(const storage::agent_id& agent,
                                                  const storage::memory_policy& policy) {
    std::lock_guard lock(mutex_);
    const auto found = agents_.find(agent);
    if (found == agents_.end()) return no_agent(agent);
    found->second.policy = policy;
    const bool is_pinned = policy.pinned.value_or(false);
    using enum storage::memory_claim;
    found->second.claim = is_pinned ? pinned : policy.keep_seconds ? kept : none;
    return {};
}

storage::result<semantic::engine::prefetched_memory> scripted_engine::prefetch(
    const storage::agent_id& agent) {
    std::lock_guard lock(mutex_);
    const auto found = agents_.find(agent);
    if (found == agents_.end()) return no_agent(agent);
    semantic::engine::prefetched_memory brought{found->second.tokens};
    if (!found->second.hot) brought.tokens_read = found->second.tokens;
    found->second.hot = true;
    return brought;
}

storage::result<void> scripted_engine::evict(const storage::agent_id& agent) {
    std::lock_guard lock(mutex_);
    const auto found = agents_.find(agent);
    if (found == agents_.end()) return no_agent(agent);
    found->second.hot = found->second.dirty = false;
    found->second.pool_bytes = found->second.pool_bytes_shared = 0;
    return {};
}

storage::result<void> scripted_engine::erase(const storage::agent_id& agent) {
    if (on_erase)
        if (auto ok = on_erase(agent); !ok) return ok;
    std::lock_guard lock(mutex_);
    if (agents_.erase(agent) == 0) return no_agent(agent);
    return {};
}

storage::result<void> scripted_engine::erase_memory(const storage::agent_id& agent,
                                                    const storage::block_hash& fingerprint) {
    std::lock_guard lock(mutex_);
    const auto found = agents_.find(agent);
    if (found == agents_.end()) return no_agent(agent);
    auto& memories = found->second.memories;
    if (std::erase_if(memories,
                      [&](const auto& each) { return each.fingerprint == fingerprint; }) == 0)
        return no_agent(agent);
    semantic::engine::agent_info& left = found->second;
    left.is_remembered = std::ranges::any_of(memories, &semantic::engine::memory_info::is_loaded);
    left.hot = left.hot && left.is_remembered;
    if (memories.empty()) agents_.erase(found);
    return {};
}

std::optional<storage::message_place> scripted_engine::find_message(
    const storage::tenant_id& tenant, const std::string& id) const {
    std::lock_guard lock(mutex_);
    const auto found = messages_.find(id);
    if (found == messages_.end() || found->second.agent.tenant() != tenant) return std::nullopt;
    return found->second;
}

storage::result<int> scripted_engine::count_tokens(const semantic::engine::conversation& chat,
                                                   const semantic::engine::thinking_params&) const {
    return on_count ? on_count(chat) : storage::result<int>(7);
}

void scripted_engine::drain(std::chrono::steady_clock::time_point deadline) {
    auto running = [this] {
        std::vector<request_id> ids;
        for (const auto& [id, one] : requests_)
            if (one.sink != nullptr) ids.push_back(id);
        return ids;
    };
    std::vector<request_id> late;
    {
        std::unique_lock lock(mutex_);
        changed_.wait_until(lock, deadline, [&] { return running().empty(); });
        drained_ = true;
        late = running();
    }
    for (request_id id : late) cancel(id);
}

void scripted_engine::push(request_id id, event next) {
    std::shared_ptr<semantic::engine::generation_sink> sink;
    {
        std::lock_guard lock(mutex_);
        entry& one = requests_.at(id);
        sink = one.sink;
        bool is_last = std::holds_alternative<semantic::engine::finished>(next) ||
                       std::holds_alternative<semantic::engine::failed>(next);
        if (is_last) one.sink.reset();
    }
    changed_.notify_all();
    if (!sink) return;
    sink->on_event(std::move(next));
    sink->on_group_end();
}

void scripted_engine::admit(request_id id, int prompt_tokens, int reused_tokens) {
    semantic::engine::prompt_usage prompt;
    prompt.prompt_tokens = prompt_tokens;
    prompt.reused_tokens = reused_tokens;
    prompt.created_tokens = prompt_tokens - reused_tokens - 1;
    prompt.recomputed_tokens = 1;
    push(id, semantic::engine::admitted{*storage::agent_id::parse("agent_1"), prompt,
                                        std::chrono::steady_clock::now()});
}

void scripted_engine::say(request_id id, const std::string& text) {
    push(id, semantic::engine::token_text{text, 1});
}

void scripted_engine::finish(request_id id, int output_tokens) {
    semantic::engine::finished end;
    end.output_tokens = output_tokens;
    end.saved = true;
    push(id, end);
}

scripted_engine::request_id scripted_engine::wait_for_request(std::size_t number) {
    std::unique_lock lock(mutex_);
    bool there = changed_.wait_for(lock, patience, [&] { return requests_.size() >= number; });
    return there ? number : 0;
}

bool scripted_engine::wait_for_cancel(request_id id) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return requests_.at(id).cancelled; });
}

bool scripted_engine::is_cancelled(request_id id) const {
    std::lock_guard lock(mutex_);
    return requests_.at(id).cancelled;
}

std::size_t scripted_engine::request_count() const {
    std::lock_guard lock(mutex_);
    return requests_.size();
}

scripted_engine::request scripted_engine::request_of(request_id id) const {
    std::lock_guard lock(mutex_);
    return requests_.at(id).wanted;
}

bool scripted_engine::was_drained() const {
    std::lock_guard lock(mutex_);
    return drained_;
}

std::function<void(scripted_engine&, scripted_engine::request_id)> answer_with(
    std::vector<std::string> words) {
    return [words = std::move(words)](scripted_engine& engine, scripted_engine::request_id id) {
        engine.admit(id);
        for (const std::string& word : words) engine.say(id, word);
        engine.finish(id, static_cast<int>(words.size()));
    };
}

}  // namespace semantic::tests
