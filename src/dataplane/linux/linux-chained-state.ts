import type { Family } from '../../net/address.ts';
import {
  type ChainedContainer,
  type ChainedState,
  PORT_CHAIN_PREFIX,
  type PortRule,
  portMarksOf,
} from '../chained-state.ts';
import { type Addon, loadAddon } from './addon.ts';
import { type ChainPlace, deleteRule, deleteWholeChain, dumpChainRules } from './chain-messages.ts';
import { deleteLink } from './link-messages.ts';
import { findLinkOnWorker } from './links.ts';
import { decodeExpressions } from './listed-expressions.ts';
import type { Message } from './netlink.ts';
import { decodeRule, type ListedRule } from './nft-messages.ts';
import { NftSocket } from './nft-socket.ts';
import { RouteSocket, refusal } from './route-socket.ts';

const ENODEV = 19;
const FAMILIES: readonly Family[] = [4, 6];
/** Chains of portmap with iptables, in the table that iptables has for translation. */
const IPTABLES = { table: 'nat', hooks: ['PREROUTING', 'OUTPUT'], entry: 'CNI-HOSTPORT-DNAT' } as const;
/** Chains of portmap with nftables, in a table of its own. Releases before 1.8 have rules with an address in a chain apart. */
const NFTABLES = {
  table: 'cni_hostport',
  hooks: ['prerouting', 'output'],
  ports: ['hostports', 'hostip_hostports'],
  others: ['masquerading'],
} as const;

/** Returns the port to the network namespace of the calling thread; `addonPath` as for `loadAddon`. */
export function linuxChainedState(addonPath?: string): ChainedState {
  const addon = (): Addon => loadAddon(addonPath);
  return {
    listPortRules: async (signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(addon());
      const rules: PortRule[] = [];
      for (const family of FAMILIES)
        rules.push(...(await listIptables(socket, family)), ...(await listNftables(socket, family)));
      signal.throwIfAborted();
      return rules;
    },
    removePortRules: async (container, signal) => {
      signal.throwIfAborted();
      using socket = NftSocket.open(addon());
      const deletions: Message[] = [];
      for (const family of FAMILIES) deletions.push(...(await deletionsOf(socket, container, family)));
      await socket.commit(`delete the rules of portmap for container "${container.containerId}"`, deletions);
    },
    findShapers: async (names) => {
      using socket = RouteSocket.open(addon());
      const found: string[] = [];
      for (const name of names) if ((await findShaper(socket, name)) !== undefined) found.push(name);
      return found;
    },
    removeShaper: async (name) => {
      using socket = RouteSocket.open(addon());
      const link = await findShaper(socket, name);
      if (link === undefined) return;
      const [reply] = await socket.askOnWorker([deleteLink(link.index)]);
      if (reply.errno !== 0 && reply.errno !== ENODEV) throw refusal(`delete interface "${name}"`, reply);
    },
  };
}

async function listIptables(socket: NftSocket, family: Family): Promise<readonly PortRule[]> {
  const { table, hooks, entry } = IPTABLES;
  const marks = (await listRules(socket, { family, table, chain: entry }))
    .flatMap(jumpsIn)
    .filter((chain) => chain.startsWith(PORT_CHAIN_PREFIX));
  if (marks.length === 0) return [];
  const isReached = await areReached(socket, { family, table, hooks }, (chain) => chain === entry);
  return marks.map((mark) => ({ family, mark, isReached }));
}

async function listNftables(socket: NftSocket, family: Family): Promise<readonly PortRule[]> {
  const { table, hooks, ports } = NFTABLES;
  const marks: string[] = [];
  for (const chain of ports)
    for (const { comment } of await listRules(socket, { family, table, chain }))
      if (comment !== '') marks.push(comment);
  if (marks.length === 0) return [];
  const isReached = await areReached(socket, { family, table, hooks }, () => true);
  return marks.map((mark) => ({ family, mark, isReached }));
}

/** Reports whether each of the chains that the kernel calls has a rule that leads to such a chain. */
async function areReached(
  socket: NftSocket,
  { hooks, ...place }: Omit<ChainPlace, 'chain'> & { readonly hooks: readonly string[] },
  isEntry: (chain: string) => boolean,
): Promise<boolean> {
  for (const chain of hooks)
    if (!(await listRules(socket, { ...place, chain })).flatMap(jumpsIn).some(isEntry)) return false;
  return true;
}

async function deletionsOf(
  socket: NftSocket,
  container: ChainedContainer,
  family: Family,
): Promise<readonly Message[]> {
  const marks = portMarksOf(container);
  const entry = { family, table: IPTABLES.table, chain: IPTABLES.entry };
  const jumps = (await listRules(socket, entry)).filter((rule) => jumpsIn(rule).includes(marks.chain));
  const deletions = jumps.map(({ handle }) => deleteRule(entry, handle));
  if (jumps.length > 0) deletions.push(...deleteWholeChain({ ...entry, chain: marks.chain }));
  for (const chain of [...NFTABLES.ports, ...NFTABLES.others]) {
    const place = { family, table: NFTABLES.table, chain };
    const own = (await listRules(socket, place)).filter(({ comment }) => comment === marks.comment);
    deletions.push(...own.map(({ handle }) => deleteRule(place, handle)));
  }
  return deletions;
}

async function listRules(socket: NftSocket, place: ChainPlace): Promise<readonly ListedRule[]> {
  const bodies = await socket.list(`list the rules of chain "${place.chain}"`, dumpChainRules(place));
  return bodies.map(decodeRule);
}

/** Returns the chains that the rule jumps to. */
function jumpsIn({ expressions }: ListedRule): readonly string[] {
  return decodeExpressions(expressions).flatMap(({ kind, value }) => {
    const [, chain] = kind === 'immediate' ? (/^jump (.*)$/.exec(String(value)) ?? []) : [];
    return chain === undefined ? [] : [chain];
  });
}

/** Bandwidth makes devices of this kind alone. */
async function findShaper(socket: RouteSocket, name: string): ReturnType<typeof findLinkOnWorker> {
  const link = await findLinkOnWorker(socket, name);
  return link?.kind === 'ifb' ? link : undefined;
}
