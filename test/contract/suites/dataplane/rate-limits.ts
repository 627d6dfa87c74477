import { describe, expect, it } from 'vitest';
import type { Kernel, PodNetwork } from '../../../../src/dataplane/kernel.ts';
import { boundsFor, neededBounds, type RateLimit, type RateLimits } from '../../../../src/dataplane/rate-limits.ts';
import { networkOf, type Variation } from './kernel.ts';

export interface RateLimitsFixture extends AsyncDisposable {
  readonly kernel: Kernel & RateLimits;
  newPod(): Promise<string>;
  /** Has the standard plugin limit what the pod receives and sends; bytes, and bytes per second. */
  limit(network: PodNetwork, rate: { readonly bytesPerSecond: number; readonly burstBytes: number }): Promise<void>;
}

const MBIT = 125_000;
/** What a runtime passes. */
export const RUNTIME_BURST = 536_870_911;
const never = new AbortController().signal;

/** What is true of the limits of the rates of pods, whatever is underneath. */
export function rateLimitsContract(name: string, makeFixture: () => Promise<RateLimitsFixture>): void {
  describe(`rate limits contract (${name})`, () => {
    it('lists the limits of pods in both directions, and bounds each by itself', async () => {
      await using host = await makeFixture();
      const network = limitedNetwork(await host.newPod());
      await host.kernel.apply(network, never);
      expect(await host.kernel.listRateLimits()).toEqual([]);
      await host.limit(network, { bytesPerSecond: 20 * MBIT, burstBytes: RUNTIME_BURST });
      const { ingress, egress } = await byDirection(host.kernel);
      for (const limit of [ingress, egress]) {
        expect(limit).toMatchObject({ owner: network.owner, bytesPerSecond: 20 * MBIT, isBounded: false });
        expect(neededBounds(limit!, 100)).toEqual(boundsFor(20 * MBIT, 100));
      }
      expect(ingress?.device).toBe(network.hostLinkName);

      for (const burstMs of [100, 300]) {
        await host.kernel.boundRate(egress!, boundsFor(20 * MBIT, burstMs));
        const found = await byDirection(host.kernel);
        expect(found.ingress).toEqual(ingress);
        expect(found.egress).toMatchObject({ bytesPerSecond: 20 * MBIT, isBounded: true });
        expect(neededBounds(found.egress!, burstMs)).toBeUndefined();
      }
    });

    it('keeps to bounds at the least and at great rates', async () => {
      await using host = await makeFixture();
      for (const [index, bytesPerSecond] of [125, 1000 * MBIT, 100_000 * MBIT].entries()) {
        const network = limitedNetwork(await host.newPod(), {
          containerId: `c${String(index)}`,
          hostLinkName: `npl012345678${String(index)}`,
          addresses: [`10.65.1.${String(index)}`],
        });
        await host.kernel.apply(network, never);
        await host.limit(network, { bytesPerSecond, burstBytes: RUNTIME_BURST });
        for (const limit of await host.kernel.listRateLimits())
          await host.kernel.boundRate(limit, boundsFor(limit.bytesPerSecond, 100));
        for (const limit of await host.kernel.listRateLimits()) expect(neededBounds(limit, 100)).toBeUndefined();
      }
    });

    it('leaves a sane burst, and has nothing to bound when the pod has gone', async () => {
      await using host = await makeFixture();
      const network = limitedNetwork(await host.newPod());
      await host.kernel.apply(network, never);
      await host.limit(network, { bytesPerSecond: 20 * MBIT, burstBytes: 10 * MBIT });
      const { ingress, egress } = await byDirection(host.kernel);
      expect([ingress, egress].map((limit) => neededBounds(limit!, 100))).toEqual([undefined, undefined]);
      await host.kernel.remove(network.hostLinkName, network.owner);
      await host.kernel.boundRate(ingress!, boundsFor(20 * MBIT, 100));
      expect(await host.kernel.listRateLimits()).toEqual([]);
    });
  });
}

/** The plugin takes no network with a space in its name. */
export function limitedNetwork(netns: string, variation?: Variation): PodNetwork {
  const network = networkOf(netns, variation);
  return { ...network, owner: { ...network.owner, network: 'pods' } };
}

async function byDirection(kernel: RateLimits): Promise<Partial<Record<RateLimit['direction'], RateLimit>>> {
  return Object.fromEntries((await kernel.listRateLimits()).map((limit) => [limit.direction, limit]));
}
