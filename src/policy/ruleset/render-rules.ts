import type { FilterAction, FilterMatch, TableRule } from '../../dataplane/policy-filter.ts';
import { digestOfRules } from '../../dataplane/rule-digest.ts';
import type { PacketPath } from '../packet-path.ts';
import type { PolicyDirection, PolicyRule } from '../resolved-policy.ts';
import type { RuleOwner } from '../unusable-rules.ts';
import { denyRules, reportingRules, reportOf } from './base-chains.ts';
import type { RuleOrigin } from './policy-ruleset.ts';
import { renderMatches } from './render-matches.ts';
import { idOfOrigin } from './rule-ids.ts';
import { keyOfContent, type SetContent } from '../set-content.ts';
import type { RuleSets } from './rule-sets.ts';

/** A chain named after its rules, and what it refers to. Equal chains are one. */
export interface RenderedChain {
  readonly name: string;
  readonly rules: readonly TableRule[];
  /** Chains that its rules go to. */
  readonly next: readonly RenderedChain[];
  /** Contents of the sets that its rules look up, by key. */
  readonly contents: ReadonlyMap<string, SetContent>;
  readonly origins: ReadonlyMap<string, RuleOrigin>;
  /** Policy or profile that has the rules; undefined for those of several. */
  readonly owner?: RuleOwner;
}

/** Returns a chain whose name is a digest of its rules. */
export function chainOf(
  prefix: string,
  rules: readonly TableRule[],
  rest: Partial<Pick<RenderedChain, 'next' | 'contents' | 'origins' | 'owner'>> = {},
): RenderedChain {
  const { next = [], contents = new Map(), origins = new Map<string, RuleOrigin>(), ...owned } = rest;
  return { name: `${prefix}-${digestOfRules(rules)}`, rules, next, contents, origins, ...owned };
}

/** Returns a chain that accepts every packet. */
export function acceptChain(): RenderedChain {
  return chainOf('accept', [{ id: 'accept', parts: [{ kind: 'accept' }] }]);
}

/** Actions of `Allow` on a path. A packet that is accepted early meets no later rules of its host endpoint. */
export const ALLOW: Readonly<Record<PacketPath, readonly FilterAction[]>> = {
  local: [{ kind: 'accept' }],
  forwarded: [{ kind: 'accept' }],
  preDNAT: [{ kind: 'mark', isSet: true }, { kind: 'accept' }],
  untracked: [{ kind: 'untrack' }, { kind: 'accept' }],
};

/** Returns a chain that reports and drops every packet. */
export function denyChain(origin: RuleOrigin): RenderedChain {
  return chainOf('deny', denyRules(origin), { origins: new Map([[idOfOrigin(origin), origin]]) });
}

/**
 * Returns a chain that reports and counts packets of a staged policy. With `next` it goes there, because nothing else of the
 * tier applies; otherwise it returns, and the policies that are enforced decide.
 */
export function stagedChain(origin: RuleOrigin, next: RenderedChain | undefined): RenderedChain {
  const action: FilterAction = next === undefined ? { kind: 'return' } : { kind: 'goto', chain: next.name };
  return chainOf('staged', reportingRules(origin, action), {
    next: next === undefined ? [] : [next],
    origins: new Map([[idOfOrigin(origin), origin]]),
  });
}

export interface RuleList {
  readonly owner: RuleOwner;
  readonly direction: PolicyDirection;
  readonly rules: readonly PolicyRule[];
  /** Counts what rules match, and decides nothing. */
  readonly isStaged: boolean;
}

export interface RenderContext {
  readonly sets: RuleSets;
  /** The log prefix of `Log` rules, in the kernel log. */
  readonly logPrefix: string;
  /** Actions of `Allow`. */
  readonly allow: readonly FilterAction[];
  /** Where `Pass` leads; of a staged policy, every rule that would decide, when no policy of the tier is enforced. */
  readonly pass: RenderedChain | undefined;
}

/** At most so many lines of one rule in the kernel log. */
const LOG_LIMIT: FilterAction = { kind: 'limit', perSecond: 10, burst: 5 };

/** Renders the rules of a policy or profile in one direction. The chain returns when no rule decides. */
export function renderRuleList(list: RuleList, context: RenderContext): RenderedChain {
  const rules: TableRule[] = [];
  const contents = new Map<string, SetContent>();
  const next = new Set<RenderedChain>();
  const origins = new Map<string, RuleOrigin>();
  for (const rule of list.rules) {
    const { direction, isStaged } = list;
    const origin: RuleOrigin = { ...list.owner, direction, index: rule.index, rule, isStaged };
    const id = idOfOrigin(origin);
    const target = targetOf(rule, { list, context, origin });
    const matched = renderMatches(rule, context.sets);
    for (const content of matched.contents) contents.set(keyOfContent(content), content);
    origins.set(id, origin);
    if (target.chain !== undefined) next.add(target.chain);
    for (const matches of matched.alternatives)
      rules.push({ id, parts: [...matches, ...target.actions] satisfies Parts });
  }
  const { isStaged, owner } = list;
  return chainOf(isStaged ? 'staged' : owner.kind, rules, { next: [...next], contents, origins, owner });
}

type Parts = readonly (FilterMatch | FilterAction)[];

interface Target {
  readonly actions: readonly FilterAction[];
  readonly chain?: RenderedChain;
}

/** A denying chain counts, so that reports have a limit of their own. */
function targetOf(
  { action, http }: PolicyRule,
  { list, context, origin }: { readonly list: RuleList; readonly context: RenderContext; readonly origin: RuleOrigin },
): Target {
  if (list.isStaged) {
    // The next rules of the policy follow one that logs.
    const chain = stagedChain(origin, action === 'Log' ? undefined : context.pass);
    return { actions: [{ kind: action === 'Log' ? 'jump' : 'goto', chain: chain.name }], chain };
  }
  // What began before requests were judged is never judged: such a flow has no note.
  const noted: readonly FilterAction[] = http === undefined ? [] : [{ kind: 'note flow' }];
  if (action === 'Allow') return { actions: [{ kind: 'count' }, ...noted, ...context.allow] };
  if (action === 'Log')
    return {
      actions: [{ kind: 'count' }, LOG_LIMIT, { kind: 'log', prefix: `${context.logPrefix}: ` }, reportOf(origin)],
    };
  const chain = action === 'Deny' ? denyChain(origin) : context.pass;
  // A profile has nothing to pass to.
  if (chain === undefined) return { actions: [{ kind: 'count' }, { kind: 'return' }] };
  const count: readonly FilterAction[] = action === 'Deny' ? [] : [{ kind: 'count' }];
  return { actions: [...count, { kind: 'goto', chain: chain.name }], chain };
}
