// SPDX-License-Identifier: Apache-2.0
#pragma once
// Manifests on disk that the loaded model has no use for: what other models remember, and
// leftovers. Of each only what the quota and lists need is kept, never its tokens and text. Pure.
// Owner: agent_index. Thread: not safe; the index's lock guards it.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/types/ids.hpp"
#include "storage/types/memory_policy.hpp"

namespace semantic::storage {

struct foreign_manifest {
    std::vector<block_hash> names;  // of the blocks that it retains
    std::uint64_t bytes = 0;        // of the file
    /// The agent whose memory under another model this is; none for a leftover, which no model can
    /// use and which is removed first.
    std::optional<agent_id> agent{};
    block_hash fingerprint{};  // of that model
    std::size_t tokens = 0;
    std::chrono::system_clock::time_point created{};
    std::chrono::system_clock::time_point last_used{};
    std::string sessions{};  // under whose names its text was said, as its note says
    memory_policy policy{};  // as its note says
    memory_claim claim = memory_claim::none;  // as agent_record has it
    /// Whether `names` is all that the manifest needs; false where its format is an unknown one.
    bool is_understood = true;
    /// False where the disk did not give it, which may pass. Such a manifest is no leftover: it
    /// stays until a save replaces it or a client erases it.
    bool is_readable = true;
};

/// What is known of a model by what it has remembered.
struct model_label {
    std::string weights;  // which, in whatever form; empty: not known
    std::string name;     // what clients called it when it last saved; empty: not known
};

class foreign_manifests {
  public:
    using by_path = std::map<std::string, foreign_manifest, std::less<>>;

    void add(const std::string& path, foreign_manifest manifest) {
        by_path_[path] = std::move(manifest);
    }
    bool contains(const std::string& path) const { return by_path_.contains(path); }
    /// Removes a manifest. Returns: what was known of it; an empty value where there was none.
    foreign_manifest take(const std::string& path);
    const by_path& all() const noexcept { return by_path_; }
    /// Calls `visit` with each manifest that has a policy (keep or pin).
    template <class Visit>
    void visit_kept(const Visit& visit) {
        for (auto& [path, each] : by_path_)
            if (!each.policy.is_empty()) visit(each);
    }
    /// Returns: the manifests whose paths begin with `part`. Valid until something is added or
    /// taken.
    std::vector<by_path::const_iterator> beginning_with(std::string_view part) const;

    /// Adds what is known of a model; empty fields leave what was known before.
    void add_label(const block_hash& fingerprint, model_label label);
    /// Returns: an empty one for a model that is not known.
    const model_label& label_of(const block_hash& fingerprint) const;

  private:
    by_path by_path_;
    std::map<block_hash, model_label> labels_;  // by fingerprint; a few
};

}  // namespace semantic::storage
