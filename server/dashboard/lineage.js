// SPDX-License-Identifier: Apache-2.0
// Which agent continues which: forks that happened while this page was open, kept in this tab, and
// sub-agents of coding agents, whose names contain their session's.

const STORED = 'forks';
const FORKS_MAX = 500; // kept
const FAMILY_MAX = 100; // agents shown of one family
const DEPTH_MAX = 12; // deeper ones are shown at this depth

/** All forks that are known: [agent, the agent that it was forked from, their tenant]. */
function forks() {
  try {
    return JSON.parse(sessionStorage.getItem(STORED)) ?? [];
  } catch {
    return [];
  }
}

/** Notes that `made` was forked from `source`, both of `tenant`. Older forks of `made` were another
 *  agent's of that name, so they are forgotten. */
export function note_fork(made, source, tenant = '') {
  const others = forks().filter(
    ([child, parent, owner]) => owner !== tenant || (child !== made && parent !== made),
  );
  const all = [...others, [made, source, tenant]];
  sessionStorage.setItem(STORED, JSON.stringify(all.slice(-FORKS_MAX)));
}

/** cc_SESSION:AGENT is a sub-agent of cc_SESSION. */
const session_of = (name) => /^(cc_[^:]+):/.exec(name)?.[1];

/** The family of an agent, depth first: [{ name, depth, relation }], the first one of them all at
 *  its head; of an agent without relatives nothing. `names`: of all agents of its tenant. */
export function family_of(name, names, tenant = '') {
  const made = new Map(forks().filter(([, , owner]) => owner === tenant));
  const parent_of = (child) => made.get(child) ?? session_of(child);
  const children = new Map();
  for (const child of new Set([...names, ...made.keys()])) {
    const parent = parent_of(child);
    if (parent) children.set(parent, [...(children.get(parent) ?? []), child]);
  }
  let head = name;
  const climbed = new Set([name]);
  for (let next = parent_of(head); next && !climbed.has(next); next = parent_of(head)) {
    climbed.add(next);
    head = next;
  }
  const family = [];
  const seen = new Set();
  const open = [{ name: head, depth: 0, relation: '' }];
  while (open.length && family.length < FAMILY_MAX) {
    const next = open.pop();
    if (seen.has(next.name)) continue;
    seen.add(next.name);
    family.push(next);
    const depth = Math.min(next.depth + 1, DEPTH_MAX);
    for (const child of (children.get(next.name) ?? []).toSorted().reverse())
      open.push({ name: child, depth, relation: made.has(child) ? 'fork' : 'sub-agent' });
  }
  return family.length > 1 ? family : [];
}

/** Lists in lists, of [depth, element] depth first: `make_list(children)` and `make_item(element)`
 *  make the elements. */
export function nested(items, make_list, make_item) {
  const lists = [make_list()];
  for (const [depth, element] of items) {
    while (lists.length > depth + 1) lists.pop();
    if (lists.length <= depth) {
      const inner = make_list();
      lists.at(-1).lastChild.append(inner);
      lists.push(inner);
    }
    lists.at(-1).append(make_item(element));
  }
  return lists[0];
}
