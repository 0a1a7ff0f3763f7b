// SPDX-License-Identifier: Apache-2.0
// five_calls.mjs URL TOOL: a WishingProxy in front of the server at URL, for clients that are no
// Node programs. Has each conversation with the tool call it five times; says its address on
// stdout, and ends with its input.

import { WishingProxy } from './wishing_proxy.mjs';

const [url, tool] = process.argv.slice(2);
const proxy = new WishingProxy();
Object.assign(proxy, { tool, calls: 5 });
console.log(await proxy.listen(url));
process.stdin.resume().on('end', () => process.exit(0));
