import { expect, it } from 'vitest';
import { fillBlocks } from '../../scripts/bench/fill-blocks.ts';
import { type Job, startLauncher } from '../../scripts/bench/launcher.ts';
import { startAgent } from '../support/agent.ts';
import { bestFigures, MEASURED_AGENT, turnsDuring } from '../support/measured-agent.ts';
import { startNode } from '../support/node.ts';

const TAKEN = 2000;
const AT_ONCE = 32;
const ROUNDS = 5;
/** Until what is used often has been compiled. */
const WARM_UP_ROUNDS = 20;
/** In units of `Turns.unitMs`. */
const BOUNDS = { work: 9, wait: 16 };

it(`the event loop of an agent lets 99 in 100 events wait for less than ${String(BOUNDS.wait)} units of work, with ${String(TAKEN)} addresses taken and ${String(AT_ONCE)} calls at once`, async () => {
  await using node = await startNode({ mode: 'standalone' });
  await node.seedPool('pods', '10.64.0.0/16');
  await fillBlocks(node, { owner: node.name, count: TAKEN });
  await using agent = await startAgent(node, { command: MEASURED_AGENT });
  await using launcher = await startLauncher(node);
  const pods = await Promise.all(Array.from({ length: AT_ONCE }, async () => node.pod()));
  const job = (verb: string, container: string, netns: string): Job => ({
    argv: [`${node.cniPath}/netplug`],
    env: {
      NETPLUG_SOCKET: agent.socket,
      CNI_COMMAND: verb,
      CNI_CONTAINERID: container,
      CNI_NETNS: netns,
      CNI_IFNAME: 'eth0',
      CNI_PATH: node.cniPath,
    },
    stdin: JSON.stringify(node.netconf()),
  });
  const work = async (name: string, rounds: number): Promise<void> => {
    for (let round = 0; round < rounds; round += 1) {
      for (const verb of ['ADD', 'DEL']) {
        const jobs = pods.map(({ path }, index) => job(verb, `${name}-${String(round)}-${String(index)}`, path));
        const { runs } = await launcher.run(jobs, { atOnce: AT_ONCE });
        expect(runs.filter(({ status }) => status !== 0)).toEqual([]);
      }
    }
  };
  await work('warm-up', WARM_UP_ROUNDS);
  let windows = 0;
  const figures = await bestFigures(BOUNDS, async () => {
    windows += 1;
    return turnsDuring(node, agent, async () => work(`measured-${String(windows)}`, ROUNDS));
  });
  expect(figures.work).toBeLessThan(BOUNDS.work);
  expect(figures.wait).toBeLessThan(BOUNDS.wait);
});
