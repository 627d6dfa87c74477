import { afterEach, expect, it } from 'vitest';
import { podOf } from '../../../test/support/ctl-cluster.ts';
import { attachmentOf, requestOf } from '../../../test/support/ipam-bench.ts';
import { type Resident, residentOn, type World, worldWith } from '../../../test/support/resident-world.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../base/clock.ts';
import { silentLog } from '../../base/log.ts';
import { systemRandom } from '../../base/random.ts';
import { interfaceKey } from '../../model/names.ts';
import { endpointIdOf, type WorkloadEndpoint } from '../../model/workload-endpoint.ts';
import { formatAddress } from '../../net/address.ts';
import { assign } from '../assign.ts';
import type { AssignedAddress } from '../plan-assign.ts';

const signal = new AbortController().signal;
let world: World;
afterEach(async () => world.end());

/** Assigns an address to a sandbox of the pod `web` with the UID, and records its endpoint. */
async function addWeb({ store, links }: Resident, container: string, podUID: string): Promise<void> {
  const withAddresses = (assigned: readonly AssignedAddress[]): WorkloadEndpoint => {
    const { spec, ...web } = podOf(
      'web',
      'n1',
      assigned.map(({ address }) => `${formatAddress(address)}/32`),
    );
    return { ...web, spec: { ...spec, containerID: container, podUID } };
  };
  const request = { ...requestOf(container, {}), endpoint: { id: endpointIdOf(withAddresses([])), withAddresses } };
  const ports = { store, clock: systemClock, random: systemRandom, log: silentLog };
  const assigned = await assign(ports, request, { signal, cleanupSignal: signal });
  const owner = attachmentOf(container);
  links.set(
    interfaceKey(owner),
    assigned.map(({ address }) => ({ address, owner })),
  );
}

async function containers(): Promise<readonly string[]> {
  const { endpoints } = await world.store().listEndpoints(undefined, signal);
  return endpoints.map(({ value }) => value.spec.containerID).toSorted();
}

it('the record of a pod that runs on outlives the ADD of the next pod of its name, which a crash undoes', async () => {
  world = await worldWith('10.0.0.0/24', 26);
  const agent = await residentOn(world);
  await addWeb(agent, 'c1', 'u1');
  await until(async () => (await containers()).join() === 'c1', 'the first is recorded');
  await addWeb(agent, 'c2', 'u2');
  await until(async () => (await containers()).join() === 'c1,c2', 'both are recorded');
  world.isAway = true;
  await addWeb(agent, 'c3', 'u3');
  agent.links.delete(interfaceKey(attachmentOf('c3')));
  await agent.kill();
  world.isAway = false;
  await residentOn(world, { of: agent });
  await until(async () => (await containers()).join() === 'c1,c2', 'the records of both that have links are there');
  expect(world.holders().map((held) => held.split(' ')[0])).toEqual(['c1', 'c2']);
});
