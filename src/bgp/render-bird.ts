import { invariant } from '../base/errors.ts';
import type { Problem } from '../base/problem.ts';
import { type Address, type Family, FAMILIES, formatAddress } from '../net/address.ts';
import { type Cidr, compareCidrs, formatCidr } from '../net/cidr.ts';
import type { BgpLogSeverity } from './bgp-settings.ts';
import { KERNEL_METRIC } from './kernel-metric.ts';
import type { Announcement } from './plan-announcements.ts';
import { quoteText } from './quote-text.ts';
import { renderFilters } from './render-filters.ts';
import { renderSession } from './render-session.ts';
import type { Community, ReadySession } from './session.ts';

export interface BirdInput {
  /** From `routerIdOf`. */
  readonly routerId: Address;
  readonly sessions: readonly ReadySession[];
  readonly announcements: readonly Announcement[];
  /** Routes inside these are accepted from other nodes and passed on. */
  readonly pools: readonly Cidr[];
  /** Ranges over which no route of another node may lead. */
  readonly refused: readonly Cidr[];
  readonly log: { readonly severity: BgpLogSeverity; readonly file: string };
  /** Prefix of the names of pods' links, whose addresses do not help to reach a peer. */
  readonly podLinkPrefix: string;
}

export interface BirdConfig {
  readonly text: string;
  /** Reasons why sessions are left out. */
  readonly problems: readonly Problem[];
}

/** BIRD rotates its log at this size and keeps one old file. */
const LOG_LIMIT_BYTES = 1_048_576;
/** Time that a restarted BIRD keeps the routes of the previous one while it waits for its peers. */
const RECOVERY_S = 60;

const LOGGED: Readonly<Record<BgpLogSeverity, string>> = {
  Debug: 'all',
  Info: '{ info, remote, warning, error, auth, fatal, bug }',
  Warning: '{ warning, error, auth, fatal, bug }',
  Error: '{ error, fatal, bug }',
};

/**
 * Renders the configuration of one BIRD for both families; the same input gives the same text. Static routes are the
 * announcements of the node and stay inside BIRD, because the agent writes the routes of the kernel.
 */
export function renderBird(input: BirdInput): BirdConfig {
  const { routerId, sessions, announcements, pools, refused, log, podLinkPrefix } = input;
  const rendered = sessions.map(renderSession);
  const text = [
    `log ${quoted(log.file)} ${String(LOG_LIMIT_BYTES)} ${quoted(`${log.file}.1`)} ${LOGGED[log.severity]};`,
    `debug protocols ${log.severity === 'Debug' ? 'all' : 'off'};`,
    'timeformat protocol "%FT%T.%3f%z";',
    `router id ${formatAddress(routerId)};`,
    `graceful restart wait ${String(RECOVERY_S)};`,
    '',
    'protocol device { scan time 10; }',
    `protocol direct { ipv4; ipv6; interface -${quoted(`${podLinkPrefix}*`)}, "*"; }`,
    // Without sessions that use it, it would still take the ports of BFD.
    ...(sessions.some(({ bfd }) => bfd !== undefined) ? ['protocol bfd {}'] : []),
    '',
    ...FAMILIES.flatMap((family) => [
      ...renderFilters(
        family,
        pools.filter(isOf(family)).sort(compareCidrs),
        refused.filter(isOf(family)).sort(compareCidrs),
      ),
      renderStatic(family, announcements),
      renderKernel(family),
      '',
    ]),
    ...rendered.flatMap((session) => ('text' in session ? [session.text] : [])),
  ].join('\n');
  return { text, problems: rendered.flatMap((session) => ('problem' in session ? [session.problem] : [])) };
}

function renderStatic(family: Family, announcements: readonly Announcement[]): string {
  const routes = announcements
    .filter(({ cidr }) => isOf(family)(cidr))
    .toSorted((a, b) => compareCidrs(a.cidr, b.cidr))
    .map(({ cidr, communities }) => `  route ${formatCidr(cidr)} blackhole${renderCommunities(communities)};`);
  return [`protocol static announced${String(family)} {`, `  ipv${String(family)};`, ...routes, '}'].join('\n');
}

function renderCommunities(communities: readonly Community[]): string {
  if (communities.length === 0) return '';
  const added = communities.map((community) => {
    const list = community.length === 2 ? 'bgp_community' : 'bgp_large_community';
    return `${list}.add((${community.join(', ')}));`;
  });
  return ` { ${added.join(' ')} }`;
}

/** Renders the kernel protocol, which learns the host's routes to resolve next hops behind a router. */
function renderKernel(family: Family): string {
  return `protocol kernel kernel${String(family)} {
  persist;
  graceful restart;
  learn;
  scan time 20;
  metric ${String(KERNEL_METRIC)};
  merge paths;
  ipv${String(family)} { import filter of_host${String(family)}; export filter to_kernel${String(family)}; };
}`;
}

function isOf(family: Family): (cidr: Cidr) => boolean {
  return ({ base }) => base.family === family;
}

/** Quotes a text of netplug, which never contains characters that cannot be quoted. */
function quoted(text: string): string {
  const whole = quoteText(text);
  invariant(whole !== undefined, `${JSON.stringify(text)} cannot be written into the configuration of BIRD`);
  return whole;
}
