// SPDX-License-Identifier: Apache-2.0
#include "engine/packed_weights.hpp"

#include <utility>

#include "storage/disk/disk_quota.hpp"
#include "storage/disk/packed_bytes.hpp"
#include "storage/files/file.hpp"

namespace semantic::engine {

namespace {

/// Bytes that all packed weights may take on disk; 0 (nothing is kept) if the size of the disk is
/// not known.
std::uint64_t budget_of(const engine_options& options, const weight_storage& disk) {
    if (disk.budget_bytes > 0) return disk.budget_bytes;
    std::uint64_t disk_budget = options.disk_budget_bytes;
    if (disk_budget == 0) {
        const auto space = storage::posix_file_system().space(options.cache_directory);
        if (!space) return 0;
        disk_budget = storage::default_disk_budget(space->total_bytes);
    }
    return storage::default_packed_budget(disk_budget);
}

}  // namespace

packed_weights::packed_weights(const engine_options& options, const weight_storage& disk,
                               weight_form form, std::shared_ptr<storage::directory_share> share)
    : loading_(form) {
    if (!disk.keeps_packed || options.cache_directory.empty()) return;
    packed_folder_options folder;
    folder.directory = options.cache_directory + "/" + storage::packed_folder_name;
    folder.budget_bytes = budget_of(options, disk);
    folder.verify_all = disk.verifies_all;
    if (share != nullptr)
        folder.on_change = [share = std::move(share)](std::int64_t change) {
            storage::change_packed_bytes(*share, change);
        };
    folder_.emplace(storage::posix_file_system(), std::move(folder));
    loading_ = {form, *folder_,
                find_weights_access(disk.access).value_or(weights_access::automatic),
                disk.copy_bytes_max};
}

void report_origin(const engine_options& options, const weight_storage& disk,
                   const weights_origin& origin) {
    if (!origin.trouble.empty() && options.on_warning) options.on_warning(origin.trouble);
    if (disk.on_loaded) disk.on_loaded(origin);
}

storage::result<std::unique_ptr<engine>> load_engine(
    engine_options options, const std::function<void(load_progress)>& progress) {
    return load_engine(std::move(options), {}, progress);
}

}  // namespace semantic::engine
