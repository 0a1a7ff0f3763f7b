#pragma once
// Where the embedded model lies, found from the program itself so that no path is built in.

#include <filesystem>
#include <string>

namespace semantic::server {

/// The running program's own file; `argv0` is used where the system does not say.
std::filesystem::path executable_path(const std::string& argv0);

/// Returns: PREFIX/share/semantic/models/semantic-tiny beside an installed PREFIX/bin/PROGRAM, or
/// etc/models/semantic-tiny of the source tree for a program in BUILD/bin/; empty when neither
/// holds a config.json.
std::string find_embedded_model(const std::filesystem::path& executable);

}  // namespace semantic::server
