// Datagrams between two pods in both directions, without a pause. The kernel counts them where they leave and where they
// arrive, so that none is missed because a program was slow to read.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Service, TestNode } from './node.ts';

/** A network namespace on a node. */
export interface StreamEnd {
  readonly machine: Pick<TestNode, 'exec' | 'run' | 'start'>;
  /** As the node sees it. */
  readonly netns: string;
  readonly address: string;
}

export interface UdpStream {
  /** Ends it, and counts when what is on its way has arrived. */
  stop(): Promise<StreamReport>;
}

export interface StreamReport {
  /** By direction and kind. */
  readonly counts: readonly StreamCount[];
  /** What the kernel refused to send, with its reason. */
  readonly refused: string;
  readonly seconds: number;
}

export interface StreamCount {
  /** `lasting`: of one connection. `new`: each datagram is a new connection to the kernel. */
  readonly name: string;
  readonly sent: number;
  readonly arrived: number;
}

export interface StreamRates {
  /** Datagrams a second in each direction. */
  readonly lasting: number;
  /** Datagrams from a new port each, a second in each direction. */
  readonly fresh: number;
}

const PORTS = { lasting: 7009, new: 7010 } as const;
const ON_THE_WAY_MS = 1000;
const SHOWN = 1000;

/** After a pause of the processor it catches up with so many at most: a queue of the kernel holds more. */
const SENDER = `
  const { createSocket } = require('dgram');
  const [address, lasting, fresh] = process.argv.slice(1);
  const MOST_AT_ONCE = 20;
  const repeat = (hz, send) => {
    let last = performance.now();
    setInterval(() => {
      const now = performance.now();
      const due = Math.floor(((now - last) * hz) / 1000);
      if (due === 0) return;
      last = due > MOST_AT_ONCE ? now : last + (due * 1000) / hz;
      for (let sent = 0; sent < Math.min(due, MOST_AT_ONCE); sent += 1) send();
    }, 1);
  };
  const tell = (error) => error && console.log(error.message);
  const listen = (port) => createSocket('udp4').on('error', tell).bind(port);
  const socket = listen(${String(PORTS.lasting)});
  listen(${String(PORTS.new)});
  socket.on('listening', () => {
    repeat(Number(lasting), () => socket.send('x'.repeat(100), ${String(PORTS.lasting)}, address, tell));
    repeat(Number(fresh), () => {
      const one = createSocket('udp4');
      one.send('y', ${String(PORTS.new)}, address, (error) => one.close(() => tell(error)));
    });
  });
`;

const COUNTERS = Object.keys(PORTS).flatMap((name) => [`sent-${name}`, `arrived-${name}`]);
const TABLE = [
  'table inet stream {',
  ...COUNTERS.map((name) => `counter ${name} { }`),
  'chain leaving { type filter hook output priority 0;',
  ...Object.entries(PORTS).map(([name, port]) => `udp dport ${String(port)} counter name sent-${name}`),
  '}',
  'chain arriving { type filter hook prerouting priority 0;',
  ...Object.entries(PORTS).map(([name, port]) => `udp dport ${String(port)} counter name arrived-${name}`),
  '}',
  '}',
].join('\n');

/** Starts it between the two; a datagram that leaves before the other end counts is not sent. */
export async function startUdpStream(ends: readonly [StreamEnd, StreamEnd], rates: StreamRates): Promise<UdpStream> {
  const [a, b] = ends;
  for (const { machine, netns } of ends) {
    const { status, stderr } = await machine.run([...inside(netns), 'nft', '-f', '-'], { stdin: TABLE });
    if (status !== 0) throw new Error(`nft counts nothing: ${stderr}`);
  }
  const services: Service[] = [];
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    const options = [to.address, String(rates.lasting), String(rates.fresh)];
    services.push(await from.machine.start([...inside(from.netns), process.execPath, '-e', SENDER, ...options]));
  }
  const started = performance.now();
  return {
    stop: async () => {
      const seconds = (performance.now() - started) / 1000;
      await Promise.all(services.map(async (service) => service.stop('KILL')));
      await sleep(ON_THE_WAY_MS);
      const [atA, atB] = [await countersOf(a), await countersOf(b)];
      const counts = Object.keys(PORTS).flatMap((name) => [
        { name: `${a.address} -> ${b.address} ${name}`, sent: atA(`sent-${name}`), arrived: atB(`arrived-${name}`) },
        { name: `${b.address} -> ${a.address} ${name}`, sent: atB(`sent-${name}`), arrived: atA(`arrived-${name}`) },
      ]);
      return { counts, refused: services.map((service) => service.log().slice(0, SHOWN)).join(''), seconds };
    },
  };
}

function inside(netns: string): [string, string] {
  return ['nsenter', `--net=${netns}`];
}

async function countersOf({ machine, netns }: StreamEnd): Promise<(name: string) => number> {
  const list = ['nft', '-j', 'list', 'counters', 'table', 'inet', 'stream'];
  const { nftables } = JSON.parse(await machine.exec(...inside(netns), ...list)) as {
    nftables: readonly CounterItem[];
  };
  const packets = new Map(
    nftables.flatMap(({ counter }) => (counter === undefined ? [] : [[counter.name, counter.packets] as const])),
  );
  return (name) => {
    const count = packets.get(name);
    if (count === undefined) throw new Error(`nft has no counter "${name}"`);
    return count;
  };
}

interface CounterItem {
  readonly counter?: { readonly name: string; readonly packets: number };
}
