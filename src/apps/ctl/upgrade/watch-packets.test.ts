import { describe, expect, it } from 'vitest';
import { podsInMemory, type PodFailure } from '../../../../test/support/pods-in-memory.ts';
import { virtualClock } from '../../../base/clock.ts';
import { finishFlow, startFlow, whilePacketsFlow } from './watch-packets.ts';

const FLOW = { nodes: ['a', 'b', 'c'], image: { release: 'v3.27.0', image: 'tools', pullSecrets: [] } };
/** The servers on nodes `a` and `c`, which are made first. */
const TARGETS = ['udp://10.1.0.1:8080', 'udp://10.1.0.2:8080'] as const;
const neverArrives = (url: string) =>
  `${url}: full-size packets of 1500 bytes do not arrive since the watch began, while small ones do; MTU: packets of at most 1450 bytes arrive`;
const LOST = `${TARGETS[0]}: full-size packets of 1500 bytes are lost while small ones arrive: 8 of 45 within 7.0 s from 2026-12-01T00:00:00.000Z; MTU: packets of at most 1450 bytes arrive`;

function runWith(failure: PodFailure) {
  const said: string[] = [];
  const signal = new AbortController().signal;
  const api = podsInMemory(FLOW.nodes, failure);
  return { said, run: { api, clock: virtualClock(), signal, onProgress: (text: string) => void said.push(text) } };
}

describe('the watch of packets during an upgrade', () => {
  it('says at the end that neither small nor full-size packets were lost', async () => {
    const { run, said } = runWith(() => undefined);
    await startFlow(run, FLOW);
    await finishFlow(run);
    expect(said.at(-1)).toMatch(/^packets between pods of 3 nodes: none lost in \d\.\d minutes, small or full-size$/);
  });

  it('names paths that lose full-size packets before the upgrade, and watches small ones alone there', async () => {
    const { run, said } = runWith(({ name, command }) => {
      const url = TARGETS.find((each) => command[command.indexOf(each) - 1] !== '--small-only');
      return name.startsWith('netplug-flow-client') && url !== undefined ? neverArrives(url) : undefined;
    });
    await startFlow(run, FLOW);
    for (const url of TARGETS) expect(said).toContain(`b: ${neverArrives(url)}`);
    expect(said).toContainEqual(expect.stringContaining('the upgrade is not blamed'));
    await whilePacketsFlow(run, async () => Promise.resolve());
    await finishFlow(run);
    expect(said.at(-1)).toMatch(
      /, small or full-size; full-size ones not watched to udp:\/\/10\.1\.0\.1:8080, udp:\/\/10\.1\.0\.2:8080$/,
    );
  });

  it('stops a step while full-size packets are lost, and names the MTU', async () => {
    let isLosing = false;
    const { run } = runWith(({ name }) => (isLosing && name.startsWith('netplug-flow-client') ? LOST : undefined));
    await startFlow(run, FLOW);
    const step = whilePacketsFlow(run, async ({ signal }) => {
      isLosing = true;
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('interrupted'))));
    });
    await expect(step).rejects.toMatchObject({
      code: 'upgrade/packets-lost',
      message: `Full-size packets between pods were lost, while small ones arrived:\n  b: ${LOST}`,
    });
  });
});
