import { reasonOf } from '../../../base/errors.ts';
import type { ForecastFacts } from '../../../ipam/forecast/forecast-cluster.ts';
import { PoolGrowth } from '../../../ipam/forecast/pool-growth.ts';
import {
  type PoolOutlook,
  poolOutlooks,
  type Shortage,
  shortagesOfNextDay,
} from '../../../ipam/forecast/pool-outlook.ts';
import { recordEvent } from '../../../kube/record-event.ts';
import { DEFAULT_IPAM_CONFIGURATION, IPAM_CONFIGURATION_NAME } from '../../../model/ipam-configuration.ts';
import type { ResourceKind } from '../../../model/kinds.ts';
import { API_VERSION } from '../../../model/resource.ts';
import type { Controller, ControllerPorts, RunningController } from '../controller.ts';
import { type Feed, type Observed, type ObservedChange, resourcesOfFeed } from '../observed.ts';
import { NODE_RECORDS } from './node-controller.ts';

const NAME = 'node-pools';
const DAY_MS = 86_400_000;
export const POOL_RECORDS = feedOf('IPPool');
const RESERVATIONS = feedOf('IPReservation');
const CONFIGURATIONS = feedOf('IPAMConfiguration');

/** Measures how full the pools are, and reports those that are full soon. */
export function poolController(): Controller {
  return {
    name: NAME,
    feeds: [POOL_RECORDS, RESERVATIONS, CONFIGURATIONS, NODE_RECORDS],
    start: (ports, observed) => new PoolRun(ports, observed),
  };
}

class PoolRun implements RunningController {
  readonly #ports: ControllerPorts;
  readonly #observed: Observed;
  readonly #growth = new PoolGrowth();
  /** Pools and families that have an event. */
  #reported = new Set<string>();
  #isDue = false;

  constructor(ports: ControllerPorts, observed: Observed) {
    this.#ports = ports;
    this.#observed = observed;
  }

  /** Blocks are not followed: they change with every pod. */
  note(changes: readonly ObservedChange[]): boolean {
    this.#isDue ||= changes.some(({ feed }) => feed !== NODE_RECORDS);
    return this.#isDue;
  }

  async reconcile(_: { readonly isFull: boolean }, signal: AbortSignal): Promise<void> {
    const { store, clock, metrics } = this.#ports;
    const { blocks } = await store.listBlocks(signal);
    const facts = this.#facts(blocks.map(({ value }) => value));
    const outlooks = poolOutlooks(facts, this.#growth, clock.monotonic());
    metrics.cluster.setPools(outlooks);
    const texts = new Map([
      ...outlooks.filter(({ isReported }) => isReported).map((each) => [each.name, this.#textOf(each)] as const),
      ...(await shortagesOfNextDay(facts, this.#growth, signal)).map(
        (each) => [`IPv${String(each.family)}`, shortageText(each)] as const,
      ),
    ]);
    metrics.setProblems(NAME, texts.size);
    for (const [name, text] of texts) if (!this.#reported.has(name)) await this.#report(name, text, signal);
    this.#reported = new Set(texts.keys());
    this.#isDue = false;
  }

  #facts(blocks: ForecastFacts['blocks']): ForecastFacts {
    const configurations = resourcesOfFeed(this.#observed, CONFIGURATIONS, 'IPAMConfiguration');
    const config = configurations.find(({ metadata }) => metadata.name === IPAM_CONFIGURATION_NAME);
    return {
      pools: resourcesOfFeed(this.#observed, POOL_RECORDS, 'IPPool'),
      reservations: resourcesOfFeed(this.#observed, RESERVATIONS, 'IPReservation'),
      nodes: resourcesOfFeed(this.#observed, NODE_RECORDS, 'Node'),
      config: { ...DEFAULT_IPAM_CONFIGURATION, ...config?.spec },
      blocks,
    };
  }

  #textOf({ addresses, free, fullInDays }: PoolOutlook): string {
    const left = `${String(free)} of ${String(addresses)} addresses are free`;
    if (fullInDays === undefined || fullInDays === 0) return left;
    const day = new Date(this.#ports.clock.now() + fullInDays * DAY_MS).toISOString().slice(0, 10);
    return `${left}; with the growth of the last day none is left on ${day}`;
  }

  /** An event is for people; without it the work goes on. */
  async #report(name: string, text: string, signal: AbortSignal): Promise<void> {
    const { api, clock, random, log } = this.#ports;
    log.warning('pool nearly full', { pool: name, outlook: text });
    const about = { apiVersion: API_VERSION, kind: 'IPPool', name };
    const event = {
      about,
      reason: 'NetplugPoolNearlyFull',
      message: `${text}: create another pool in time, or release leaked addresses`,
      at: new Date(clock.now()).toISOString(),
      id: random.id(),
    } as const;
    await recordEvent(api, event, signal).catch((cause: unknown) => {
      if (!signal.aborted) log.warning('event not recorded', { pool: name, reason: reasonOf(cause) });
    });
  }
}

function feedOf(kind: ResourceKind): Feed {
  return { side: 'datastore', query: { kind: 'resources', of: kind } };
}

function shortageText({ family, wanted, missing, node }: Shortage): string {
  return `with the growth of the last day, ${String(missing)} of the next ${String(wanted)} IPv${String(family)} addresses are missing within a day, first on node ${node}`;
}
