// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every agent of a cache directory knows, token for token, without any of its computed state.
//
// An answer depends on the token ids of its prompt. Those an agent has stored count, sampled ones
// too, and they need not be the ids that tokenising its text again gives. So a test that
// compares an answer with that of an engine which has to compute everything gives it the ids: the
// manifests, and none of the block files.

#include <filesystem>
#include <string>
#include <system_error>

namespace semantic::tests {

/// Copies the files that record which tokens the agents of `from` have, and no KV, into the empty
/// directory `to`. An engine may be running on `from`; an agent that it is saving is copied in one
/// of its versions.
inline void copy_memory_without_kv(const std::string& from, const std::string& to) {
    namespace fs = std::filesystem;
    const fs::path agents = fs::path(to) / "agents";
    fs::create_directories(agents);
    fs::copy_file(fs::path(from) / "secret", fs::path(to) / "secret");  // names the tenants' files
    for (const auto& entry : fs::directory_iterator(fs::path(from) / "agents")) {
        std::error_code gone;  // it may just be replaced
        if (entry.path().extension() == ".manifest")
            fs::copy_file(entry.path(), agents / entry.path().filename(), gone);
    }
}

}  // namespace semantic::tests
