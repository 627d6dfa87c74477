import { isNetplugError } from '../../base/errors.ts';
import { KERNEL_METRIC } from '../../bgp/kernel-metric.ts';
import type { HostChange, HostNetwork } from '../../dataplane/host-network.ts';
import { formatCidr, parseCidr } from '../../net/cidr.ts';
import { PACKET_TABLES } from '../packet-tables.ts';
import { TUNNEL_KINDS, TUNNELS } from '../../routing/tunnels.ts';
import type { HostPorts } from './host-ports.ts';
import { birdPart } from './bird-part.ts';
import type { Left, Part } from './part.ts';

/** Returns what the agent configures on a host for traffic between nodes. BIRD goes first, since it would restore its routes. */
export function networkParts(ports: HostPorts): readonly Part[] {
  const host = ports.openHostNetwork();
  return [birdPart(ports), learnedRoutes(host), ownRoutes(host), tunnels(host), tables(ports)];
}

/** Routes that a killed BIRD has left behind. */
function learnedRoutes(host: HostNetwork): Part {
  const deletion = (text: string): HostChange => ({
    kind: 'delete-learned-route',
    destination: parseCidr(text),
    metric: KERNEL_METRIC,
  });
  return routes(host, async () => (await host.listLearnedDestinations(KERNEL_METRIC)).map(formatCidr), deletion);
}

function ownRoutes(host: HostNetwork): Part {
  const deletion = (text: string): HostChange => ({
    kind: 'delete-route',
    route: { destination: parseCidr(text), hop: { kind: 'blackhole' } },
  });
  return routes(
    host,
    async () => (await host.listRoutes()).map(({ destination }) => formatCidr(destination)),
    deletion,
  );
}

function routes(
  host: HostNetwork,
  list: () => Promise<readonly string[]>,
  deletion: (destination: string) => HostChange,
): Part {
  return {
    kind: 'route',
    find: async () => [...new Set(await list())],
    remove: async (subjects, signal) => {
      const changes = new Map(subjects.map((subject) => [deletion(subject), subject]));
      const refused = await host.change([...changes.keys()], signal);
      return refused.map(({ change, reason }) => ({ subject: changes.get(change) ?? '', reason }));
    },
  };
}

function tunnels(host: HostNetwork): Part {
  return {
    kind: 'tunnel',
    find: async () => host.findTunnels(TUNNEL_KINDS.map((kind) => TUNNELS[kind].device)),
    remove: async (subjects) => eachOf(subjects, async (name) => void (await host.removeTunnel(name))),
  };
}

function tables({ openFilter }: HostPorts): Part {
  return {
    kind: 'table',
    find: async (signal) => {
      using filter = openFilter();
      const found: string[] = [];
      for (const name of PACKET_TABLES) if (await filter.has(name, signal)) found.push(name);
      return found;
    },
    remove: async (subjects, signal) => {
      using filter = openFilter();
      return await eachOf(subjects, async (name) => filter.remove(name, signal));
    },
  };
}

/** Removes the subjects in sequence, and continues after a failure. */
export async function eachOf(
  subjects: readonly string[],
  remove: (subject: string) => Promise<void>,
): Promise<readonly Left[]> {
  const left: Left[] = [];
  for (const subject of subjects) {
    try {
      await remove(subject);
    } catch (cause) {
      if (!isNetplugError(cause, 'kernel/failed')) throw cause;
      left.push({ subject, reason: cause.message });
    }
  }
  return left;
}
