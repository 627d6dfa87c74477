import { randomInt } from 'node:crypto';
import { closeSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { addressBytes } from '../../net/address.ts';
import { encodeProbe, type EncodedProbe, withHeader } from '../encode-probe.ts';
import type { PacketProbe, ProbePacket, ProbeStep, ProbeTrail } from '../packet-probe.ts';
import type { FilterHook, FilterMatch } from '../policy-filter.ts';
import { type Addon, loadAddon } from './addon.ts';
import { openNetnsBehind } from './find-netns.ts';
import type { Message } from './netlink.ts';
import { RuleEncoder, traceExpressions } from './nft-expressions.ts';
import { addChain, addOwnedTable, addRule, decodeRule, dumpRules } from './nft-messages.ts';
import { NftSocket } from './nft-socket.ts';
import { idIn } from './plan-policy-batch.ts';
import { kernelFailure } from './route-socket.ts';
import { readTrace, TRACE_GROUP, type TraceEvent } from './trace-messages.ts';

/** Before connection tracking and everything that drops. */
const FIRST = -450;
/** After everything else. */
const LAST = 450;
const LAST_CHAINS: Readonly<Record<string, FilterHook['hook']>> = {
  'passed-input': 'input',
  'passed-postrouting': 'postrouting',
};
/** Time that a packet may take to the first hook, as the pod may have to resolve its gateway first, and from hook to hook. */
const [FIRST_EVENT_MS, NEXT_EVENT_MS] = [3000, 1000];
const POLL_MS = 10;
const DYNAMIC_PORTS = [49_152, 65_536] as const;

/** Probes in the network namespace of the calling thread; `addonPath` as for `loadAddon`. */
export function linuxPacketProbe(addonPath?: string): PacketProbe {
  return {
    follow: async (packet, table, signal) => {
      const addon = loadAddon(addonPath);
      const own = `netplug-probe-${String(process.pid)}`;
      const sourcePort = randomInt(...DYNAMIC_PORTS);
      const encoded = encodeProbe(packet, sourcePort);
      using opened = new DisposableStack();
      const sender = opened.use(openSender(addon, packet, encoded));
      const socket = opened.use(NftSocket.open(addon));
      const events: TraceEvent[] = [];
      opened.use(listen(addon, (event) => events.push(event)));
      await socket.commit('trace the packet', tracingTable(own, { packet, sourcePort, sender, encoded }));
      sender.send();
      const met = await eventsOfPacket(events, { own: `inet ${own}`, signal });
      return trailOf(met, { own: `inet ${own}`, table: `inet ${table}`, rules: await rulesIn(socket, table) });
    },
  };
}

/** A way for the packet into the host. */
interface Sender extends Disposable {
  /** Where it arrives; undefined when the host sends it itself. */
  readonly interfaceName: string | undefined;
  send(): void;
}

/** @throws kernel/failed, kernel/netns-invalid */
function openSender(addon: Addon, packet: ProbePacket, encoded: EncodedProbe): Sender {
  const { source, destination, sender } = packet;
  const sendRaw = (): void => {
    const { protocol, payload } = encoded;
    const result = addon.sendRaw(protocol, addressBytes(source), addressBytes(destination), payload);
    if (result !== 0) throw kernelFailure('send the packet', -result);
  };
  if (sender.kind === 'host') return { interfaceName: undefined, send: sendRaw, [Symbol.dispose]: () => undefined };
  if (sender.kind === 'pod') {
    const { interfaceName } = sender;
    const netns = openNetnsBehind(addon, interfaceName);
    return { interfaceName, send: () => netns.run(sendRaw), [Symbol.dispose]: () => netns[Symbol.dispose]() };
  }
  const interfaceName = `netplug${String(randomInt(10_000_000))}`;
  const tun = addon.openTun(interfaceName);
  if (tun < 0) throw kernelFailure('make an interface by which the packet arrives (/dev/net/tun)', -tun);
  const send = (): void => void writeSync(tun, withHeader(packet, encoded));
  return { interfaceName, send, [Symbol.dispose]: () => closeSync(tun) };
}

function tracingTable(
  own: string,
  {
    packet,
    sourcePort,
    sender: { interfaceName },
    encoded: { protocol },
  }: {
    readonly packet: ProbePacket;
    readonly sourcePort: number;
    readonly sender: Sender;
    readonly encoded: EncodedProbe;
  },
): readonly Message[] {
  const { source, destination, port } = packet;
  const address = (side: 'source' | 'destination', { family, value }: ProbePacket['source']): FilterMatch => {
    const base = { family, value };
    return { kind: 'nets', side, family, nets: [{ base, prefixBits: family === 4 ? 32 : 128 }] };
  };
  const only = (side: 'source' | 'destination', one: number): FilterMatch => {
    return { kind: 'ports', side, spans: [{ first: one, last: one }] };
  };
  const matches: readonly FilterMatch[] = [
    ...(interfaceName === undefined ? [] : [{ kind: 'interface', direction: 'in', name: interfaceName } as const]),
    address('source', source),
    address('destination', destination),
    { kind: 'protocol', protocols: [protocol] },
    ...(port === undefined ? [] : [only('source', sourcePort), only('destination', port)]),
  ];
  const { expressions } = new RuleEncoder(own).encode({ id: 'trace', parts: matches });
  const hook = interfaceName === undefined ? 'output' : 'prerouting';
  return [
    addOwnedTable(own),
    addChain(own, 'trace', { type: 'filter', hook, priority: FIRST }),
    addRule({ table: own, chain: 'trace' }, 'trace', [...expressions, ...traceExpressions()]),
    ...Object.entries(LAST_CHAINS).map(([name, end]) =>
      addChain(own, name, { type: 'filter', hook: end, priority: LAST }),
    ),
  ];
}

/** Calls back for each event of the namespace until the result is disposed. @throws kernel/failed */
function listen(addon: Addon, onEvent: (event: TraceEvent) => void): Disposable {
  const fd = addon.openFilterSocket();
  if (fd < 0) throw kernelFailure('open a netfilter socket', -fd);
  const joined = addon.joinGroup(fd, TRACE_GROUP);
  if (joined !== 0) {
    addon.close(fd);
    throw kernelFailure('listen to traced packets', -joined);
  }
  const end = addon.monitorSocket(fd, (note) => {
    if (typeof note !== 'number') for (const event of readTrace(note)) onEvent(event);
  });
  if (end < 0) throw kernelFailure('listen to traced packets', -end);
  return { [Symbol.dispose]: () => void addon.close(end) };
}

/** Waits for the end of the packet that the table traces; others may be traced at the same time. */
async function eventsOfPacket(
  events: readonly TraceEvent[],
  { own, signal }: { readonly own: string; readonly signal: AbortSignal },
): Promise<readonly TraceEvent[]> {
  const ofPacket = (): readonly TraceEvent[] => {
    const first = events.find(({ table, chain }) => table === own && chain === 'trace');
    return events.filter(({ packet }) => packet === first?.packet);
  };
  for (let [known, waited] = [0, 0]; ; waited += POLL_MS) {
    const met = ofPacket();
    if (met.length > known) [known, waited] = [met.length, 0];
    if (met.some((event) => isEnd(event, own)) || waited >= (known === 0 ? FIRST_EVENT_MS : NEXT_EVENT_MS)) return met;
    await sleep(POLL_MS, undefined, { signal });
  }
}

function isEnd({ table, chain, verdict }: TraceEvent, own: string): boolean {
  return verdict === 'drop' || (table === own && Object.hasOwn(LAST_CHAINS, chain));
}

/** Ids of rules by their handles. */
async function rulesIn(socket: NftSocket, table: string): Promise<ReadonlyMap<bigint, string>> {
  const bodies = await socket.list('list the rules of policies', dumpRules(table));
  return new Map(bodies.map(decodeRule).map(({ handle, comment }) => [handle, idIn(comment)]));
}

function trailOf(
  met: readonly TraceEvent[],
  { own, table, rules }: { readonly own: string; readonly table: string; readonly rules: ReadonlyMap<bigint, string> },
): ProbeTrail {
  const steps = met
    .filter((event) => event.table !== own)
    .map((event): ProbeStep => {
      const rule = event.table === table && event.handle !== 0n ? (rules.get(event.handle) ?? 'removed') : undefined;
      return {
        table: event.table,
        chain: event.chain,
        verdict: event.verdict,
        ...(rule === undefined ? {} : { rule }),
      };
    });
  return { steps, end: endOf(met, own) };
}

function endOf(met: readonly TraceEvent[], own: string): ProbeTrail['end'] {
  if (met.length === 0) return 'unseen';
  if (met.some(({ verdict }) => verdict === 'drop')) return 'dropped';
  return met.some((event) => isEnd(event, own)) ? 'passed' : 'lost';
}
