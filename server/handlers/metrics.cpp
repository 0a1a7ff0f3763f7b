#include "server/handlers/metrics.hpp"

namespace semantic::server {

response get_metrics(const services& with, const request&) {
    const engine_lease engine = with.engines.look();
    const model_changes changes{with.switcher.exchanges_done(), with.switcher.exchanges_failed()};
    return text_response(render_metrics(with.probe, changes, engine ? &*engine : nullptr),
                         "text/plain; version=0.0.4; charset=utf-8");
}

}  // namespace semantic::server
