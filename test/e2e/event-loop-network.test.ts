// What the agent does between nodes is not done in the way of calls.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type CrowdedNode, openCrowdedNode, untilWorking } from '../../scripts/bench/crowded-node.ts';
import { expectedTables, kernelTablesOf, routeWorkOf } from '../../scripts/bench/route-work.ts';
import type { Agent } from '../support/agent.ts';
import { bestFigures, MEASURED_AGENT, turnsDuring } from '../support/measured-agent.ts';
import { takeAwayEtcd } from '../support/node-etcd.ts';
import type { Figures } from '../support/turn-figures.ts';
import type { Turns } from '../support/turns.ts';
import { until } from '../support/until.ts';

const NODES = 1000;
/** In units of `Turns.unitMs`. */
const BOUNDS = { work: 9, wait: 32 };

let crowded: CrowdedNode;
beforeAll(async () => {
  crowded = await openCrowdedNode();
  await crowded.crowd.growTo(NODES);
});
afterAll(async () => crowded[Symbol.asyncDispose]());

it(`the event loop lets 99 in 100 events wait for less than ${String(BOUNDS.wait)} units of work while an agent makes the routes to ${String(NODES)} nodes anew, as after a boot`, async () => {
  await using agent = await startMeasured();
  const measure = async (): Promise<Turns> => {
    const { changes } = await routeWorkOf(agent);
    return turnsDuring(crowded.node, agent, async () => {
      await crowded.forget();
      await until(async () => (await routeWorkOf(agent)).changes >= changes + crowded.crowd.blocks, 'all are made');
    });
  };
  expectWithinBounds(await bestFigures(BOUNDS, measure));
  await untilWorking(agent);
  await expect
    .poll(async () => kernelTablesOf(crowded.node), { timeout: 20_000 })
    .toEqual(expectedTables(crowded.crowd));
});

it('and while the way to all of them changes with the mode of a pool', async () => {
  await using agent = await startMeasured();
  let mode: 'Always' | 'CrossSubnet' = 'Always';
  const measure = async (): Promise<Turns> => {
    mode = mode === 'Always' ? 'CrossSubnet' : 'Always';
    const { changes } = await routeWorkOf(agent);
    return turnsDuring(crowded.node, agent, async () => {
      await crowded.crowd.setMode(mode);
      await until(
        async () => (await routeWorkOf(agent)).changes >= changes + crowded.crowd.blocks,
        'routes are others',
      );
    });
  };
  expectWithinBounds(await bestFigures(BOUNDS, measure));
});

it('and while it reads everything again, after etcd was away', async () => {
  await using agent = await startMeasured();
  const figures = await bestFigures(BOUNDS, async () =>
    turnsDuring(crowded.node, agent, async () => {
      await using etcd = await takeAwayEtcd(crowded.node, 'is killed');
      await until(async () => !(await isUp(agent)), 'the agent misses etcd');
      await etcd.end();
      await untilWorking(agent);
    }),
  );
  expectWithinBounds(figures);
});

function expectWithinBounds({ work, wait }: Figures): void {
  expect(work).toBeLessThan(BOUNDS.work);
  expect(wait).toBeLessThan(BOUNDS.wait);
}

async function startMeasured(): Promise<Agent> {
  const agent = await crowded.launchAgent({ command: MEASURED_AGENT });
  await untilWorking(agent);
  return agent;
}

async function isUp(agent: Agent): Promise<boolean> {
  return (await agent.ask('/metrics')).body.includes('netplug_network_problems 0');
}
