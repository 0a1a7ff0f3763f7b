// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a schema's '$ref' leads to, within one document. Thread: one at a time.

#include <boost/json.hpp>

#include <memory>
#include <string>
#include <vector>

#include "engine/grammar/schema/schema_merge.hpp"

namespace semantic::engine {

/// Of schemas within schemas, and of '$ref' after '$ref'.
constexpr int schema_depth_max = 64;

/// A schema as an object, whatever it refers to.
struct schema_view {
    const boost::json::object* object = nullptr;
    std::unique_ptr<schema_merge> merged{};  // owns the object where it was put together
    const boost::json::object& operator*() const { return *object; }
    const boost::json::object* operator->() const { return object; }
};

class schema_references {
  public:
    /// All of these must outlive this and what it returns.
    schema_references(const boost::json::value& root, storage::work_budget& budget,
                      schema_complaints& complaints)
        : root_(root), budget_(budget), complaints_(complaints) {}

    /// What '$ref' names: "#", "#/$defs/name" and any other pointer into the same document; or
    /// null.
    const boost::json::value* target_of(const boost::json::object& schema, const std::string& path);
    /// The objects whose keywords count: the target of '$ref', then the keywords next to it.
    std::vector<const boost::json::object*> parts_of(const boost::json::value& schema,
                                                     const std::string& path);
    /// Copies nothing where one object says it all.
    schema_view object_at(const boost::json::value& schema, const std::string& path);

  private:
    const boost::json::value& root_;
    storage::work_budget& budget_;
    schema_complaints& complaints_;
};

}  // namespace semantic::engine
