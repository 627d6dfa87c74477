// What a container runtime does, many times: one call of a container after the other, containers at once.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Launcher, Run } from '../../../scripts/bench/launcher.ts';
import { ERRORS } from '../../../src/base/error-codes.ts';
import type { TestNetns } from '../netns.ts';
import type { Json } from '../node.ts';
import { CALL_SECONDS, type SoakNode } from './cluster.ts';
import type { SoakDatastore } from './datastore.ts';
import type { Dice } from './dice.ts';
import type { Gate } from './gate.ts';
import type { Oracle } from './oracle.ts';

/** The shim waits for the agent's limit and 5 s, then the standalone program has its own; the rest is a busy machine. */
const LONGEST_MS = (2 * CALL_SECONDS + 5 + 15) * 1000;
/** Time within which every invariant must hold again after a fault. */
const CALM_MS = 3000;
/** Before a runtime asks the orchestrator again. */
const PAUSE_MS = 200;
const KILLED = 137;
const CODES: ReadonlySet<number> = new Set(Object.values(ERRORS).map(({ cni }) => cni));

/** A namespace in which one container after the other lives. */
export interface Pod {
  readonly netns: TestNetns;
  readonly name: string;
  generation: number;
  /** `open`: the runtime does not know what there is, and has to remove it. */
  state: 'empty' | 'living' | 'open';
  /** CNI_ARGS. */
  args: string;
  /** The orchestrator has forgotten the pod, and the runtime still has to remove it. */
  isForgotten: boolean;
  result: Json;
}

export interface Lane {
  readonly of: SoakNode;
  readonly datastore: Pick<SoakDatastore, 'startPod' | 'forgetPod'>;
  readonly launcher: Launcher;
  readonly pods: readonly Pod[];
  readonly gate: Gate;
  readonly dice: Dice;
  readonly oracle: Oracle;
  /** Every pod of the node, for GC. */
  readonly neighbours: readonly Pod[];
}

type Verb = 'ADD' | 'DEL' | 'CHECK' | 'STATUS' | 'GC';

interface Answer {
  readonly status: 'ok' | 'refused' | 'killed';
  readonly json: Json;
  /** Nothing was wrong with agent or datastore before and during the call. */
  readonly isCalm: boolean;
}

export function containerOf({ name, generation }: Pod): string {
  return `${name}.${String(generation)}`;
}

function podNameOf({ name }: Pod): string {
  return `pod-${name}`;
}

/** Does one thing with one of the lane's pods. */
export async function step(lane: Lane): Promise<void> {
  const { dice, pods, gate } = lane;
  if (dice.chance(0.01)) {
    await collect(lane);
    return;
  }
  const pod = pods[Math.floor(dice.between(0, pods.length))]!;
  await gate.shared(async () => ACTS[dice.pick(CHOICES[pod.state])](lane, pod));
}

type Act = 'add' | 'remove' | 'check' | 'status';

const CHOICES: Readonly<Record<Pod['state'], Readonly<Record<Act, number>>>> = {
  empty: { add: 1, remove: 0, check: 0, status: 0 },
  open: { add: 20, remove: 80, check: 0, status: 0 },
  living: { add: 10, remove: 45, check: 40, status: 5 },
};

const ACTS: Readonly<Record<Act, (lane: Lane, pod: Pod) => Promise<void>>> = { add, remove, check, status };

async function add(lane: Lane, pod: Pod): Promise<void> {
  const { oracle, of, dice, datastore } = lane;
  if (pod.state === 'empty') {
    const args = await datastore.startPod(podNameOf(pod), of.node.name, dice.chance(0.3) ? 'new' : 'same');
    if (args === undefined) {
      oracle.count('no pod');
      oracle.note(`${podNameOf(pod)} cannot be made`);
      await sleep(PAUSE_MS);
      return;
    }
    Object.assign(pod, { args, isForgotten: false, generation: pod.generation + 1 });
  }
  // Nothing is started for a pod that has been deleted.
  if (pod.isForgotten) {
    await remove(lane, pod);
    return;
  }
  const container = containerOf(pod);
  const answer = await call(lane, 'ADD', pod);
  if (answer.status !== 'ok') {
    if (answer.status === 'refused' && answer.isCalm && !/ipam\/exhausted/.test(String(answer.json.details)))
      oracle.blame(`ADD of ${container} is refused in calm: ${JSON.stringify(answer.json)}`, [container]);
    if (pod.state === 'living' && answer.status === 'killed') return;
    pod.state = 'open';
    return;
  }
  const addresses = addressesIn(answer.json);
  if (addresses.length !== 2) oracle.blame(`${container} has got ${addresses.join(', ')}`, [container]);
  if (pod.state === 'living' && addressesIn(pod.result).join() !== addresses.join())
    oracle.blame(`${container} has other addresses than before: ${addresses.join()}`, [container, ...addresses]);
  oracle.received(container, addresses);
  pod.state = 'living';
  pod.result = answer.json;
}

export async function remove(lane: Lane, pod: Pod): Promise<void> {
  const { oracle, dice, datastore } = lane;
  const container = containerOf(pod);
  oracle.forget(container);
  pod.state = 'open';
  if (dice.chance(0.1)) {
    pod.isForgotten = true;
    oracle.note(`${podNameOf(pod)} is forgotten`);
    await datastore.forgetPod(podNameOf(pod));
  }
  const answer = await call(lane, 'DEL', pod);
  if (answer.status === 'ok') {
    pod.state = 'empty';
    if (dice.chance(0.01)) await expectBare(pod, oracle);
    return;
  }
  if (answer.status === 'refused') {
    if (answer.isCalm)
      oracle.blame(`DEL of ${container} is refused in calm: ${JSON.stringify(answer.json)}`, [container]);
    await sleep(dice.between(50, 300));
  }
}

async function check(lane: Lane, pod: Pod): Promise<void> {
  const answer = await call(lane, 'CHECK', pod, { prevResult: pod.result });
  if (answer.status === 'refused' && answer.isCalm)
    lane.oracle.blame(`CHECK of ${containerOf(pod)} fails: ${JSON.stringify(answer.json)}`, [
      containerOf(pod),
      ...addressesIn(pod.result),
    ]);
}

async function status(lane: Lane): Promise<void> {
  const answer = await call(lane, 'STATUS', undefined);
  if (answer.status === 'refused' && answer.isCalm && answer.json.code !== 50)
    lane.oracle.blame(`STATUS fails: ${JSON.stringify(answer.json)}`);
}

/** Names the living ones, and some of those of which the runtime does not know. */
export async function collect(lane: Lane): Promise<boolean> {
  const { gate, neighbours, of, dice } = lane;
  return gate.alone(async () => {
    const kept = neighbours.filter(({ state }) => state === 'living' || (state === 'open' && dice.chance(0.5)));
    for (const pod of neighbours) if (!kept.includes(pod)) lane.oracle.forget(containerOf(pod));
    const valid = kept.map((pod) => ({ containerID: containerOf(pod), ifname: 'eth0' }));
    const answer = await call(lane, 'GC', undefined, { 'cni.dev/valid-attachments': valid });
    if (answer.status === 'refused' && answer.isCalm)
      lane.oracle.blame(`GC on ${of.node.name} fails: ${JSON.stringify(answer.json)}`);
    return answer.status === 'ok';
  });
}

async function call(lane: Lane, verb: Verb, pod: Pod | undefined, more: object = {}): Promise<Answer> {
  const { of, launcher, oracle, dice } = lane;
  const container = pod === undefined ? '' : containerOf(pod);
  const limit = dice.chance(0.04)
    ? ['/usr/bin/timeout', '-s', 'KILL', (dice.between(0, 1) ** 2 * 0.12).toFixed(4)]
    : [];
  const sinceMs = Date.now();
  const wasCalm = of.calmSinceMs;
  oracle.note(`> ${verb} ${container} on ${of.node.name}`);
  const { runs } = await launcher.run([
    {
      argv: [...limit, `${of.node.cniPath}/netplug`] as unknown as [string, ...string[]],
      env: {
        ...of.env.call,
        PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
        CNI_COMMAND: verb,
        CNI_CONTAINERID: container,
        CNI_NETNS: pod?.netns.path ?? '',
        CNI_IFNAME: pod === undefined ? '' : 'eth0',
        CNI_ARGS: pod?.args ?? '',
        CNI_PATH: of.node.cniPath,
      },
      stdin: JSON.stringify({ ...of.conf, ...more }),
    },
  ]);
  const run = runs[0]!;
  const isCalm = wasCalm !== undefined && sinceMs - wasCalm > CALM_MS && of.calmSinceMs === wasCalm;
  const answer = { ...read(run, limit.length > 0), isCalm };
  oracle.count(`${verb} ${answer.status}${/code: (\S+)$/.exec(String(answer.json?.details))?.[1] ?? ''}`);
  if (limit.length === 0) oracle.count(run.cpuMs > 25 ? 'standalone' : 'by the agent');
  const outcome = answer.status === 'refused' ? JSON.stringify(answer.json) : addressesIn(answer.json).join(' ');
  oracle.note(`< ${verb} ${container} ${answer.status} ${String(Math.round(run.ms))} ms ${outcome}`);
  const about = [container === '' ? verb : container];
  if (run.ms > LONGEST_MS) oracle.blame(`${verb} ${container} took ${String(run.ms)} ms`, about);
  const isKnown = answer.status !== 'refused' || (CODES.has(answer.json?.code) && answer.json.code !== 999);
  if (!isKnown || (run.status !== 0 && run.status !== 1 && answer.status !== 'killed'))
    oracle.blame(`${verb} ${container} ended with ${String(run.status)}: ${run.stdout}${launcher.log()}`, about);
  return answer;
}

function read({ status: code, stdout }: Run, mayBeKilled: boolean): Pick<Answer, 'status' | 'json'> {
  if (mayBeKilled && code === KILLED) return { status: 'killed', json: undefined };
  let json: Json;
  try {
    json = stdout.trim() === '' ? undefined : JSON.parse(stdout);
  } catch {
    json = { code: undefined, msg: stdout };
  }
  return { status: code === 0 ? 'ok' : 'refused', json };
}

export function addressesIn(result: Json): readonly string[] {
  return (result?.ips ?? []).map(({ address }: Json) => String(address).replace(/\/\d+$/, ''));
}

/** Nothing but loopback is in the pod's namespace. */
export async function expectBare(pod: Pod, oracle: Oracle): Promise<void> {
  if (pod.state !== 'empty') return;
  const links = (await pod.netns.ip('link')).map(({ ifname }) => String(ifname)).filter((name) => name !== 'lo');
  if (links.length > 0)
    oracle.blame(`${links.join()} is left in the namespace of ${containerOf(pod)}`, [containerOf(pod)]);
}
