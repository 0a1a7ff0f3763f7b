// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model as Codex reads it in its catalog, which it fetches from GET /v1/models?client_version=…:
// how long its context is, that it reads no pictures, and how its tools are shown. Pure. Source:
// the catalog's type in the client (protocol/README.md).

#include <boost/json/object.hpp>

#include "protocol/models.hpp"

namespace semantic::protocol::responses {

/// Returns: the entry of a model. Clients offer the model with the lowest `priority` first. Codex
/// stops reading the whole list where it misses a field, so the fields of all its versions are
/// there.
boost::json::object catalog_entry(const model_card& model, int priority);

}  // namespace semantic::protocol::responses
