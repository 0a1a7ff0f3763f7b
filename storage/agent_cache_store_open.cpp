// agent_cache_store: what is on disk when the directory is opened.

#include "storage/agent_cache_store_impl.hpp"
#include "storage/types/assert.hpp"

namespace semantic::storage {

result<void> agent_cache_store::impl::open() {
    for (const char* each : {"", "/agents", "/blocks"})
        if (auto ok = files.make_directory(options.directory + each); !ok) return ok;
    auto lock = files.lock(full_path("lock"));
    if (!lock) {
        if (lock.error().code != errc::locked) return lock.error();
        return failure{errc::locked,
                       options.directory + ": another process uses this cache directory"};
    }
    directory = std::move(*lock);
    if (auto ok = quota.set_budget(options.disk_budget_bytes); !ok) return ok;
    if (auto ok = count_others(); !ok) return ok;
    bool all_understood = true;
    if (auto ok = read_manifests(all_understood); !ok) return ok;
    // A manifest of a later format may need files that this program cannot know of.
    if (auto ok = blocks.scan(!all_understood); !ok) return ok;
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

result<void> agent_cache_store::impl::read_manifests(bool& all_understood) {
    const auto entries = files.list(full_path("agents"));
    if (!entries) return entries.error();
    for (const directory_entry& entry : *entries) {
        const std::string relative = "agents/" + entry.name;
        if (!entry.is_directory && entry.name.ends_with(".tmp")) {
            if (auto ok = files.unlink(full_path(relative)); !ok) return ok;
        } else if (!entry.is_directory && entry.name.ends_with(".json")) {
            quota.add(entry.bytes);
            if (auto ok = read_manifest(relative, entry.bytes, all_understood); !ok) return ok;
        } else {
            const auto bytes =
                entry.is_directory ? bytes_below(files, full_path(relative)) : entry.bytes;
            if (!bytes) return bytes.error();
            quota.add(*bytes);
        }
    }
    return {};
}

result<void> agent_cache_store::impl::read_manifest(const std::string& relative,
                                                    std::uint64_t file_bytes,
                                                    bool& all_understood) {
    const auto bytes = read_whole(files, full_path(relative), manifest_file_bytes_max);
    if (!bytes && bytes.error().code != errc::corrupt) return bytes.error();
    auto found = bytes ? decode_manifest(*bytes) : result<manifest>(bytes.error());
    if (found) {
        index_manifest(relative, std::move(*found), file_bytes);
        return {};
    }
    if (found.error().code == errc::incompatible) {
        ++probe.manifests_incompatible;
        absent[relative] = shortfall::incompatible;
        foreign[relative] = {{}, file_bytes};
        all_understood = false;
        return {};
    }
    // Nothing in it can be trusted, so nothing is lost with it.
    ++probe.manifests_corrupt;
    absent[relative] = shortfall::corrupt;
    if (auto ok = files.unlink(full_path(relative)); !ok) return ok;
    quota.remove(file_bytes);
    return {};
}

void agent_cache_store::impl::index_manifest(const std::string& relative, manifest found,
                                             std::uint64_t bytes) {
    std::vector<block_hash> listed;
    for (const manifest_block& block : found.blocks) listed.push_back(block.name);
    auto id = agent_id::parse(found.agent);
    ASSERT(id);  // decode_manifest has checked it
    // What belongs to another model, tenant or block size stays as it is, with its blocks, until
    // its agent is saved anew.
    const bool ours =
        found.fingerprint == options.fingerprint && path_of(*id) == relative &&
        listed == block_names(options.fingerprint, options.tenant_salt, found.tokens, block_tokens);
    blocks.retain(listed);
    if (!ours) {
        ++probe.manifests_incompatible;
        absent[relative] = shortfall::incompatible;
        foreign[relative] = {std::move(listed), bytes};
        return;
    }
    agent_state state{*id,
                      std::move(found.tokens),
                      std::move(found.text),
                      std::move(found.token_ends),
                      std::vector<block_ptr>(listed.size()),
                      found.created,
                      found.last_used,
                      std::move(found.notes)};
    record agent;
    agent.last_used = state.last_used;
    agent.state = std::make_shared<const agent_state>(std::move(state));
    agent.names = listed;
    agent.saved = std::move(listed);
    agent.manifest_bytes = bytes;
    agents.emplace(*id, std::move(agent));
}

}  // namespace semantic::storage
