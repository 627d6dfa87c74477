// Faults of nodes, agents and the datastore.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Agent } from '../agent.ts';
import { settle, type SoakCluster, type SoakNode } from './cluster.ts';
import type { Server } from './datastore.ts';
import type { Dice } from './dice.ts';
import type { Oracle } from './oracle.ts';

const TAKEOVER_MS = 60_000;
const AGENT_FAULTS = { kill: 30, pause: 15, replace: 20, restart: 10, 'kill-the-new': 8, 'pause-and-replace': 8 };
/** Of a server of the datastore. */
const SERVER_FAULTS = { 'pause-server': 14, 'kill-server': 20, 'away-and-kill': 12, 'kill-both': 14 };

/** Each soak begins with these faults of the first server. */
const OPENING = ['kill-both', 'kill-server'] as const;

export interface World {
  readonly cluster: SoakCluster;
  readonly dice: Dice;
  readonly oracle: Oracle;
}

/** Injects one fault after the other until the signal is aborted; leaves everything running. */
export async function injectFaults(world: World, signal: AbortSignal): Promise<void> {
  const { cluster, dice, oracle } = world;
  const opening = [...OPENING];
  while (!signal.aborted) {
    // Sometimes long enough for every invariant to hold again.
    await sleep(dice.chance(0.35) ? dice.between(4000, 7000) : dice.between(200, 1500), undefined, { signal }).catch(
      () => undefined,
    );
    if (signal.aborted) return;
    const given = opening.shift();
    const fault = given ?? dice.pick({ ...AGENT_FAULTS, ...SERVER_FAULTS });
    const of = oneOf(dice, cluster.nodes);
    const server = given === undefined ? oneOf(dice, cluster.datastore.servers) : cluster.datastore.servers[0]!;
    const what = fault in SERVER_FAULTS ? nameOf(fault, server) : fault;
    // A node that runs out of addresses depends on the agents of the others too.
    for (const each of cluster.nodes) each.calmSinceMs = undefined;
    oracle.count(what);
    oracle.note(`! ${what} on ${of.node.name}`);
    await FAULTS[fault](world, of, server);
    await settle(cluster);
    oracle.note(`! ${what} is over`);
  }
}

/** Whether agent and server have been killed while calls were under way. */
export function hasOpened({ cluster, oracle }: Pick<World, 'cluster' | 'oracle'>): boolean {
  return OPENING.every((fault) => oracle.counts.has(nameOf(fault, cluster.datastore.servers[0]!)));
}

function nameOf(fault: string, { name }: Server): string {
  return `${fault} ${name}`;
}

const FAULTS: Readonly<
  Record<
    keyof typeof AGENT_FAULTS | keyof typeof SERVER_FAULTS,
    (world: World, of: SoakNode, server: Server) => Promise<void>
  >
> = {
  kill: async ({ cluster, dice }, of) => {
    await kill(of);
    await sleep(dice.between(0, 1500));
    of.agent = await cluster.launch(of);
  },
  pause: async ({ dice }, of) => {
    await of.agent!.pause();
    await sleep(dice.between(200, 2000));
    await of.agent!.resume();
  },
  replace: async (world, of) => {
    const old = of.agent!;
    of.agent = await world.cluster.launch(of);
    await hasEnded(world, old);
  },
  restart: async ({ cluster, dice }, of) => {
    await of.agent!.stop();
    await sleep(dice.between(0, 500));
    of.agent = await cluster.launch(of);
  },
  'kill-the-new': async (world, of) => {
    const { cluster, dice } = world;
    const old = of.agent!;
    const young = await cluster.launch(of);
    await sleep(dice.between(0, 1200));
    await young.stop('KILL');
    // It may be ending already.
    const next = await cluster.launch(of);
    of.agent = next;
    await hasEnded(world, old);
  },
  'pause-and-replace': async (world, of) => {
    const { cluster, dice } = world;
    const old = of.agent!;
    await old.pause();
    of.agent = await cluster.launch(of);
    await sleep(dice.between(200, 2500));
    if (dice.chance(0.5)) await old.stop('KILL');
    else await old.resume();
    await hasEnded(world, old);
  },
  'pause-server': async ({ dice }, _, server) => {
    await server.pause();
    await sleep(dice.between(300, 4000));
    await server.resume();
  },
  'kill-server': async ({ dice }, _, server) => {
    await server.kill();
    await sleep(dice.between(0, 3000));
    await server.start();
  },
  'away-and-kill': async ({ cluster, dice }, of, server) => {
    await server.pause();
    await sleep(dice.between(0, 1500));
    await kill(of);
    await sleep(dice.between(0, 500));
    of.agent = await cluster.launch(of);
    await sleep(dice.between(0, 2000));
    await server.resume();
  },
  'kill-both': async ({ cluster, dice }, of, server) => {
    await server.kill();
    await sleep(dice.between(0, 1500));
    await kill(of);
    await sleep(dice.between(0, 500));
    of.agent = await cluster.launch(of);
    await server.start();
  },
};

function oneOf<T>(dice: Dice, items: readonly T[]): T {
  return items[Math.floor(dice.between(0, items.length))]!;
}

async function kill(of: SoakNode): Promise<void> {
  await of.agent!.stop('KILL');
  of.agent = undefined;
}

async function hasEnded({ oracle, cluster }: World, old: Agent): Promise<void> {
  const late = sleep(TAKEOVER_MS, 'late', { ref: false });
  if ((await Promise.race([old.ended, late])) !== 'late') return;
  oracle.blame(`agent ${String(old.pid)} does not end\n${cluster.logs()}`);
  await old.stop('KILL');
}
