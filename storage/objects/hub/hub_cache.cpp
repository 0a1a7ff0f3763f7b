// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/hub/hub_cache.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <thread>

#include "storage/objects/hub/content_digest.hpp"

namespace semantic::storage {

namespace {

namespace fs = std::filesystem;
using steady = std::chrono::steady_clock;

constexpr std::size_t downloads_at_once = 4;
constexpr int attempts_max = 200;  // of one file, those that brought something included
constexpr std::uint64_t spare_bytes = std::uint64_t{64} << 20;  // left on the disk
constexpr std::chrono::milliseconds progress_every{200};

std::uint64_t size_of(const std::string& path) {
    std::error_code ec;
    const auto bytes = fs::file_size(path, ec);
    return ec ? 0 : bytes;
}

bool is_there(const std::string& path) {
    std::error_code ec;
    return fs::is_regular_file(path, ec);
}

std::string megabytes(std::uint64_t bytes) { return std::to_string(bytes / 1'000'000) + " MB"; }

content_digest digest_for(const hub_file& file) {
    return {file.is_large ? content_digest::kind::sha256 : content_digest::kind::git_blob,
            file.bytes};
}

failure stopped() { return {errc::io, "the program is being stopped"}; }

}  // namespace

/// The download of one file to its blob. Its bytes go to a part file, which a later process
/// continues.
class hub_cache::download {
  public:
    download(file_system& files, const hub_client& from, const std::string& repository,
             const std::string& commit, const hub_file& file, std::string blob,
             std::atomic<std::uint64_t>& done, const std::stop_token& stop)
        : files_(files),
          from_(from),
          repository_(repository),
          commit_(commit),
          file_(file),
          blob_(std::move(blob)),
          part_(blob_ + ".semantic-part"),
          done_(done),
          stop_(stop),
          digest_(digest_for(file)) {}

    /// Blocks. Returns when the whole blob is there and its digest is right.
    result<void> run() {
        if (is_there(blob_)) {
            if (size_of(blob_) == file_.bytes) {
                done_ += file_.bytes;
                return {};
            }
            if (auto removed = files_.unlink(blob_); !removed) return removed;
        }
        auto taken = take_up();
        if (!taken) return taken.error();
        const bool is_resumed = position_ > 0;
        auto finished = finish();
        // The part that an earlier process left may be damaged: once more, from the first byte.
        if (!finished && finished.error().code == errc::corrupt && is_resumed) {
            if (auto begun = begin_anew(); !begun) return begun;
            finished = finish();
        }
        return finished;
    }

  private:
    /// Continues after the bytes that an earlier process left, whose digest is computed again.
    result<void> take_up() {
        const std::uint64_t there = size_of(part_);
        if (!is_there(part_) || there > file_.bytes) return begin_anew();
        auto earlier = files_.open(part_);
        if (!earlier) return earlier.error();
        std::vector<char> bytes(std::size_t{1} << 20);
        while (position_ < there) {
            if (stop_.stop_requested()) return stopped();
            const auto count = std::min<std::uint64_t>(bytes.size(), there - position_);
            const std::span<char> next(bytes.data(), static_cast<std::size_t>(count));
            if (auto read = (*earlier)->read_at(position_, std::as_writable_bytes(next)); !read)
                return read;
            advance({next.data(), next.size()});
        }
        auto opened = files_.append(part_);
        if (!opened) return opened.error();
        out_ = std::move(*opened);
        return {};
    }

    /// Empties the part file and starts at the first byte.
    result<void> begin_anew() {
        done_ -= position_;
        position_ = 0;
        digest_ = digest_for(file_);
        out_.reset();
        auto made = files_.create(part_);
        if (!made) return made.error();
        out_ = std::move(*made);
        return {};
    }

    void advance(std::string_view bytes) {
        digest_.add(bytes);
        position_ += bytes.size();
        done_ += bytes.size();
    }

    /// Fetches the missing bytes, compares the digest of the whole and renames the part file to the
    /// blob. A file with a wrong digest is removed.
    result<void> finish() {
        if (auto fetched = fetch_rest(); !fetched) return fetched;
        if (const std::string digest = digest_.finish(); digest != file_.digest) {
            out_.reset();
            if (auto removed = files_.unlink(part_); !removed) return removed;
            return failure{errc::corrupt, repository_ + ": " + file_.path + ": what came has the " +
                                              "digest " + digest + " and should have " +
                                              file_.digest + "; it was removed"};
        }
        if (auto synced = out_->sync(); !synced) return synced;
        out_.reset();
        if (auto renamed = files_.rename(part_, blob_); !renamed) return renamed;
        return files_.sync_directory(fs::path(blob_).parent_path().string());
    }

    /// Reads until all bytes are there. Each attempt continues where the last one ended; patience
    /// ends when several attempts in a row have brought nothing.
    result<void> fetch_rest() {
        std::optional<backoff> wait;
        auto since = steady::now();
        for (int attempts = 0; position_ < file_.bytes; ++attempts) {
            const std::uint64_t before = position_;
            std::optional<failure> own;
            const auto read = from_.read(repository_, commit_, file_, position_,
                                         [&](std::uint64_t position, std::string_view bytes) {
                                             auto kept = keep(position, bytes);
                                             if (!kept) own = kept.error();
                                             return kept.has_value();
                                         });
            if (own) return *own;
            if (read) continue;
            if (stop_.stop_requested()) return stopped();
            if (!read.error().may_succeed_later || attempts == attempts_max)
                return read.error().why;
            if (position_ > before || !wait) {  // it goes on: patience starts again
                wait.emplace(from_.retries(), std::random_device{}());
                since = steady::now();
            }
            const auto pause = wait->next(
                std::chrono::duration_cast<std::chrono::milliseconds>(steady::now() - since),
                read.error().retry_after);
            if (!pause) {
                failure why = read.error().why;
                why.what += " (" + std::to_string(wait->attempts()) + " tries without a byte; " +
                            "what came is kept, and goes on when it is asked for again)";
                return why;
            }
            std::this_thread::sleep_for(*pause);
        }
        return {};
    }

    /// Appends bytes that the hub sent from `position` on. A hub that ignores the range begins at 0
    /// again, and so does the part file.
    result<void> keep(std::uint64_t position, std::string_view bytes) {
        if (stop_.stop_requested()) return stopped();
        if (position != position_) {
            if (auto begun = begin_anew(); !begun) return begun;
        }
        if (auto written = out_->write(std::as_bytes(std::span(bytes.data(), bytes.size())));
            !written)
            return written;
        advance(bytes);
        return {};
    }

    file_system& files_;
    const hub_client& from_;
    const std::string& repository_;
    const std::string& commit_;
    const hub_file& file_;
    const std::string blob_, part_;
    // Bytes that all downloads of one fetch() have so far, for its progress.
    std::atomic<std::uint64_t>& done_;
    const std::stop_token& stop_;
    content_digest digest_;
    std::uint64_t position_ = 0;  // bytes in the part
    std::unique_ptr<writable_file> out_;
};

hub_cache::hub_cache(file_system& files, std::string root)
    : files_(files), root_(std::move(root)) {}

std::string hub_cache::folder_name(const std::string& repository) {
    std::string name = repository;
    if (const auto slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
    return "models--" + name;
}

std::string hub_cache::folder_of(const std::string& repository) const {
    return root_ + "/" + folder_name(repository);
}

std::string hub_cache::snapshot_of(const std::string& repository, const std::string& commit) const {
    return folder_of(repository) + "/snapshots/" + commit;
}

std::string hub_cache::blob_of(const std::string& repository, const hub_file& file) const {
    return folder_of(repository) + "/blobs/" + file.digest;
}

result<hub_needs> hub_cache::needs_of(const std::string& repository,
                                      const std::vector<hub_file>& wanted) const {
    if (auto made = files_.make_directory(root_); !made) return made.error();
    const auto space = files_.space(root_);
    if (!space) return space.error();
    hub_needs needs;
    needs.free_bytes = space->free_bytes;
    for (const hub_file& file : wanted) {
        needs.bytes += file.bytes;
        const std::string blob = blob_of(repository, file);
        const std::uint64_t there =
            is_there(blob) ? size_of(blob) : size_of(blob + ".semantic-part");
        needs.missing_bytes += file.bytes - std::min(file.bytes, there);
    }
    return needs;
}

result<void> hub_cache::fetch(const hub_client& from, const std::string& repository,
                              const std::string& commit, const std::vector<hub_file>& wanted,
                              const std::function<void(const hub_progress&)>& on_progress,
                              const std::stop_token& stop) const {
    const std::string locks =
        root_ + "/.locks/" + fs::path(folder_of(repository)).filename().string();
    for (const std::string& folder : {folder_of(repository) + "/blobs", locks})
        if (auto made = files_.make_directory(folder); !made) return made;
    const auto held = files_.lock(locks);
    if (!held)
        return failure{held.error().code, held.error().code == errc::locked
                                              ? repository + ": another process is fetching from it"
                                              : held.error().what};
    const auto needs = needs_of(repository, wanted);
    if (!needs) return needs.error();
    if (needs->missing_bytes > 0 && needs->missing_bytes + spare_bytes > needs->free_bytes)
        return failure{errc::out_of_space, repository + ": " + megabytes(needs->missing_bytes) +
                                               " are to be fetched, " + root_ + " has " +
                                               megabytes(needs->free_bytes) + " free, of which " +
                                               megabytes(spare_bytes) + " are left alone"};

    std::mutex mutex;
    std::condition_variable ended;
    std::size_t next = 0, running = 0;  // guarded by the mutex
    std::optional<failure> why;         // likewise; the first one
    std::atomic<std::uint64_t> done{0};
    const auto work = [&] {
        std::unique_lock lock(mutex);
        while (!why && next < wanted.size()) {
            const hub_file& file = wanted[next++];
            lock.unlock();
            auto got = download(files_, from, repository, commit, file, blob_of(repository, file),
                                done, stop)
                           .run();
            lock.lock();
            if (!got && !why) why = got.error();
        }
        --running;
        ended.notify_all();
    };
    {
        std::vector<std::jthread> workers;
        running = std::min(downloads_at_once, wanted.size());
        for (std::size_t i = 0, count = running; i < count; ++i) workers.emplace_back(work);
        std::unique_lock lock(mutex);
        while (!ended.wait_for(lock, progress_every, [&] { return running == 0; })) {
            lock.unlock();
            if (on_progress) on_progress({done, needs->bytes});
            lock.lock();
        }
    }
    if (why) return *why;
    if (on_progress) on_progress({done, needs->bytes});
    return show(repository, commit, wanted);
}

/// Blocks. Links the files into the commit's snapshot, and then lets refs/main name the commit.
result<void> hub_cache::show(const std::string& repository, const std::string& commit,
                             const std::vector<hub_file>& wanted) const {
    const fs::path snapshot = snapshot_of(repository, commit);
    for (const hub_file& file : wanted) {
        const fs::path shown = snapshot / file.path;
        if (auto made = files_.make_directory(shown.parent_path().string()); !made) return made;
        const fs::path target =
            fs::path(blob_of(repository, file)).lexically_relative(shown.parent_path());
        std::error_code ec;
        if (fs::read_symlink(shown, ec) == target) continue;
        // Made under another name and renamed, so that the name never leads nowhere.
        const std::string coming = shown.string() + ".semantic-part";
        fs::remove(coming, ec);
        fs::create_symlink(target, coming, ec);
        if (ec) return failure{errc::io, shown.string() + ": " + ec.message()};
        if (auto renamed = files_.rename(coming, shown.string()); !renamed) return renamed;
        if (auto synced = files_.sync_directory(shown.parent_path().string()); !synced)
            return synced;
    }
    const std::string refs = folder_of(repository) + "/refs";
    if (auto made = files_.make_directory(refs); !made) return made;
    return replace_file(files_, refs + "/main", commit);
}

}  // namespace semantic::storage
