import { readFileSync } from 'node:fs';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type MemoryNode, memoryNode } from '../../test/support/memory-node.ts';
import { coveredMs } from '../../test/support/phases.ts';
import { sumByName } from '../base/stopwatch.ts';
import type { CallOutcome } from './run-plugin.ts';

const delay = fc.integer({ min: 0, max: 500 });
const delays = fc.record({ input: delay, setup: delay, gate: delay, store: delay });

describe('the phases of a call', () => {
  it('cover its whole time, with all of the datastore time in phase "store", for every verb', async () => {
    await fc.assert(
      fc.asyncProperty(delays, async (taken) => {
        const node = await memoryNode(taken);
        for (const call of everyVerb(node)) {
          const [startMs, storeMs] = [node.clock.monotonic(), node.storeMs()];
          const { record, status } = await call();
          expect(status).toBe(0);
          expect(record.totalMs).toBe(node.clock.monotonic() - startMs);
          expect(coveredMs(record.phases)).toBeGreaterThanOrEqual(0.95 * record.totalMs);
          const sums = sumByName(record.phases);
          expect(sums['store'] ?? 0).toBe(node.storeMs() - storeMs);
          expect(sums['input'] ?? 0).toBe(taken.input);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('cover a call that fails, and mark the phase that failed', async () => {
    const node = await memoryNode({ input: 1, setup: 1, gate: 0, store: 3 });
    node.kernel.failAt('create-link');
    const { record } = await node.call('ADD');
    expect(record.failure).toMatchObject({ code: 'kernel/failed' });
    expect(record.phases.filter(({ isFailed }) => isFailed).map(({ name }) => name)).toEqual(['kernel']);
    expect(coveredMs(record.phases)).toBe(record.totalMs);
    expect(record.identity).toEqual({
      network: 'net',
      containerId: 'c1',
      ifName: 'eth0',
      pod: 'shop/web',
      node: 'node-a',
    });
  });

  it('are documented in docs/netplug-agent.md', async () => {
    const page = readFileSync('docs/netplug-agent.md', 'utf8');
    const node = await memoryNode({ input: 1, setup: 1, gate: 1, store: 1 });
    const names = new Set<string>();
    for (const call of everyVerb(node)) for (const { name } of (await call()).record.phases) names.add(name);
    expect(names.size).toBeGreaterThan(3);
    expect([...names].filter((name) => !page.includes(`| \`${name}\` `))).toEqual([]);
  });

  it('are recorded for a call with an unknown command', async () => {
    const { record } = await (await memoryNode()).call('ADD', { env: { CNI_COMMAND: 'FLY' } });
    expect(record).toMatchObject({ command: undefined, failure: { code: 'cni/env-invalid' }, parent: undefined });
  });
});

function everyVerb(node: MemoryNode): (() => Promise<CallOutcome>)[] {
  const program = 'netplug-ipam';
  let prevResult: unknown;
  return [
    async () => node.call('VERSION'),
    async () => node.call('STATUS'),
    async () => {
      const served = await node.call('ADD', { conf: { readiness_gates: ['http://127.0.0.1:1/ready'] } });
      prevResult = JSON.parse(served.stdout);
      return served;
    },
    async () => node.call('CHECK', { conf: { prevResult } }),
    async () => node.call('GC', { conf: { 'cni.dev/valid-attachments': [{ containerID: 'c1', ifname: 'eth0' }] } }),
    async () => node.call('DEL'),
    async () => node.call('ADD'),
    async () => node.call('GC', { conf: { 'cni.dev/valid-attachments': [] } }),
    async () => node.call('ADD', { program }),
    async () => node.call('STATUS', { program }),
    async () => node.call('DEL', { program }),
  ];
}
