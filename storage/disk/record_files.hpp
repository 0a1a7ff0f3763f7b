#pragma once
// Records of higher layers that belong to a tenant, such as sessions of several agents: a small
// file each, whole or absent. What is in them is none of storage's business.
// Owner: agent_cache_store. Thread: safe from any; calls for one record are serialised by the
// caller. Everything blocks. Errors: io, out_of_space.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "storage/disk/disk_quota.hpp"
#include "storage/files/file.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/kept_record.hpp"

namespace semantic::storage {

inline constexpr std::uint64_t record_bytes_max = std::uint64_t{256} << 20;

/// A file's bytes, and back. Errors: corrupt, also for another version.
std::string encode_record(const kept_record& record);
result<kept_record> decode_record(std::string_view bytes);
/// Below the cache directory.
std::string record_path(const tenant_id& tenant, std::string_view name);

/// Which records there are, for all who write them in one directory.
struct record_books {
    std::mutex mutex;
    std::map<std::string, std::uint64_t> bytes;  // by path; guarded by the mutex
};

class record_files {
  public:
    /// Makes room for so many bytes on the disk.
    using room_maker = std::function<result<disk_quota::promise>(std::uint64_t)>;

    record_files(file_system& files, std::string directory, disk_quota& quota, room_maker room,
                 std::shared_ptr<record_books> books = std::make_shared<record_books>())
        : files_(files),
          directory_(std::move(directory)),
          quota_(quota),
          room_(std::move(room)),
          books_(std::move(books)) {}

    /// Removes temporaries and notes what there is, before anything else is called; once for all
    /// with the same books. Requires: the quota has counted the directory.
    result<void> open();
    /// Puts `bytes` in the place of what the record had. When it returns, they last. Errors:
    /// bad_value beyond record_bytes_max.
    result<void> write(const kept_record& record);
    /// A record that there is not is no error.
    result<void> remove(const tenant_id& tenant, std::string_view name);
    /// In the order of the files' names.
    kept_records read_all();

  private:
    result<void> replace(const std::string& path, std::string_view bytes);

    file_system& files_;
    const std::string directory_;
    disk_quota& quota_;
    const room_maker room_;
    const std::shared_ptr<record_books> books_;
};

}  // namespace semantic::storage
