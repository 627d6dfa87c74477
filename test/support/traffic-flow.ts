// Packets that go on and on while something happens, counted one by one.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Peer } from './fabric-node.ts';
import { here } from './here.ts';
import { removeAtEnd } from './janitor.ts';
import { logged } from './logged.ts';
import { type Pair, addressesOf } from './traffic.ts';

export interface Flow {
  /** Ends it and counts; a packet still on its way does not. */
  stop(): Promise<FlowReport>;
}

export interface FlowReport {
  readonly name: string;
  readonly sent: number;
  readonly lost: number;
  /** By the packets missing in a row. */
  readonly longestGapMs: number;
  /** What ping complained of, a few lines at most. */
  readonly complaints: readonly string[];
}

const HZ = 50;
const SHOWN = 5;

/** Pings the address so many times a second. */
export async function startFlow(
  from: Peer,
  address: string,
  { hz = HZ }: { readonly hz?: number } = {},
): Promise<Flow> {
  const dir = await mkdtemp(join(tmpdir(), 'netplug-flow-'));
  removeAtEnd('folder', dir);
  const periodMs = 1000 / hz;
  // With -O it names what was not answered before the next one goes.
  const ping = ['ping', '-n', '-O', '-i', String(periodMs / 1000), address];
  const service = await logged(here, dir, 'ping').start(['nsenter', `--net=${from.netns.path}`, ...ping]);
  return {
    stop: async () => {
      await service.stop();
      const lines = (await readFile(join(dir, 'ping.log'), 'utf8')).split('\n').slice(1);
      await rm(dir, { recursive: true, force: true });
      return reportOf(`${from.name} -> ${address}`, lines, periodMs);
    },
  };
}

/** One for each pair and family. */
export async function startFlows(pairs: readonly Pair[]): Promise<Flow[]> {
  return Promise.all(pairs.flatMap(({ from, to }) => addressesOf(to).map(async (address) => startFlow(from, address))));
}

/** Reports those that lost something, and those that hardly sent anything. */
export async function stopFlows(
  flows: readonly Flow[],
  { atLeast }: { readonly atLeast: number },
): Promise<FlowReport[]> {
  const reports = await Promise.all(flows.map(async (flow) => flow.stop()));
  return reports.filter(({ sent, lost }) => lost > 0 || sent < atLeast);
}

function reportOf(name: string, lines: readonly string[], periodMs: number): FlowReport {
  const { longestRow, ...counted } = countAnswers(lines);
  const complaints = lines.filter((line) => line !== '' && !isAnswer(line));
  return { name, ...counted, longestGapMs: longestRow * periodMs, complaints: complaints.slice(0, SHOWN) };
}

/** Reads what `ping -O` has printed; a packet still on its way is not counted. */
export function countAnswers(
  lines: readonly string[],
): Pick<FlowReport, 'sent' | 'lost'> & { readonly longestRow: number } {
  const answered = new Set<number>();
  let sent = 0;
  for (const line of lines) {
    const [, text] = /icmp_seq=(\d+)/.exec(line) ?? [];
    if (text === undefined) continue;
    sent = Math.max(sent, Number(text));
    if (isAnswer(line)) answered.add(Number(text));
  }
  let [lost, row, longestRow] = [0, 0, 0];
  for (let sequence = 1; sequence <= sent; sequence += 1) {
    row = answered.has(sequence) ? 0 : row + 1;
    if (row > 0) lost += 1;
    longestRow = Math.max(longestRow, row);
  }
  return { sent, lost, longestRow };
}

function isAnswer(line: string): boolean {
  return /bytes from.*icmp_seq=/.test(line);
}
