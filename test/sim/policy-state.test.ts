import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { evaluateSelector } from '../../src/model/selector.ts';
import { parseAddress } from '../../src/net/address.ts';
import { type Cidr, cidrContains, compareCidrs, formatCidr } from '../../src/net/cidr.ts';
import type { PolicyChange } from '../../src/policy/policy-change.ts';
import { PolicyState } from '../../src/policy/policy-state.ts';
import type { PolicyView, TouchedPolicy } from '../../src/policy/policy-view.ts';
import type { PeerSelector, PolicyEndpoint } from '../../src/policy/resolved-policy.ts';
import { policyChange, recordOf } from '../support/policy-records.ts';

const PROFILES = ['kns.x', 'kns.y', 'ksa.x.robot', 'team-a', 'netplug-default-allow'];
const DIRECTIONS = ['ingress', 'egress'] as const;
const ADDRESSES = ['10.0.0.1', '10.0.0.2', '10.0.0.3', 'fd00::1', '192.0.2.1'].map(parseAddress);

const batches = fc.array(fc.array(policyChange, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 8 });

/** Everything that a view says, as text where it holds addresses. */
function shown(view: PolicyView): unknown {
  const selectors = selectorsOf(view);
  return {
    endpoints: sorted([...view.endpoints.values()].map((each) => text({ ...each, policies: appliedTo(view, each) }))),
    policies: view.tiers.map(({ policies }) => policies.map(text)),
    profiles: PROFILES.map((name) => text(view.profile(name))),
    members: sorted(selectors.map((each) => `${each.id}: ${view.membersOf(each).map(formatCidr).join()}`)),
    ports: [undefined, ...selectors].map((each) => text(view.namedPortsOf('web', 6, each))).toSorted(),
    services: ['web', 'db'].map((name) =>
      text([view.services.addressesOf('x', name), view.services.portsOf('x', name)]),
    ),
    owners: ADDRESSES.map((address) => sorted(view.endpointsAt(address).map(({ key }) => key))),
  };
}

function appliedTo(view: PolicyView, endpoint: PolicyEndpoint): string[] {
  return DIRECTIONS.flatMap((direction) =>
    view.tiers.flatMap((tier) => view.policiesOf(endpoint, tier, direction).map(({ id }) => `${direction} ${id}`)),
  );
}

function selectorsOf(view: PolicyView): PeerSelector[] {
  const rules = [
    ...view.tiers.flatMap(({ policies }) => policies.map((policy) => policy.rules)),
    ...PROFILES.flatMap((name) => view.profile(name)?.rules ?? []),
  ].flatMap(({ ingress = [], egress = [] }) => [...ingress, ...egress]);
  const all = rules
    .flatMap(({ source, destination }) => [source, destination])
    .flatMap(({ selector, notSelector }) => [selector, notSelector].flatMap((each) => each ?? []));
  return [...new Map(all.map((each) => [each.id, each])).values()];
}

function text(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? String(each) : each)) ?? 'none';
}

function sorted(texts: string[]): string[] {
  return texts.toSorted();
}

/** The last change of each record, which is all that a state that begins now learns. */
function latest(changes: readonly PolicyChange[]): PolicyChange[] {
  const last = new Map<string, PolicyChange>();
  for (const change of changes) last.set(recordOf(change), change);
  return [...last.values()];
}

describe('a policy state', () => {
  it('equals one that learns all records at once, after any changes', () => {
    fc.assert(
      fc.property(batches, fc.boolean(), (all, isReversed) => {
        const state = new PolicyState();
        for (const changes of all) state.apply(changes);
        const fresh = new PolicyState();
        const once = latest(all.flat());
        fresh.apply(isReversed ? once.toReversed() : once);
        expect(shown(state)).toEqual(shown(fresh));
        expect(new Map([...state.problems].toSorted())).toEqual(new Map([...fresh.problems].toSorted()));
      }),
      { numRuns: 600 },
    );
  });

  it('reports everything that a change touches, and nothing when it is repeated', () => {
    fc.assert(
      fc.property(batches, (all) => {
        const state = new PolicyState();
        const known = new Known(state);
        for (const changes of all) {
          expect(known.unreported(state.apply(changes))).toEqual([]);
          const again = state.apply(latest(changes));
          expect([again.endpoints.size, again.policies.size, again.profiles.size, again.selectors.size]).toEqual([
            0, 0, 0, 0,
          ]);
        }
      }),
      { numRuns: 400 },
    );
  });

  it('selects the addresses of exactly what the labels match, as disjoint nets', () => {
    fc.assert(
      fc.property(batches, (all) => {
        const state = new PolicyState();
        for (const changes of all) state.apply(changes);
        for (const selector of selectorsOf(state)) {
          const members = state.membersOf(selector);
          expect(members).toEqual(members.toSorted(compareCidrs));
          expect(areDisjoint(members)).toBe(true);
          for (const address of ADDRESSES) {
            const owners = state.endpointsAt(address);
            const isSelectedPod = owners.some(({ labels }) => evaluateSelector(selector.selector, labels));
            const isMember = members.some((net) => cidrContains(net, address));
            expect(state.isMember(selector, address)).toBe(isMember);
            expect(isMember || !isSelectedPod).toBe(true);
          }
        }
      }),
      { numRuns: 400 },
    );
  });

  it('gives an address that several pods have to one of them', () => {
    fc.assert(
      fc.property(batches, (all) => {
        const state = new PolicyState();
        for (const changes of all) state.apply(changes);
        for (const address of ADDRESSES) {
          const pods = state.endpointsAt(address).filter(({ kind }) => kind === 'workload');
          expect(pods.length).toBeLessThanOrEqual(1);
        }
      }),
      { numRuns: 400 },
    );
  });
});

function areDisjoint(nets: readonly Cidr[]): boolean {
  return nets.every((a, index) => nets.every((b, other) => index === other || !cidrContains(a, b)));
}

/** What one who follows only the reports knows of a state. */
class Known {
  readonly #state: PolicyState;
  #endpoints: Map<string, string>;
  #policies: Map<string, string>;
  #profiles: Map<string, string>;
  #members: Map<string, Set<string>>;

  constructor(state: PolicyState) {
    this.#state = state;
    this.#endpoints = this.#endpointsNow();
    this.#policies = this.#policiesNow();
    this.#profiles = this.#profilesNow();
    this.#members = new Map();
  }

  /** Returns what changed and is not reported. */
  unreported(touched: TouchedPolicy): string[] {
    const [endpoints, policies, profiles] = [this.#endpointsNow(), this.#policiesNow(), this.#profilesNow()];
    const missing = [
      ...differing(this.#endpoints, endpoints).filter((key) => !touched.endpoints.has(key)),
      ...differing(this.#policies, policies).filter((id) => !touched.policies.has(id)),
      ...differing(this.#profiles, profiles).filter((name) => !touched.profiles.has(name)),
    ];
    [this.#endpoints, this.#policies, this.#profiles] = [endpoints, policies, profiles];
    const members = new Map<string, Set<string>>();
    for (const selector of selectorsOf(this.#state)) {
      const known = new Set(this.#members.get(selector.id));
      const { removed, added } = touched.selectors.get(selector.id) ?? {};
      missing.push(...Array.from(removed?.values() ?? [], formatCidr).filter((net) => !known.delete(net)));
      for (const net of added?.values() ?? []) known.add(formatCidr(net));
      const now = new Set(this.#state.membersOf(selector).map(formatCidr));
      missing.push(...known.symmetricDifference(now));
      members.set(selector.id, known);
    }
    this.#members = members;
    return missing;
  }

  #endpointsNow(): Map<string, string> {
    const all = [...this.#state.endpoints].map(([key, each]): [string, string] => {
      return [key, text({ ...each, policies: appliedTo(this.#state, each) })];
    });
    return new Map(all);
  }

  #policiesNow(): Map<string, string> {
    return new Map(this.#state.tiers.flatMap(({ policies }) => policies.map((each) => [each.id, text(each)] as const)));
  }

  #profilesNow(): Map<string, string> {
    return new Map(PROFILES.map((name) => [name, text(this.#state.profile(name))]));
  }
}

function differing(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] {
  return [...new Set([...before.keys(), ...after.keys()])].filter((key) => before.get(key) !== after.get(key));
}
