// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records of higher layers that belong to a tenant, such as sessions of several agents: a small
// file each, whole or absent. Storage does not read their contents. All records together take at
// most the records' share of the disk budget, and one tenant's at most half of what the others
// leave of it, so that no tenant takes all of it and a later tenant finds some. Owner:
// agent_cache_store. Thread: safe from any; calls for one record are serialised by the caller.
// Everything blocks. Errors: io, out_of_space.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "storage/disk/disk_quota.hpp"
#include "storage/files/file.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/kept_record.hpp"

namespace semantic::storage {

inline constexpr std::uint64_t record_bytes_max = std::uint64_t{256} << 20;

/// Returns: the bytes of a record's file.
std::string encode_record(const kept_record& record);
/// Errors: corrupt, also for another version.
result<kept_record> decode_record(std::string_view bytes);
/// Returns: the path of a record's file, relative to the cache directory.
std::string record_path(const tenant_id& tenant, std::string_view name);

/// Which records exist and what they take, shared by all who write records in one directory. The
/// mutex guards all of it.
struct record_books {
    struct entry {
        tenant_id tenant;
        std::uint64_t bytes = 0;
        bool is_legible = true;  // else it is damaged, and nobody's
    };
    std::mutex mutex;
    std::map<std::string, entry> entries;             // by path
    std::map<tenant_id, std::uint64_t> tenant_bytes;  // those that are being written included
    std::uint64_t all_bytes = 0;                      // likewise
};

class record_files {
  public:
    /// Reserves disk bytes for a record of the tenant, and removes memories for it where it must.
    using room_maker = std::function<result<disk_quota::promise>(const tenant_id&, std::uint64_t)>;

    record_files(file_system& files, std::string directory, disk_quota& quota, room_maker room,
                 std::shared_ptr<record_books> books = std::make_shared<record_books>())
        : files_(files),
          directory_(std::move(directory)),
          quota_(quota),
          room_(std::move(room)),
          books_(std::move(books)) {}

    /// Deletes temporary files and lists the records with their tenants. Called before anything
    /// else, once for all that share the books. Requires: the quota has counted the directory.
    result<void> open();
    /// Replaces the record's file, or creates it; it is synced when this returns. Errors: bad_value
    /// beyond record_bytes_max; out_of_space, also beyond the tenant's share.
    result<void> write(const kept_record& record);
    /// Deletes a record; success also where there is none.
    result<void> remove(const tenant_id& tenant, std::string_view name);
    /// Returns: the names of the records that begin with one of `heads`, of all records where it is
    /// empty, in the order of their files. Reads only the beginning of each file; read() finds what
    /// is wrong with the rest. Where the records exceed the shares, because the budget was larger
    /// before, it names as many as the shares allow and reports the others as too much; they stay
    /// on disk.
    record_names names(std::span<const std::string_view> heads = {});
    /// Returns: the records that names() names, with their bytes.
    kept_records read_all(std::span<const std::string_view> heads = {});
    /// Errors: not_found, corrupt.
    result<kept_record> read(const tenant_id& tenant, std::string_view name);

  private:
    result<kept_record> read_file(const std::string& path);
    result<record_name> read_name(const std::string& path);
    result<void> replace(const std::string& path, std::string_view bytes);
    result<std::uint64_t> book(const tenant_id& tenant, const std::string& path,
                               std::uint64_t bytes);
    bool is_in_place(const std::string& path, std::string_view bytes) const;
    void take_off(const tenant_id& tenant, std::uint64_t bytes);

    file_system& files_;
    const std::string directory_;
    disk_quota& quota_;
    const room_maker room_;
    const std::shared_ptr<record_books> books_;
};

}  // namespace semantic::storage
