import { NetplugError } from '../base/errors.ts';
import { add } from './add.ts';
import type { AddressSource } from './address-source.ts';
import type { CniCall, CniPorts } from './call.ts';
import { check, readPrevious } from './check.ts';
import { delegatedAddresses } from './delegated-addresses.ts';
import { del } from './del.ts';
import { gc, isGcWanted, isKeptOf } from './gc.ts';
import { hostLocalConf } from './host-local-conf.ts';
import { hostLocalFolder, takenAddresses } from './host-local-files.ts';
import { findFullSet } from './host-local-room.ts';
import { readPodSubnets, WHOLE_FAMILIES } from './pod-subnets.ts';
import type { Invocation } from './invocation.ts';
import { ipamAdd } from './ipam-add.ts';
import { ownAddresses } from './own-addresses.ts';
import { addressesIn, type CniResult } from './result.ts';
import { assertEnforceable } from './pod-isolation.ts';
import { spareLiving } from './spare-living.ts';
import { status } from './status.ts';

/** Serves one verb of the main plugin. */
export async function serveNetwork(
  ports: CniPorts,
  call: CniCall,
  { command, path }: Invocation,
): Promise<CniResult | undefined> {
  const source = sourceOf(ports, call, path);
  switch (command) {
    case 'ADD':
      return add(ports, source, call);
    case 'DEL':
      await del(ports, source, call);
      break;
    case 'CHECK':
      await check(ports, source, call);
      break;
    case 'GC':
      if (isGcWanted(ports, call)) await gc(ports, source, await spareLiving(ports, call));
      break;
    case 'STATUS':
      await status(source, call, async () => assertEnforceable(ports, call));
      break;
    case 'VERSION':
      break;
  }
  return undefined;
}

/** Serves one verb of netplug-ipam, the address manager for other main plugins. */
export async function serveIpam(
  ports: CniPorts,
  call: CniCall,
  { command }: Invocation,
): Promise<CniResult | undefined> {
  const { ipam } = call.config;
  if (ipam.type !== 'netplug-ipam') {
    throw new NetplugError('netconf/invalid', 'Cannot serve as address manager: ipam.type is not "netplug-ipam"', {
      hint: 'Set ipam.type to "netplug-ipam"',
      facts: { paths: ['ipam.type'] },
    });
  }
  const source = ownAddresses(ports, ipam);
  switch (command) {
    case 'ADD':
      return ipamAdd(ports, ipam, call);
    case 'DEL':
      await source.release(call, async () => Promise.resolve());
      break;
    case 'CHECK':
      await source.check(call, addressesIn(readPrevious(call).ips));
      break;
    case 'GC':
      if (isGcWanted(ports, call)) await source.collect(call, isKeptOf(call));
      break;
    case 'STATUS':
      await status(source, call);
      break;
    case 'VERSION':
      break;
  }
  return undefined;
}

function sourceOf(ports: CniPorts, { config }: CniCall, path: readonly string[]): AddressSource {
  const { ipam } = config;
  if (ipam.type === 'netplug-ipam') return ownAddresses(ports, ipam);
  if (ipam.type === 'other') {
    const { plugin } = ipam;
    const confOf = async ({ raw }: CniCall): Promise<CniCall['raw']> => Promise.resolve(raw);
    return delegatedAddresses(ports, { plugin, confOf, findFull: async () => Promise.resolve(undefined) }, path);
  }
  const { podCidrPaths } = ipam;
  return delegatedAddresses(
    ports,
    {
      plugin: 'host-local',
      // In DEL and GC host-local finds addresses by container. They must not depend on the API.
      confOf: async (call, command) => {
        const needsNone = podCidrPaths.length === 0 || command === 'DEL' || command === 'GC';
        return hostLocalConf(call.raw, needsNone ? WHOLE_FAMILIES : await readPodSubnets(ports, call));
      },
      // host-local itself has no STATUS (1.9.1), and gives no code of its own to an ADD that finds no address.
      findFull: async (conf) => {
        const folder = hostLocalFolder(conf);
        return folder === undefined ? undefined : findFullSet(conf, await takenAddresses(folder));
      },
    },
    path,
  );
}
