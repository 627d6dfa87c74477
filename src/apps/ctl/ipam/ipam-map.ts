import type { AllocationStore } from '../../../datastore/allocation-store.ts';
import { writeFile } from 'node:fs/promises';
import { errnoOf, NetplugError } from '../../../base/errors.ts';
import { decodePools } from '../../../ipam/choose-pools.ts';
import { reservedCidrs } from '../../../model/ip-reservation.ts';
import { withStore } from '../connection.ts';
import type { Context, Status } from '../ports.ts';
import { painterFor } from '../screen.ts';
import { type MappedPool, mapPools } from './address-map.ts';
import { checkIpam } from './check-ipam.ts';
import { drawHtml, drawSvg } from './draw-map.ts';
import { isOf } from './finding.ts';
import { jsonText } from '../render-document.ts';
import { type Cluster, readCluster } from './read-cluster.ts';
import { renderMap } from './render-map.ts';

export interface MapOptions {
  readonly pool: string | undefined;
  readonly node: string | undefined;
  readonly form: 'table' | 'json' | 'svg' | 'html';
  /** Where a picture is written; standard output when it is left out. */
  readonly file: string | undefined;
}

/** Younger allocations may belong to an ADD that is still under way. */
const GRACE_MS = 120_000;

/** Draws the pools as blocks and addresses. @throws resource/not-found, cli/usage */
export async function ipamMap(context: Context, { pool, node, form, file }: MapOptions): Promise<Status> {
  return withStore(context, 'read', async (store) => {
    const cluster = await readCluster(context, store);
    const pools = decodePools(cluster.pools.map((value) => ({ value, version: '' })));
    const shown = pools.filter(({ name }) => pool === undefined || name === pool);
    if (shown.length === 0 && pool !== undefined) {
      const known = pools.map(({ name }) => `"${name}"`).join(', ');
      throw new NetplugError('resource/not-found', `Cannot find pool "${pool}"`, {
        hint: known === '' ? 'There is no pool at all' : `Name one of ${known}`,
      });
    }
    const mapped = mapPools({
      pools: shown,
      blocks: cluster.blocks,
      reserved: reservedCidrs(cluster.reservations),
      leaked: await leakedIn(context, store, cluster),
      node,
    });
    await write(context, rendered(context, mapped, form), file);
    return 0;
  });
}

function rendered({ io }: Context, pools: readonly MappedPool[], form: MapOptions['form']): string {
  if (form === 'json') return jsonText({ pools });
  if (form === 'svg') return drawSvg(pools);
  return form === 'html' ? drawHtml(pools) : renderMap(pools, painterFor(io.screen));
}

/** The addresses that the records alone show as leaked. */
async function leakedIn(
  { ports, signal }: Context,
  store: AllocationStore,
  cluster: Cluster,
): Promise<ReadonlySet<string>> {
  const { endpoints, pods } = await store.listEndpoints(undefined, signal);
  const findings = checkIpam({
    ...cluster,
    endpoints,
    pods,
    unreadable: [],
    local: undefined,
    nowMs: ports.clock.now(),
    graceMs: GRACE_MS,
  });
  return new Set(findings.filter((finding) => isOf(finding, 'leaked-address')).map(({ subject }) => subject));
}

async function write({ io }: Context, words: string, file: string | undefined): Promise<void> {
  if (file === undefined) {
    io.stdout(words);
    return;
  }
  try {
    await writeFile(file, words);
  } catch (cause) {
    throw new NetplugError('cli/usage', `Cannot write "${file}": ${errnoOf(cause) ?? String(cause)}`, {
      hint: 'Name a file in a folder that is there and can be written',
      cause,
    });
  }
  io.stdout(`${file} written\n`);
}
