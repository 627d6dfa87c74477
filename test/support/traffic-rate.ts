// How fast data flows, by iperf3.
import type { Peer } from './fabric-node.ts';
import { here } from './here.ts';
import { until } from './until.ts';

export interface RateOptions {
  /** To one of the receiver's addresses. */
  readonly address: string;
  readonly seconds: number;
  /** Connections at once. */
  readonly streams: number;
}

/** Lets iperf3 receive there until disposed. */
export async function startReceiver({ netns, name }: Pick<Peer, 'netns' | 'name'>): Promise<AsyncDisposable> {
  const service = await here.start(['nsenter', `--net=${netns.path}`, 'iperf3', '--server', '--forceflush']);
  await until(
    () => service.log().includes('Server listening'),
    () => `iperf3 receives on ${name}; it says:\n${service.log()}`,
  );
  return { [Symbol.asyncDispose]: async () => service.stop('KILL') };
}

/** Sends from there to a receiver; in bits per second of what arrived. */
export async function measureRate(
  { netns }: Pick<Peer, 'netns'>,
  { address, seconds, streams }: RateOptions,
): Promise<number> {
  const flags = ['--json', '--time', String(seconds), '--parallel', String(streams), '--omit', '0.5'];
  const output = await netns.exec('iperf3', '--client', address, ...flags);
  const { end } = JSON.parse(output) as { end: { sum_received: { bits_per_second: number } } }; // as iperf3 documents it
  return end.sum_received.bits_per_second;
}
