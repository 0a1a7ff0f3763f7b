// SPDX-License-Identifier: Apache-2.0
#pragma once
// The folder in which Hugging Face's tools keep what they fetched, in their layout: contents under
// blobs/DIGEST, commits as snapshots/COMMIT/PATH, links to them, and refs/main. What a fetch has
// not whole yet is in blobs/DIGEST.semantic-part and in no snapshot.
// Thread: one fetch a repository at a time, over processes too. Everything blocks.

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "storage/files/file.hpp"
#include "storage/objects/hub/hub_client.hpp"

namespace semantic::storage {

/// How many bytes a fetch would need, before it begins.
struct hub_needs {
    std::uint64_t bytes = 0;          // of all files
    std::uint64_t missing_bytes = 0;  // of those and parts that are not there
    std::uint64_t free_bytes = 0;     // of the file system
};

struct hub_progress {
    std::uint64_t done_bytes = 0;  // of the whole, those that were there included
    std::uint64_t all_bytes = 0;
};

class hub_cache {
  public:
    /// `root`: the folder of all repositories. Made where it is missing.
    hub_cache(file_system& files, std::string root);

    /// Returns: the name of a repository's folder, models--ORG--NAME.
    static std::string folder_name(const std::string& repository);
    /// Returns: the path of that folder.
    std::string folder_of(const std::string& repository) const;
    /// Returns: the path of the folder with the files of a commit.
    std::string snapshot_of(const std::string& repository, const std::string& commit) const;

    /// Blocks. Returns: what a fetch of these files would need. Errors: io.
    result<hub_needs> needs_of(const std::string& repository,
                               const std::vector<hub_file>& wanted) const;

    /// Blocks. Downloads the files that are not there, up to four at a time; then links all of them
    /// into the commit's snapshot in the order of `wanted`, and last lets refs/main name the
    /// commit. So a process that dies before leaves no model that looks complete. Calls
    /// `on_progress` on this thread, some five times a second. Errors: out_of_space before anything
    /// is downloaded; locked, where another process fetches from the repository; corrupt, where a
    /// file does not have its digest, and is removed; those of hub_client.
    result<void> fetch(const hub_client& from, const std::string& repository,
                       const std::string& commit, const std::vector<hub_file>& wanted,
                       const std::function<void(const hub_progress&)>& on_progress,
                       const std::stop_token& stop) const;

  private:
    class download;
    std::string blob_of(const std::string& repository, const hub_file& file) const;
    result<void> show(const std::string& repository, const std::string& commit,
                      const std::vector<hub_file>& wanted) const;

    file_system& files_;
    std::string root_;
};

}  // namespace semantic::storage
