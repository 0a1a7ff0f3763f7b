// agent_cache_store: what is on disk when the directory is opened.

#include <algorithm>
#include <random>

#include "storage/agents/agent_cache_store_impl.hpp"

namespace semantic::storage {

namespace {

constexpr std::size_t secret_bytes = 32;

}  // namespace

std::string random_bytes(std::size_t count) {
    std::random_device entropy;
    std::string bytes;
    while (bytes.size() < count) bytes += static_cast<char>(entropy() & 0xff);
    return bytes;
}

result<void> agent_cache_store::impl::open() {
    if (auto ok = make_directories(); !ok) return ok;
    auto lock = files.lock(options.directory);
    if (!lock) return lock.error();
    directory = std::move(*lock);
    if (auto ok = quota.set_budget(options.disk_budget_bytes); !ok) return ok;
    if (auto ok = read_secret(); !ok) return ok;
    if (auto ok = count_others(); !ok) return ok;
    bool all_understood = true;
    if (auto ok = read_manifests(all_understood); !ok) return ok;
    // A manifest of a later format may need files that this program cannot know of.
    // Ordering the texts waits for no disk, so it is done beside.
    const auto index_texts = [this] {
        for (auto& [id, agent] : agents) by_text.add(&agent.state);
    };
    if (auto ok = blocks.scan(!all_understood, workers, index_texts); !ok) return ok;
    std::set<std::string> in_vain;
    while (quota.is_over_budget())
        if (!remove_one(in_vain)) break;
    return {};
}

/// Files that are nobody's business here take room all the same.
result<void> agent_cache_store::impl::count_others() {
    const auto entries = files.list(options.directory);
    if (!entries) return entries.error();
    for (const directory_entry& entry : *entries) {
        if (entry.is_directory && (entry.name == "agents" || entry.name == "blocks")) continue;
        const auto bytes =
            entry.is_directory ? bytes_below(files, full_path(entry.name)) : entry.bytes;
        if (!bytes) return bytes.error();
        quota.add(*bytes);
    }
    return {};
}

result<void> agent_cache_store::impl::read_secret() {
    const std::string path = full_path("secret");
    auto found = read_whole(files, path, secret_bytes);
    if (found && found->size() == secret_bytes) {
        secret = std::move(*found);
        return {};
    }
    if (!found && found.error().code == errc::io) return found.error();
    // None yet, or not one that was ever written here. With another one the tenants start anew.
    secret = random_bytes(secret_bytes);
    return replace_file(files, path, secret);
}

result<void> agent_cache_store::impl::read_manifests(bool& all_understood) {
    const auto entries = files.list(full_path("agents"));
    if (!entries) return entries.error();
    std::vector<read_file> found;
    for (const directory_entry& entry : *entries) {
        const std::string relative = "agents/" + entry.name;
        if (!entry.is_directory && entry.name.ends_with(".tmp")) {
            if (auto ok = files.unlink(full_path(relative)); !ok) return ok;
        } else if (!entry.is_directory && entry.name.ends_with(".manifest")) {
            quota.add(entry.bytes);
            found.push_back(
                {relative, entry.bytes, failure{errc::not_found, {}}, {}, {}, {}, false});
        } else {
            const auto bytes =
                entry.is_directory ? bytes_below(files, full_path(relative)) : entry.bytes;
            if (!bytes) return bytes.error();
            quota.add(*bytes);
        }
    }
    workers.run(found.size(), [&](std::size_t i) { read_manifest(found[i]); });
    std::size_t block_count = 0;
    for (const read_file& each : found) block_count += each.names.size();
    blocks.expect(block_count);
    for (read_file& each : found)
        if (auto ok = index_manifest(std::move(each), all_understood); !ok) return ok;
    return {};
}

/// Everything about one manifest that needs no index. Thread: any.
void agent_cache_store::impl::read_manifest(read_file& file) const {
    const auto bytes = read_whole(files, full_path(file.relative), manifest_file_bytes_max);
    file.found = bytes ? decode_manifest(*bytes) : result<decoded_manifest>(bytes.error());
    if (!file.found) return;
    manifest& agent = file.found->agent;
    for (const manifest_block& block : agent.blocks) file.names.push_back(block.name);
    const auto name = agent_id::parse(agent.agent);
    if (!name) {
        file.found = failure{errc::corrupt, file.relative + ": agent is not an agent id"};
        return;
    }
    file.id = name->of(agent.tenant);
    std::string_view salt = salt_of(*file.id);
    const auto note = agent.notes.extract(private_note);
    if (note) {
        salt = note.mapped();
        if (salt.size() != file.private_salt.bytes.size()) return;
        std::ranges::copy(salt, file.private_salt.bytes.begin());
        if (file.private_salt == block_hash{}) return;
    }
    file.ours = agent.fingerprint == options.fingerprint && path_of(*file.id) == file.relative &&
                file.names == block_names(options.fingerprint, salt, agent.tokens, block_tokens);
}

/// Enters it everywhere but in by_text, which is for open() to do.
result<void> agent_cache_store::impl::index_manifest(read_file file, bool& all_understood) {
    if (!file.found && file.found.error().code == errc::incompatible) {
        ++probe.manifests_incompatible;
        absent[file.relative] = shortfall::incompatible;
        foreign[file.relative] = {{}, file.bytes};
        all_understood = false;
        return {};
    }
    if (!file.found) {
        if (file.found.error().code != errc::corrupt) return file.found.error();
        // Nothing in it can be trusted, so nothing is lost with it.
        ++probe.manifests_corrupt;
        absent[file.relative] = shortfall::corrupt;
        if (auto ok = files.unlink(full_path(file.relative)); !ok) return ok;
        quota.remove(file.bytes);
        return {};
    }
    blocks.retain(file.names);
    // What belongs to another model, tenant or block size stays as it is, with its blocks, until
    // its agent is saved anew.
    if (!file.ours) {
        ++probe.manifests_incompatible;
        const auto& notes = file.found->agent.notes;
        const auto model = notes.find(model_note);
        const bool other_model = model != notes.end() && model->second != options.model;
        absent[file.relative] = other_model ? shortfall::model_changed : shortfall::incompatible;
        foreign[file.relative] = {std::move(file.names), file.bytes};
        return {};
    }
    if (file.found->torn) {
        ++probe.manifests_corrupt;
        ++probe.manifests_torn;
    }
    manifest& agent = file.found->agent;
    const agent_id id = *file.id;
    record entry;
    entry.last_used = agent.last_used;
    entry.state = std::make_shared<const agent_state>(
        agent_state{id, std::move(agent.tokens), std::move(agent.text), std::move(agent.token_ends),
                    std::vector<kv_block_parts>(file.names.size()), agent.created, agent.last_used,
                    std::move(agent.notes), std::move(agent.messages), file.private_salt});
    entry.names = file.names;
    entry.saved = std::move(file.names);
    entry.manifest_bytes = file.bytes;
    const auto added = agents.emplace(id, std::move(entry)).first;
    index_messages(id, nullptr, added->second.state.get());
    return {};
}

}  // namespace semantic::storage
