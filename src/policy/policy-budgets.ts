import { OneToMany } from '../base/one-to-many.ts';

/** Bounds for policies, in entries: what their rules take, with ports, networks and the comparisons of long selectors. */
export interface BudgetLimits {
  readonly ofPolicy: number;
  /** Of all policies of a namespace, wherever they apply. */
  readonly ofNamespace: number;
}

/** A policy and what it takes. */
export interface BudgetClaim {
  /** Undefined for a global policy. */
  readonly namespace: string | undefined;
  /** Those of its rules. */
  readonly entries: number;
  /** RFC 3339. The oldest policies of a namespace have their entries. */
  readonly createdAt: string;
}

interface OwnClaim extends BudgetClaim {
  readonly id: string;
}

/** What a policy takes besides its rules: a chain, and a place in one list of policies. */
export const ENTRIES_OF_ONE = 64;
const DEFAULT_LIMITS: BudgetLimits = { ofPolicy: 131_072, ofNamespace: 524_288 };

/** Decides which policies are within the budgets of policy and namespace. The same records give the same result on every node. */
export class PolicyBudgets {
  #limits = DEFAULT_LIMITS;
  readonly #claims = new Map<string, OwnClaim>();
  /** By namespace; a global policy, whose id no namespace can have, is alone. */
  readonly #groups = new OneToMany<string, OwnClaim>();
  /** Groups that have changed since the last decision. */
  readonly #undecided = new Set<string>();
  readonly #refusals = new Map<string, string>();

  get limits(): BudgetLimits {
    return this.#limits;
  }

  /** Returns why the policy is not within its budgets; undefined when it is. */
  refusal(id: string): string | undefined {
    return this.#refusals.get(id);
  }

  claimOf(id: string): BudgetClaim | undefined {
    return this.#claims.get(id);
  }

  setLimits(limits: BudgetLimits): void {
    this.#limits = limits;
    for (const [id, { namespace }] of this.#claims) this.#undecided.add(namespace ?? id);
  }

  /** Adds, replaces or removes a policy. What follows from that for others is decided later, once for many changes. */
  replace(id: string, claim: BudgetClaim | undefined): void {
    const before = this.#claims.get(id);
    const group = claim?.namespace ?? before?.namespace ?? id;
    if (before !== undefined) this.#groups.delete(group, before);
    if (claim === undefined) {
      this.#claims.delete(id);
      this.#refusals.delete(id);
    } else {
      const own = { id, namespace: claim.namespace, entries: claim.entries, createdAt: claim.createdAt };
      this.#claims.set(id, own);
      this.#groups.add(group, own);
    }
    this.#undecided.add(group);
  }

  /** Decides about the changes since the last call. Returns the ids of policies that came within their budgets, or left them. */
  decide(): readonly string[] {
    const changed = [...this.#undecided].flatMap((group) => this.#decide(this.#groups.get(group)));
    this.#undecided.clear();
    return changed;
  }

  /** Decides about the policies of one namespace, or about a global one. Returns those whose refusal changed. */
  #decide(claims: readonly OwnClaim[]): readonly string[] {
    const { ofPolicy, ofNamespace } = this.#limits;
    let entries = 0;
    const changed: string[] = [];
    for (const claim of claims.toSorted(compareAge)) {
      const isTooLarge = claim.entries > ofPolicy;
      const isBeyond = claim.namespace !== undefined && entries + claim.entries + ENTRIES_OF_ONE > ofNamespace;
      if (!isTooLarge && !isBeyond) entries += claim.entries + ENTRIES_OF_ONE;
      const refusal = isTooLarge
        ? `it has ${String(claim.entries)} entries, and policyEntriesPerPolicy is ${String(ofPolicy)}`
        : isBeyond
          ? `the policies of its namespace have more entries with it than policyEntriesPerNamespace, ${String(ofNamespace)}`
          : undefined;
      if (refusal === this.#refusals.get(claim.id)) continue;
      changed.push(claim.id);
      if (refusal === undefined) this.#refusals.delete(claim.id);
      else this.#refusals.set(claim.id, refusal);
    }
    return changed;
  }
}

/** Compares the ages of policies: the oldest first, of the same age by id. */
export function compareAge(a: Aged, b: Aged): number {
  if (a.createdAt !== b.createdAt) return a.createdAt < b.createdAt ? -1 : 1;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}

type Aged = Pick<OwnClaim, 'id' | 'createdAt'>;
