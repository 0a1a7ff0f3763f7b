// SPDX-License-Identifier: Apache-2.0
#pragma once
// GET /dashboard: a page that shows the server and talks to its agents; and its parts. It holds
// nothing secret: what it shows comes through /ws and the API, which ask for keys.

#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"

namespace semantic::server {

/// Replies with the page itself.
response get_dashboard(const services& server, const request& incoming);
/// Replies with one of the page's files, named by the path.
response get_dashboard_file(const services& server, const request& incoming);

/// Whether the request comes from a browser and not from a program: it accepts HTML.
bool is_browser(const request& incoming);
/// A redirect to the dashboard.
response to_dashboard();

}  // namespace semantic::server
