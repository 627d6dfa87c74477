import { describe, expect, it } from 'vitest';
import { podState, type PodState } from '../../../kube/status/pod-state.ts';
import { lossesOf, packetsLost, unfitPaths, withMtuChange } from './flow-losses.ts';

const SMALL = 'udp://10.1.0.7:8080: 40 of 900 datagrams lost within 1.9 s from 2026-12-01T00:00:00.000Z';
const FULL =
  'udp://10.1.0.7:8080: full-size packets of 1500 bytes are lost while small ones arrive: 8 of 45 within 7.0 s from 2026-12-01T00:00:00.000Z; MTU: packets of at most 1450 bytes arrive';
const NEVER =
  'udp://10.1.0.7:8080: full-size packets of 1500 bytes do not arrive since the watch began, while small ones do; MTU: packets of at most 1450 bytes arrive';

const SERVER: PodState = {
  ...podState({ metadata: { name: 'netplug-flow-server-a' } }),
  node: 'a',
  phase: 'ready',
  addresses: ['10.1.0.7'],
};
const clientThatPrinted = (output: string): PodState => ({
  ...podState({ metadata: { name: 'netplug-flow-client-b' } }),
  node: 'b',
  phase: 'failed',
  exitCode: 1,
  output,
});
const READY = new Set(['a', 'b']);

describe('the losses between pods', () => {
  it('are those of a size to a pod that runs on a ready node', () => {
    const pods = [SERVER, clientThatPrinted(`${SMALL}\n${FULL}\n`)];
    expect(lossesOf(pods, READY)).toEqual([
      { kind: 'small', text: `b: ${SMALL}` },
      { kind: 'full-size', text: `b: ${FULL}` },
    ]);
    expect(lossesOf(pods, new Set(['b']))).toEqual([]);
    expect(lossesOf(pods.slice(1), READY)).toEqual([]);
  });

  it('have no reason where the output of the client cannot be read', () => {
    expect(lossesOf([SERVER, clientThatPrinted('')], READY)).toEqual([
      { kind: 'unknown', text: 'b: pod netplug-flow-client-b failed without a reason' },
    ]);
  });

  it('do not contain packets that never got through, whose paths are named instead', () => {
    const client = clientThatPrinted(NEVER);
    expect(lossesOf([SERVER, client], READY)).toEqual([]);
    expect(unfitPaths(client)).toEqual([{ address: '10.1.0.7', text: `b: ${NEVER}` }]);
    expect(unfitPaths(clientThatPrinted(SMALL))).toEqual([]);
  });

  it('name the MTU when full-size packets alone are lost', () => {
    const lost = packetsLost(lossesOf([SERVER, clientThatPrinted(FULL)], READY));
    expect(lost.message).toBe(`Full-size packets between pods were lost, while small ones arrived:\n  b: ${FULL}`);
    expect(lost.hint).toContain('Compare the MTU of pods, tunnels and uplinks');
    expect(lost.facts).toEqual({ losses: [`b: ${FULL}`] });
    const both = packetsLost(lossesOf([SERVER, clientThatPrinted(`${SMALL}\n${FULL}`)], READY));
    expect(both.message).toMatch(/^Packets between pods were lost:\n/);
    expect(both.hint).toContain('log of the agents');
  });

  it('come with the old and the new size when the upgrade changes the MTU on purpose', () => {
    const lost = packetsLost([{ kind: 'full-size', text: `b: ${FULL}` }]);
    expect(withMtuChange(lost, undefined)).toBe(lost);
    const changed = withMtuChange(lost, { from: 1500, to: 1400 });
    expect(changed).toMatchObject({ code: 'upgrade/packets-lost', hint: lost.hint });
    expect(changed.message).toContain('\n  the upgrade lowers the MTU of pods from 1500 bytes to 1400 bytes; ');
  });
});
