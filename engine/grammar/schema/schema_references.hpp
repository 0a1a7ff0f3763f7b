// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resolves '$ref' within one schema document. Thread: one at a time.

#include <boost/json.hpp>

#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/schema/schema_merge.hpp"

namespace semantic::engine {

/// The deepest nesting of schemas, and the longest chain of '$ref'.
constexpr int schema_depth_max = 64;

/// A schema with its references resolved.
struct schema_view {
    const boost::json::object* object = nullptr;
    std::unique_ptr<schema_merge> merged{};  // owns the object if it was merged; else null
    const boost::json::object& operator*() const { return *object; }
    const boost::json::object* operator->() const { return object; }
};

class schema_references {
  public:
    /// All arguments must outlive this and the schemas that it returns.
    schema_references(const boost::json::value& root, storage::work_budget& budget,
                      schema_complaints& complaints)
        : root_(root), budget_(budget), complaints_(complaints) {}

    /// The target of the schema's '$ref': "#", "#/$defs/name" or another pointer into the same
    /// document. Null, with a complaint, if there is no such place.
    const boost::json::value* target_of(const boost::json::object& schema, const std::string& path);
    /// The objects whose keywords count: the target of '$ref', then the keywords next to it.
    std::vector<const boost::json::object*> parts_of(const boost::json::value& schema,
                                                     const std::string& path);
    /// The schema as one object. Copies nothing unless several objects have to be merged.
    schema_view object_at(const boost::json::value& schema, const std::string& path);

  private:
    const boost::json::value& root_;
    storage::work_budget& budget_;
    schema_complaints& complaints_;
};

}  // namespace semantic::engine
