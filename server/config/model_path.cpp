#include "server/config/model_path.hpp"

#include <system_error>

namespace semantic::server {

std::filesystem::path executable_path(const std::string& argv0) {
    std::error_code ec;
    std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ec);
    if (!ec) return self;
    self = std::filesystem::canonical(argv0, ec);
    return ec ? std::filesystem::path(argv0) : self;
}

std::string find_embedded_model(const std::filesystem::path& executable) {
    const std::filesystem::path bin = executable.parent_path();
    for (const char* candidate :
         {"../share/semantic/models/semantic-tiny", "../../etc/models/semantic-tiny"}) {
        std::error_code ec;
        const std::filesystem::path folder = (bin / candidate).lexically_normal();
        if (std::filesystem::exists(folder / "config.json", ec)) return folder.string();
    }
    return {};
}

}  // namespace semantic::server
