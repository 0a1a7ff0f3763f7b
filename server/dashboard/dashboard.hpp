// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /dashboard: a page that shows the server and talks to its agents; and its parts. It holds
// nothing secret: what it shows comes through /ws and the API, which ask for keys.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

response get_dashboard(const services& server, const request& incoming);
response get_dashboard_file(const services& server, const request& incoming);

/// Whether a person asks for it in a browser, and not a program: it prefers HTML.
bool is_browser(const request& incoming);
/// To the dashboard.
response to_dashboard();

}  // namespace semantic::server
