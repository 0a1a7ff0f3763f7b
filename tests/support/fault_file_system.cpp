// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_file_system.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace semantic::tests {

using storage::errc;
using storage::failure;
using storage::result;

namespace {

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

class fault_file_system::faulty_writable final : public storage::writable_file {
  public:
    faulty_writable(fault_file_system& owner, std::string path, std::shared_ptr<node> content,
                    std::unique_ptr<storage::writable_file> file)
        : owner_(owner),
          path_(std::move(path)),
          content_(std::move(content)),
          file_(std::move(file)) {}
    result<void> write(std::span<const std::byte> bytes) override {
        return owner_.write(*file_, path_, content_, bytes);
    }
    result<void> sync() override { return owner_.sync(*file_, path_, content_); }

  private:
    fault_file_system& owner_;
    std::string path_;
    std::shared_ptr<node> content_;
    std::unique_ptr<storage::writable_file> file_;
};

class fault_file_system::faulty_readable final : public storage::readable_file {
  public:
    faulty_readable(fault_file_system& owner, std::string path,
                    std::unique_ptr<storage::readable_file> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}
    result<std::uint64_t> size() override { return file_->size(); }
    result<void> read_at(std::uint64_t offset, std::span<std::byte> target) override {
        if (auto ok = owner_.read(path_, offset); !ok) return ok;
        return file_->read_at(offset, target);
    }

  private:
    fault_file_system& owner_;
    std::string path_;
    std::unique_ptr<storage::readable_file> file_;
};

fault_file_system::fault_file_system(std::string root) : root_(std::move(root)) {
    for (const auto& each : std::filesystem::recursive_directory_iterator(root_)) {
        if (!each.is_regular_file()) continue;
        const std::string text = contents(each.path().string());
        live_[each.path().string()] = std::make_shared<node>(node{text, text});
    }
    lasting_ = live_;
}

void fault_file_system::fail_at(int n, fault kind) {
    std::lock_guard lock(mutex_);
    count_ = 0;
    fail_at_ = n;
    kind_ = kind;
    fired_ = false;
}

void fault_file_system::fail_read_at(int n) {
    std::lock_guard lock(mutex_);
    reads_ = 0;
    fail_read_at_ = n;
}

int fault_file_system::operations() const {
    std::lock_guard lock(mutex_);
    return count_;
}

void fault_file_system::reset() {
    std::lock_guard lock(mutex_);
    count_ = fail_at_ = fail_read_at_ = 0;
    bytes_written_ = 0;
    fired_ = false;
    log_.clear();
    opened_.clear();
}

bool fault_file_system::has_fired() const {
    std::lock_guard lock(mutex_);
    return fired_;
}

void fault_file_system::before_unlink(std::function<void(const std::string&)> hook) {
    before_unlink_ = std::move(hook);
}

void fault_file_system::before_read(std::function<void(const std::string&, std::uint64_t)> hook) {
    before_read_ = std::move(hook);
}

std::vector<std::string> fault_file_system::log() const {
    std::lock_guard lock(mutex_);
    return log_;
}

std::uint64_t fault_file_system::bytes_written() const {
    std::lock_guard lock(mutex_);
    return bytes_written_;
}

void fault_file_system::restart(lost losses, unsigned seed) {
    std::lock_guard lock(mutex_);
    std::mt19937 random(seed);
    const auto keeps = [&] {
        return losses == lost::nothing || (losses == lost::at_random && random() % 2);
    };
    std::set<std::string> paths;
    for (const auto* each : {&live_, &lasting_})
        for (const auto& [path, file] : *each) paths.insert(path);
    entries survived;
    std::map<node*, std::string> left;
    for (const std::string& path : paths) {
        const entries& from = keeps() ? live_ : lasting_;
        std::filesystem::remove(path);
        const auto found = from.find(path);
        if (found == from.end()) continue;
        const auto& file = found->second;
        if (!left.contains(file.get())) {
            left[file.get()] = keeps() ? file->live : file->synced;
            // Bytes may reach the disk in part: a random number of those that were appended after
            // the synced ones.
            std::string& bytes = left[file.get()];
            const std::size_t safe = bytes.starts_with(file->synced) ? file->synced.size() : 0;
            if (losses == lost::at_random && bytes != file->synced && random() % 2)
                bytes.resize(safe + random() % (bytes.size() - safe + 1));
        }
        const std::string& text = left[file.get()];
        std::ofstream(path, std::ios::binary)
            .write(text.data(), static_cast<std::streamsize>(text.size()));
        survived[path] = std::make_shared<node>(node{text, text});
    }
    live_ = survived;
    lasting_ = survived;
    down_ = false;
    fail_at_ = 0;
}

std::optional<fault> fault_file_system::next(const std::string& operation) {
    log_.push_back(operation);
    if (read_only_) return fault::io_error;
    if (++count_ != fail_at_) return std::nullopt;
    fired_ = true;
    if (kind_ == fault::power_cut) down_ = true;
    return kind_;
}

failure fault_file_system::down(const std::string& operation) const {
    if (kind_ == fault::no_space) return {errc::out_of_space, operation + ": no space, on order"};
    return {errc::io, operation + ": failed, on order"};
}

result<void> fault_file_system::change(const std::string& operation) {
    if (down_ || next(operation)) return down(operation);
    return {};
}

/// Called before each read. Errors: where it is to fail.
result<void> fault_file_system::read(const std::string& path, std::uint64_t offset) {
    if (before_read_) before_read_(path, offset);
    std::lock_guard lock(mutex_);
    if (down_) return down("read " + path);
    if (++reads_ == fail_read_at_) return failure{errc::io, path + ": read failed, on order"};
    return {};
}

/// Writes to the file and to the model of its contents; only the first half where the write is to
/// stop.
result<void> fault_file_system::write(storage::writable_file& file, const std::string& path,
                                      const std::shared_ptr<node>& content,
                                      std::span<const std::byte> bytes) {
    std::lock_guard lock(mutex_);
    if (down_) return down("write " + path);
    const auto trouble = next("write " + path);
    if (trouble && *trouble == fault::io_error) return down("write " + path);
    if (is_full_) return failure{errc::out_of_space, path + ": it is full, on order"};
    if (user_quota_ && used_bytes() + bytes.size() > *user_quota_) {
        ++quota_refusals_;
        return failure{errc::out_of_space, path + ": the quota is used up, on order"};
    }
    if (trouble) bytes = bytes.first(bytes.size() / 2);
    if (auto ok = file.write(bytes); !ok) return ok;
    content->live += as_text(bytes);
    if (trouble) return down("write " + path);
    bytes_written_ += bytes.size();
    return {};
}

/// Makes the file's contents survive cuts in the model.
result<void> fault_file_system::sync(storage::writable_file& file, const std::string& path,
                                     const std::shared_ptr<node>& content) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("sync " + path); !ok) return ok;
    (void)file;  // the model is what lasts here; a real fsync would only make the tests slow
    content->synced = content->live;
    return {};
}

result<std::unique_ptr<storage::readable_file>> fault_file_system::open(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (down_) return down("open " + path);
    opened_.push_back(path);
    auto file = real_.open(path);
    if (!file) return file.error();
    return std::unique_ptr<storage::readable_file>(
        new faulty_readable(*this, path, std::move(*file)));
}

result<std::unique_ptr<storage::writable_file>> fault_file_system::create(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("create " + path); !ok) return ok.error();
    if (files_max_ && !live_.contains(path) && live_.size() >= *files_max_)
        return failure{errc::out_of_space, path + ": no inode is left"};
    auto file = real_.create(path);
    if (!file) return file.error();
    auto& entry = live_[path];
    if (entry == nullptr) entry = std::make_shared<node>();
    *entry = node{};  // an existing file is emptied, at once and perhaps for good
    return std::unique_ptr<storage::writable_file>(
        new faulty_writable(*this, path, entry, std::move(*file)));
}

result<std::unique_ptr<storage::writable_file>> fault_file_system::append(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("append " + path); !ok) return ok.error();
    auto file = real_.append(path);
    if (!file) return file.error();
    return std::unique_ptr<storage::writable_file>(
        new faulty_writable(*this, path, live_[path], std::move(*file)));
}

result<void> fault_file_system::rename(const std::string& from, const std::string& to) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("rename " + to); !ok) return ok;
    if (auto ok = real_.rename(from, to); !ok) return ok;
    live_[to] = live_[from];
    live_.erase(from);
    return {};
}

result<void> fault_file_system::link(const std::string& from, const std::string& to) {
    std::lock_guard lock(mutex_);
    if (refuses_links_) return failure{errc::io, to + ": no second names, on order"};
    if (auto ok = change("link " + to); !ok) return ok;
    if (auto ok = real_.link(from, to); !ok) return ok;
    live_[to] = live_[from];
    return {};
}

result<void> fault_file_system::unlink(const std::string& path) {
    if (before_unlink_) before_unlink_(path);
    std::lock_guard lock(mutex_);
    if (auto ok = change("unlink " + path); !ok) return ok;
    if (auto ok = real_.unlink(path); !ok) return ok;
    if (keeps_removed_ && live_[path] != nullptr) removed_bytes_ += live_[path]->live.size();
    live_.erase(path);
    return {};
}

/// Makes the names in the directory survive cuts in the model.
result<void> fault_file_system::sync_directory(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("sync_directory " + path); !ok) return ok;
    const auto inside = [&](const std::string& file) {
        return file.substr(0, file.rfind('/')) == path;
    };
    std::erase_if(lasting_, [&](const auto& each) { return inside(each.first); });
    for (const auto& [file, contents_of] : live_)
        if (inside(file)) lasting_[file] = contents_of;
    return {};
}

result<void> fault_file_system::make_directory(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("make_directory " + path); !ok) return ok;
    // In this model a directory survives at once, without an fsync.
    std::error_code failed;
    std::filesystem::create_directories(path, failed);
    if (failed) return failure{errc::io, path + ": " + failed.message()};
    return {};
}

result<void> fault_file_system::remove_directory(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (auto ok = change("remove_directory " + path); !ok) return ok;
    return real_.remove_directory(path);
}

result<std::vector<storage::directory_entry>> fault_file_system::list(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (down_) return down("list " + path);
    return real_.list(path);
}

result<bool> fault_file_system::exists(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (down_) return down("exists " + path);
    if (forgets_names_) return false;
    return real_.exists(path);
}

result<std::unique_ptr<storage::directory_lock>> fault_file_system::lock(
    const std::string& directory) {
    return real_.lock(directory);
}

void fault_file_system::set_files_max(std::optional<std::size_t> count) {
    std::lock_guard lock(mutex_);
    files_max_ = count;
}

void fault_file_system::set_full(bool full) {
    std::lock_guard lock(mutex_);
    is_full_ = full;
}

void fault_file_system::set_user_quota(std::optional<std::uint64_t> bytes, bool keeps_removed) {
    std::lock_guard lock(mutex_);
    user_quota_ = bytes;
    keeps_removed_ = keeps_removed;
}

void fault_file_system::set_capacity(std::uint64_t bytes, bool keeps_removed,
                                     std::uint64_t bytes_of_others) {
    std::lock_guard lock(mutex_);
    bytes_of_others_ = bytes_of_others;
    capacity_ = bytes;
    keeps_removed_ = keeps_removed;
}

/// Requires: the mutex is held.
std::uint64_t fault_file_system::used_bytes() const {
    std::uint64_t bytes = removed_bytes_;
    for (const auto& [path, file] : live_) bytes += file->live.size();
    return bytes;
}

void fault_file_system::set_read_only(bool read_only) {
    std::lock_guard lock(mutex_);
    read_only_ = read_only;
}

void fault_file_system::refuse_links() {
    std::lock_guard lock(mutex_);
    refuses_links_ = true;
}

void fault_file_system::forget_names() {
    std::lock_guard lock(mutex_);
    forgets_names_ = true;
}

std::vector<std::string> fault_file_system::opened() const {
    std::lock_guard lock(mutex_);
    return opened_;
}

void fault_file_system::set_space(storage::disk_space space) {
    std::lock_guard lock(mutex_);
    space_ = space;
}

result<storage::disk_space> fault_file_system::space(const std::string& path) {
    std::lock_guard lock(mutex_);
    if (down_) return down("space " + path);
    auto found = space_ ? result<storage::disk_space>(*space_) : real_.space(path);
    if (!found) return found;
    if (capacity_) {
        const std::uint64_t used = used_bytes() + bytes_of_others_;
        found->total_bytes = *capacity_;
        found->free_bytes = *capacity_ > used ? *capacity_ - used : 0;
    }
    if (files_max_) {
        found->total_files = std::max<std::size_t>(*files_max_, 1);
        found->free_files = *files_max_ > live_.size() ? *files_max_ - live_.size() : 0;
    }
    found->quota_refusals = quota_refusals_;
    return found;
}

}  // namespace semantic::tests
