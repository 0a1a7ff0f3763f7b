// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/agents/shared_agents.hpp"

#include <algorithm>
#include <atomic>

#include "storage/disk/block_format.hpp"
#include "storage/disk/manifest.hpp"
#include "storage/objects/agents/manifest_versions.hpp"

namespace semantic::storage {

using namespace manifest_versions;

namespace {

constexpr std::size_t mark_bytes_max = 1024;
constexpr std::size_t names_max = 100'000;  // of agents, some 200 bytes each
constexpr std::chrono::seconds flush_patience{5};

/// Returns: the failure of an object store as that of a file.
failure of_object(const object_failure& f) {
    errc code = errc::io;
    if (f.code == object_errc::not_found) code = errc::not_found;
    if (f.code == object_errc::corrupt) code = errc::corrupt;
    return {code, f.what};
}

/// Returns: the fingerprint in the path of a manifest; zero where there is none.
block_hash fingerprint_in(const std::string& manifest) {
    const std::string_view hex = std::string_view(manifest).substr(agent_part(manifest).size());
    const auto hash = block_hash::from_hex(hex.substr(0, 2 * sizeof(block_hash)));
    return hash ? *hash : block_hash{};
}

}  // namespace

std::string shared_name_of(const agent_cache_store& store, const agent_id& id) {
    return std::string(agent_part(store.manifest_of(id)));
}

shared_agents::shared_agents(agent_cache_store& store, object_store& objects,
                             const shared_agents_options& options)
    : store_(store),
      objects_(objects),
      lookups_(options.lookups != nullptr ? *options.lookups : objects),
      options_(options),
      files_(options.files != nullptr ? *options.files : posix_file_system()) {}

object_result<std::unique_ptr<shared_agents>> shared_agents::open(
    agent_cache_store& store, object_store& objects, const shared_agents_options& options) {
    std::unique_ptr<shared_agents> shared(new shared_agents(store, objects, options));
    if (auto ok = shared->find_pending(); !ok) return ok.error();
    shared_agents& self = *shared;
    shared->worker_ = std::jthread([&self](std::stop_token stop) { self.work(std::move(stop)); });
    return shared;
}

shared_agents::~shared_agents() {
    worker_.request_stop();
    if (worker_.joinable()) worker_.join();  // none where open() failed
    for (const auto& [manifest, callbacks] : pending_)
        for (const uploaded& done : callbacks) done(false);
}

/// Blocks. Queues the manifests of this model that differ from what was last seen in the object
/// store. Those of other models wait until such a model runs, and are spared by the disk quota if
/// they were never uploaded.
object_result<void> shared_agents::find_pending() {
    if (auto ok = files_.make_directory(options_.directory + "/shared"); !ok)
        return of_file(ok.error());
    const auto entries = files_.list(options_.directory + "/agents");
    if (!entries && entries.error().code == errc::not_found) return {};
    if (!entries) return of_file(entries.error());
    // Manifests of other models are left to those models: of several that run on one directory each
    // would upload them. The agent "any" need not exist: only the ending of the path is of use.
    const std::string own = store_.manifest_of(*agent_id::parse("any"));
    const std::string ending = own.substr(agent_part(own).size());
    for (const directory_entry& each : *entries) {
        const std::string manifest = "agents/" + each.name;
        if (!each.name.ends_with(ending)) {
            if (each.name.ends_with(".manifest") && !read_mark(manifest))
                store_.spare(manifest, true);
            continue;
        }
        const auto bytes = read_manifest(manifest);
        if (!bytes) continue;  // erased meanwhile, or what the agents' store complains of
        const auto seen = read_mark(manifest);
        if (!seen || seen->sum != sum_of(*bytes)) add_pending(manifest, {});
    }
    return {};
}

object_result<std::string> shared_agents::read_manifest(const std::string& manifest) const {
    auto bytes = read_whole(files_, options_.directory + "/" + manifest, manifest_file_bytes_max);
    if (!bytes) return of_file(bytes.error());
    return std::move(*bytes);
}

void shared_agents::warn(std::string text) const {
    if (options_.on_warning) options_.on_warning(std::move(text));
}

// --- marks ---

std::string shared_agents::mark_path(const std::string& manifest) const {
    return options_.directory + "/shared/" + manifest.substr(manifest.rfind('/') + 1);
}

std::optional<shared_agents::mark> shared_agents::read_mark(const std::string& manifest) const {
    const auto line = read_whole(files_, mark_path(manifest), mark_bytes_max);
    if (!line || !line->ends_with('\n')) return std::nullopt;
    const std::size_t blank = line->find(' ');
    if (blank == std::string::npos) return std::nullopt;
    return mark{line->substr(0, blank), line->substr(blank + 1, line->size() - blank - 2)};
}

/// Notes which version of the manifest was last seen in the object store, and its checksum.
object_result<void> shared_agents::write_mark(const std::string& manifest, const mark& seen) {
    const auto done =
        replace_file(files_, mark_path(manifest), seen.version + " " + seen.sum + "\n");
    if (!done) return of_file(done.error());
    return {};
}

// --- background uploads ---

/// Queues a manifest for its upload; `done`, if set, is called when it is over. Returns: false
/// where too many wait: it is uploaded after the next start, and `done` is not called.
bool shared_agents::add_pending(const std::string& manifest, uploaded done) {
    std::lock_guard lock(mutex_);
    auto found = pending_.find(manifest);
    if (found == pending_.end()) {
        // The one under way counts as well, since it returns to the queue where its upload fails.
        if (pending_.size() + (uploading_.empty() ? 0 : 1) >= options_.pending_max) {
            ++counts_.left_out;
            store_.spare(manifest, true);  // until a start uploads it
            return false;
        }
        found = pending_.try_emplace(manifest).first;
        store_.spare(manifest, true);
    }
    if (done) found->second.push_back(std::move(done));
    changed_.notify_all();
    return true;
}

/// Removes a manifest that need not be uploaded from the queue, and notifies its waiters.
/// Returns: whether it was there.
bool shared_agents::give_up_pending(const std::string& manifest) {
    std::unique_lock lock(mutex_);
    const auto found = pending_.extract(manifest);
    if (!found.empty()) store_.spare(manifest, false);
    lock.unlock();
    if (found.empty()) return false;
    for (const uploaded& done : found.mapped()) done(false);
    return true;
}

void shared_agents::note_saved(const agent_id& id, uploaded done) {
    const std::string manifest = store_.manifest_of(id);
    remember_name(manifest, id);
    if (!add_pending(manifest, done) && done) done(false);
}

// --- reading through ---

/// While it lives, no other thread uploads this manifest or replaces it by the object store's.
class shared_agents::manifest_lock {
  public:
    /// Waits for the current holder, up to `wait_max`.
    manifest_lock(shared_agents& agents, std::string manifest, std::chrono::milliseconds wait_max)
        : agents_(agents), manifest_(std::move(manifest)) {
        std::unique_lock lock(agents_.mutex_);
        is_mine_ = agents_.changed_.wait_for(lock, wait_max, [&] {
            return agents_.uploading_ != manifest_ && !agents_.locked_.contains(manifest_);
        });
        if (is_mine_) agents_.locked_.insert(manifest_);
    }
    ~manifest_lock() {
        if (!is_mine_) return;
        std::lock_guard lock(agents_.mutex_);
        agents_.locked_.erase(manifest_);
        agents_.changed_.notify_all();
    }
    manifest_lock(const manifest_lock&) = delete;
    manifest_lock& operator=(const manifest_lock&) = delete;
    bool is_mine() const { return is_mine_; }

  private:
    shared_agents& agents_;
    const std::string manifest_;
    bool is_mine_ = false;
};

/// Whether the manifest has content that, as far as this machine knows, is not in the object store.
bool shared_agents::local_copy::is_ahead() const {
    return bytes && (!seen || seen->sum != sum_of(*bytes));
}

object_result<freshness> shared_agents::refresh(const agent_id& id) {
    const auto here = store_.inspect(id);
    if (here && here->dirty) return freshness::same;  // goes on from what was fetched or made here
    local_copy own;
    own.path = store_.manifest_of(id);
    const manifest_lock mine(*this, own.path, options_.upload_wait);
    if (!mine.is_mine()) return unavailable("the agent is being uploaded or fetched");
    const auto now = std::chrono::steady_clock::now();
    {
        std::lock_guard lock(mutex_);
        ++counts_.checks;
        if (now < silent_until_) {
            ++counts_.unanswered;
            return unavailable("the object store did not answer a moment ago");
        }
    }
    auto bytes = read_manifest(own.path);
    if (!bytes && bytes.error().code != object_errc::not_found) return bytes.error();
    if (bytes) own.bytes = std::move(*bytes);
    own.seen = read_mark(own.path);
    auto found = refresh(id, own);
    if (found && *found != freshness::absent) remember_name(own.path, id);
    if (!found && found.error().code == object_errc::unavailable) {
        std::lock_guard lock(mutex_);
        ++counts_.unanswered;
        silent_until_ = std::chrono::steady_clock::now() + options_.pause;
    }
    return found;
}

/// Blocks. As the public method, for an agent whose local files were read. Requires: the manifest's
/// lock.
object_result<freshness> shared_agents::refresh(const agent_id& id, const local_copy& own) {
    if (own.bytes && own.seen) {
        const auto known = lookups_.stat(std::span(&own.path, 1));
        if (!known) return known.error();
        if (known->front() && known->front()->version == own.seen->version) return freshness::same;
    }
    std::string bytes;
    const auto got = lookups_.get(own.path, bytes);
    if (!got && got.error().code == object_errc::not_found) {
        if (own.bytes) add_pending(own.path, {});
        return freshness::absent;
    }
    if (!got) return got.error();
    const mark now{got->version, sum_of(bytes)};
    if (bytes == tombstone) return take_erasure(id, own, now);
    if (own.bytes && is_ancestor(bytes, *own.bytes)) {
        if (auto ok = write_mark(own.path, now); !ok) return ok.error();
        if (bytes != *own.bytes) add_pending(own.path, {});
        return freshness::same;
    }
    return take_up(id, own, bytes, now);
}

/// Blocks. Replaces the agent here by the version in the object store (`bytes`, seen as `now`);
/// turns of this machine that it lacks are saved in a fork first.
object_result<freshness> shared_agents::take_up(const agent_id& id, const local_copy& own,
                                                const std::string& bytes, const mark& now) {
    if (own.is_ahead())
        if (auto ok = give_way(id, own); !ok) return ok.error();
    std::atomic<std::uint64_t> fetched = bytes.size();
    const auto block = [&](const std::string& path) -> result<std::string> {
        std::string file;
        if (const auto there = lookups_.get(path, file); !there) return of_object(there.error());
        fetched += file.size();
        return file;
    };
    const auto adopted = store_.adopt(id, bytes, block);
    if (!adopted) {
        object_failure why = of_file(adopted.error());
        // The manifest is there, so this is no "not found" of the agent.
        if (why.code == object_errc::not_found) why.code = object_errc::corrupt;
        return why;
    }
    {
        std::lock_guard lock(mutex_);
        ++counts_.agents_fetched;
        counts_.bytes_fetched += fetched;
        gave_way_.erase(own.path);
    }
    if (auto ok = write_mark(own.path, now); !ok) return ok.error();
    store_.spare(own.path, false);
    return freshness::fetched;
}

/// Blocks. Saves the turns of this machine that lost against another machine's, and are not in the
/// object store, in a fork of the agent, which is uploaded.
object_result<void> shared_agents::give_way(const agent_id& id, const local_copy& own) {
    if (give_up_pending(own.path)) {
        std::lock_guard lock(mutex_);
        ++counts_.conflicts;
    }
    if (!options_.name_fork) return {};
    const std::string sum = sum_of(*own.bytes);
    {
        // An earlier call may have made the fork and then failed to fetch the winner's version.
        std::lock_guard lock(mutex_);
        const auto given = gave_way_.find(own.path);
        if (given != gave_way_.end() && given->second == sum) return {};
    }
    const agent_id fork = options_.name_fork(id);
    const auto made = store_.fork(id, fork, true);
    if (!made && made.error().code == errc::not_found) return {};  // unreadable here
    if (!made) return of_file(made.error());
    add_pending(store_.manifest_of(fork), {});
    std::lock_guard lock(mutex_);
    gave_way_[own.path] = sum;
    ++counts_.forks;
    return {};
}

/// Blocks. Erases the agent here, because another machine has erased it (there is a tombstone, seen
/// as `now`), and the branches of its session. An agent that was created again here afterwards
/// stays.
object_result<freshness> shared_agents::take_erasure(const agent_id& id, const local_copy& own,
                                                     const mark& now) {
    if (own.bytes && own.is_ahead() && own.seen && own.seen->version == now.version)
        return freshness::same;  // made again here, and not uploaded yet
    give_up_pending(own.path);
    // The mark is written last: once it exists, files that are left here would count as a new agent
    // and be uploaded over the tombstone.
    if (own.bytes) {
        const auto gone = store_.erase(id, fingerprint_in(own.path));
        if (!gone && gone.error().code != errc::not_found) return of_file(gone.error());
    }
    // Only the first time that this tombstone is seen: branches made later belong to a new session
    // of that name.
    if (!own.seen || own.seen->version != now.version)
        if (auto ok = erase_branches(id); !ok) return ok.error();
    if (auto ok = write_mark(own.path, now); !ok) return ok.error();
    if (!own.bytes) return freshness::absent;
    std::lock_guard lock(mutex_);
    ++counts_.erased;
    return freshness::erased;
}

/// Blocks. Erases, here and in the object store, the branches of a session that another machine has
/// erased; only this machine can find them, by its notes. One that is in use stays until a later
/// call.
object_result<void> shared_agents::erase_branches(const agent_id& session) {
    for (const agent_id& each : store_.branches_of(session)) {
        const auto here = store_.inspect(each);
        if (here && here->in_use) continue;
        if (auto ok = forget(each); !ok) return ok;
        const auto gone = store_.erase(each);
        if (!gone && gone.error().code != errc::not_found) return of_file(gone.error());
    }
    return {};
}

object_result<void> shared_agents::forget(const agent_id& id) {
    const std::string own = store_.manifest_of(id);
    give_up_pending(own);
    {
        // Waits for an upload under way. A first upload is not listed below yet, and would bring
        // the agent back.
        const manifest_lock mine(*this, own, options_.upload_wait);
        if (!mine.is_mine()) return unavailable("the agent is being uploaded or fetched");
    }
    std::string from;
    do {
        const auto page = objects_.list(std::string(agent_part(own)), from, object_page_max);
        if (!page) return page.error();
        for (const listed_object& each : page->objects)
            if (auto ok = forget_manifest(each.name); !ok) return ok;
        from = page->next;
    } while (!from.empty());
    return {};
}

object_result<void> shared_agents::forget(const agent_id& id, const block_hash& fingerprint) {
    std::string manifest(agent_part(store_.manifest_of(id)));
    return forget_manifest(manifest + fingerprint.hex() + ".manifest");
}

/// Blocks. Replaces one manifest in the object store by a tombstone.
object_result<void> shared_agents::forget_manifest(const std::string& manifest) {
    give_up_pending(manifest);
    const manifest_lock mine(*this, manifest, options_.upload_wait);
    if (!mine.is_mine()) return unavailable("the agent is being uploaded or fetched");
    const auto put = objects_.put(manifest, tombstone, always());
    if (!put) return put.error();
    if (options_.on_forgotten) options_.on_forgotten(std::string(agent_part(manifest)));
    return write_mark(manifest, {*put, sum_of(tombstone)});
}

// --- what other nodes say ---

/// Remembers which agent a name belongs to that other nodes use (shared_name_of).
void shared_agents::remember_name(const std::string& manifest, const agent_id& id) {
    std::lock_guard lock(mutex_);
    // A name that is forgotten comes back when its agent is used again.
    if (names_.size() >= names_max) names_.clear();
    names_.emplace(agent_part(manifest), id);
}

/// Returns: the agent with this name, if it was used here since the start or this directory has it.
std::optional<agent_id> shared_agents::find_name(const std::string& name) const {
    {
        std::lock_guard lock(mutex_);
        if (const auto found = names_.find(name); found != names_.end()) return found->second;
    }
    const std::string any = store_.manifest_of(*agent_id::parse("any"));
    const std::string manifest = name + any.substr(agent_part(any).size());
    if (!check_object_name(manifest) || !is_here(manifest)) return std::nullopt;
    for (const agent_id& each : store_.ids())
        if (store_.manifest_of(each) == manifest) return each;
    return std::nullopt;
}

void shared_agents::heard_saved(const std::string& name) {
    std::unique_lock lock(mutex_);
    const auto found = names_.find(name);
    if (found == names_.end()) return;
    const agent_id id = found->second;
    lock.unlock();
    const auto here = store_.inspect(id);
    if (!here || here->in_use || here->frames_held == 0 || !store_.evict(id)) return;
    lock.lock();
    ++counts_.evicted;
}

void shared_agents::heard_erased(const std::string& name) {
    const auto id = find_name(name);
    const auto here = id ? store_.inspect(*id) : std::nullopt;
    if (!here || here->in_use || here->dirty) return;
    local_copy own;
    own.path = store_.manifest_of(*id);
    const manifest_lock mine(*this, own.path, options_.upload_wait);
    if (!mine.is_mine()) return;
    std::string bytes;
    const auto got = lookups_.get(own.path, bytes);
    if (!got || bytes != tombstone) return;
    auto local = read_manifest(own.path);
    if (local) own.bytes = std::move(*local);
    own.seen = read_mark(own.path);
    if (auto done = take_erasure(*id, own, {got->version, sum_of(bytes)}); !done)
        warn("could not erase " + own.path +
             ", which another node has erased: " + done.error().what);
}

bool shared_agents::wait_until_idle(std::chrono::milliseconds wait_max) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, wait_max,
                             [this] { return pending_.empty() && uploading_.empty(); });
}

void shared_agents::flush(std::chrono::milliseconds wait_max) {
    const auto until = std::chrono::steady_clock::now() + wait_max;
    std::unique_lock lock(mutex_);
    const auto is_over = [this] { return has_failed_ || (pending_.empty() && uploading_.empty()); };
    // Waits on as long as bytes arrive. The first value is one that the count does not have.
    for (std::uint64_t before = ~counts_.bytes_uploaded; before != counts_.bytes_uploaded;) {
        before = counts_.bytes_uploaded;
        const auto next = std::min(until, std::chrono::steady_clock::now() + flush_patience);
        if (changed_.wait_until(lock, next, is_over) || next == until) return;
    }
}

shared_agents_counts shared_agents::counts() const {
    std::lock_guard lock(mutex_);
    shared_agents_counts now = counts_;
    now.pending = pending_.size() + (uploading_.empty() ? 0 : 1);
    return now;
}

}  // namespace semantic::storage
