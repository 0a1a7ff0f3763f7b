// SPDX-License-Identifier: Apache-2.0
#include "storage/disk/foreign_manifests.hpp"

#include <utility>

namespace semantic::storage {

foreign_manifest foreign_manifests::take(const std::string& path) {
    const auto found = by_path_.find(path);
    if (found == by_path_.end()) return {};
    foreign_manifest taken = std::move(found->second);
    by_path_.erase(found);
    return taken;
}

std::vector<foreign_manifests::by_path::const_iterator> foreign_manifests::beginning_with(
    std::string_view part) const {
    std::vector<by_path::const_iterator> found;
    for (auto each = by_path_.lower_bound(part);
         each != by_path_.end() && each->first.starts_with(part); ++each)
        found.push_back(each);
    return found;
}

void foreign_manifests::add_label(const block_hash& fingerprint, model_label label) {
    model_label& known = labels_[fingerprint];
    if (!label.weights.empty()) known.weights = std::move(label.weights);
    if (!label.name.empty()) known.name = std::move(label.name);
}

const model_label& foreign_manifests::label_of(const block_hash& fingerprint) const {
    static const model_label unknown;
    const auto found = labels_.find(fingerprint);
    return found == labels_.end() ? unknown : found->second;
}

}  // namespace semantic::storage
