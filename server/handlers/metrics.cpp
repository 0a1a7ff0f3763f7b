#include "server/handlers/metrics.hpp"

namespace semantic::server {

response get_metrics(const services& with, const request&) {
    return text_response(render_metrics(with.probe, with.engines.get()),
                         "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace semantic::server
